"""How well a trained flow map matches the closed form of a Gaussian target, by rule for drawing the times.

Run: python benchmarks/time_rules.py   (about a minute on two cores)
"""

from functools import partial

import jax
import jax.numpy as jnp

from bfq.agents.bfq import Config, bootstrap_loss
from bfq.agents.learning import descend, learner, learning_rate
from bfq.flow.maps import flow_map
from bfq.nets.velocity import RawTimeVelocity

MEAN, STD, UPDATES = 0.7, 0.3, 4000
SPANS = ((0.0, 1.0), (0.3, 0.9), (0.0, 0.5))
RULES = (("nested", 0.0), ("ordered", 0.0), ("sorted_below", 0.0), ("nested", 0.25))


def spread(t):
    return jnp.sqrt((1 - t) ** 2 * STD**2 + t**2)


def exact_map(x, r, t):
    return (1 - r) * MEAN + spread(r) / spread(t) * (x - (1 - t) * MEAN)


@partial(jax.jit, static_argnums=(1, 2))
def train(state, rule, share):
    def step(state, k):
        data_key, loss_key = jax.random.split(jax.random.fold_in(jax.random.key(1), k))
        action = MEAN + STD * jax.random.normal(data_key, (256, 2))
        config = Config(time_rule=rule, full_span_share=share)
        none = jnp.zeros((256, 0))
        rate = learning_rate(3e-3, "cosine", k, UPDATES)
        return descend(
            state,
            lambda net: bootstrap_loss(net, action, none, loss_key, config)[:2],
            rate,
        )[:2]

    return jax.lax.scan(step, state, jnp.arange(UPDATES))[0]


def error(net, r, t):
    x = jax.random.normal(jax.random.key(2), (2000, 2))
    start = (1 - t) * MEAN + spread(jnp.asarray(t)) * x
    found = flow_map(net, start, jnp.full(2000, r), jnp.full(2000, t), jnp.zeros((2000, 0)))
    return float(jnp.abs(found - exact_map(start, r, jnp.asarray(t))).mean())


def main():
    print("mean |π_θ − π| by span (r, t)     " + "  ".join(f"({r:g}, {t:g})" for r, t in SPANS))
    for rule, share in RULES:
        net = RawTimeVelocity(jax.random.key(0), 0, 2, 64, 2, activation="mish")
        trained = train(learner(net), rule, share).params
        errors = "  ".join(f"{error(trained, r, t):8.4f}" for r, t in SPANS)
        print(f"{rule:14} full-span share {share:4.2f}  {errors}")


if __name__ == "__main__":
    main()
