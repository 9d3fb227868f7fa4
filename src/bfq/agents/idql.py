"""Implicit diffusion Q-learning (IDQL): IQL's critics select among the actions of a diffusion policy.

    for each update:
        draw (s, a, r, s′) from the data
        # values, at every second update
        ψ ← Adam on E |κ − 1[u < 0]| u²,  u = min_i Q_φi′(s, a) − V_ψ(s)
        φ ← Adam on Σ_i E (Q_φi(s, a) − r − γ · mask · V_ψ(s′))²              V after its step
        φ′ ← (1 − ρ) φ′ + ρ φ
        # behavior, on its own
        θ ← AdamW on E ‖ε_θ(a_t, t; s) − ε‖²,  a_t = α_t a + σ_t ε,  t uniform on T = 5 times
        θ′ ← (1 − ρ) θ′ + ρ θ
    act: N samples of θ′, and one of them drawn from softmax(w · A), A = min_i Q_φi′ − V_ψ

The defaults are CleanDiffuser's. Its target critics take 0.995 of the online ones where 0.005 is meant, which
is the default here (theirs: critic_target_rate = 0.995). Its critics' cosine counts their own updates over
all `steps`, so their rate ends at half its start; so it does here.

The authors' own code: batch_size = 512, noise_schedule = "vp", sampler = "sqrt_beta", sum_loss = true,
architecture = "idql", critic = "relu", critic_schedule = "constant", weight_decay = 0,
policy_target_rate = 0.001, and the argmax of N candidates, where A and Q agree. These are their first
version's networks with the batch of a later one (the first: 2048). Not implemented: Glorot initialization of
the critics; the mean over both critics' losses, which does not change Adam's step; clipping of actions to
±(1 − 1e-5) and a validation set of 5 %; and the first version's second call of the policy's step in each
update, on an empty batch, which moves θ by Adam's momentum only and θ′ and the cosine once more.
"""

from typing import Literal, NamedTuple, get_args

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from bfq.agents import dql, fields, iql, learning
from bfq.agents.contract import Acting, Actions, Agent, Batch, Key, Metrics, Observations, Spec
from bfq.agents.learning import Learner, Step, descend, learning_rate, polyak
from bfq.flow.diffusion import Recipe, noise_loss
from bfq.nets import Critics, make_critics
from bfq.nets.residual import NoiseResNet


@fields.hyperparameters
class Config(learning.ActorCritic):
    """Hyperparameters of IDQL."""

    steps: fields.Count = 1_000_000  # updates; CleanDiffuser: 2,000,000, official: 3,000,000
    critic_batch_size: fields.Count = 256  # the first rows of the batch train the critics

    # Behavior
    diffusion_steps: fields.Count = 5  # T, the times of the noise schedule
    noise_schedule: Literal["cosine", "vp"] = "cosine"  # cosine (CleanDiffuser) | vp (official)
    sampler: fields.Sampler = "ancestral"  # ancestral (CleanDiffuser) | sqrt_beta (official)
    sum_loss: bool = False  # sum over action dimensions (official), not their mean

    # Value
    expectile: fields.Fraction = 0.7  # κ
    critic_every: fields.Count = 2  # updates of the behavior per update of the critics

    # Optimization
    schedule: fields.Schedule = "cosine"  # of the behavior, over `steps`
    critic_schedule: fields.Schedule = "cosine"  # of V and Q, counted in their own updates
    weight_decay: fields.Fixed = 0.01  # of the behavior only: PyTorch's AdamW
    critic_target_rate: fields.Fraction = 0.005  # ρ for φ′, at each update of the critics
    policy_target_rate: fields.Fraction = 1e-4  # ρ for θ′, at each update

    # Networks
    architecture: Literal["clean_diffuser", "idql"] = "clean_diffuser"  # idql: official
    width: fields.Width = 256  # units of the behavior's residual stream
    depth: fields.Depth = 3  # its blocks
    critic: fields.CriticKind = "norm_mish"  # kind of Q and V

    def check(self) -> None:
        """Refuse fewer times than the noise schedule needs, and what the residual network lacks."""
        iql.check_one_width(self)
        if self.activation or self.norm:
            raise ValueError("IDQL's policy has its own activation and norm: leave them out.")
        dql.check_times("diffusion_steps", self.diffusion_steps, self.noise_schedule)

    def recipe(self, acting: Acting = Acting()) -> Recipe:
        """As many steps as times, unless acting asks for others."""
        return dql.sampling_recipe(self, acting, self.diffusion_steps, self.diffusion_steps)


class State(NamedTuple):
    """Everything that training changes."""

    policy: Learner  # θ
    policy_target: NoiseResNet  # θ′
    value: Learner  # ψ
    critics: Learner  # φ
    critics_target: Critics  # φ′
    told: Metrics  # metrics of the critics' last update
    step: Step


def init(key: Key, spec: Spec, config: Config) -> State:
    """Random networks, targets equal to them."""
    policy_key, value_key, critic_key = jax.random.split(key, 3)
    policy = NoiseResNet(policy_key, *spec, int(config.width), config.depth, config.architecture)
    value = iql.make_value(value_key, spec, config)
    critics = make_critics(critic_key, spec, config)
    return State(
        policy=learning.learner(policy),
        policy_target=policy,
        value=learning.learner(value),
        critics=learning.learner(critics),
        critics_target=critics,
        told={name: jnp.zeros(()) for name in ("value_loss", "v", "critic_loss", "q")},
        step=jnp.zeros((), jnp.int32),
    )


def policy_loss(
    policy: NoiseResNet, batch: Batch, key: Key, config: Config
) -> tuple[Float[Array, ""], None]:
    """E ‖ε_θ(a_t, t; s) − ε‖², with dropout."""
    noise_key, dropout_key = jax.random.split(key)

    def predict(x: Array, t: Array) -> Array:
        return policy(x, t, batch.observations, dropout_key)

    return noise_loss(
        predict, config.recipe().schedule, batch.actions, noise_key, config.sum_loss
    ), None


def update_critics(state: State, batch: Batch, config: Config) -> State:
    """V on the target critics, Q on the new V, then φ′ follows the new Q."""
    batch = jax.tree.map(lambda rows: rows[: config.critic_batch_size], batch)
    count = state.step // config.critic_every
    rate = learning_rate(config.critic_rate(), config.critic_schedule, count, config.steps)
    value, _, v_metrics = iql.fit_value(state, batch, config, rate)
    critics, _, q_metrics = descend(
        state.critics,
        lambda phi: iql.value_backup_loss(phi, value.params, batch, config.discount),
        rate,
    )
    target = polyak(state.critics_target, critics.params, config.critic_target_rate)
    metrics = {**v_metrics, **q_metrics}
    return state._replace(value=value, critics=critics, critics_target=target, told=metrics)


def update(state: State, batch: Batch, key: Key, config: Config) -> tuple[State, Metrics]:
    """One update of the behavior and, when it is due, of the critics."""
    state = learning.every(
        state.step, config.critic_every, lambda now: update_critics(now, batch, config), state
    )
    policy, loss, _ = descend(
        state.policy,
        lambda theta: policy_loss(theta, batch, key, config),
        learning_rate(config.learning_rate, config.schedule, state.step, config.steps),
        weight_decay=config.weight_decay,
    )
    target = polyak(state.policy_target, policy.params, config.policy_target_rate)
    new = state._replace(policy=policy, policy_target=target, step=state.step + 1)
    return new, {"bc_loss": loss, **state.told}


def advantage(
    state: State, observations: Observations, actions: Actions, config: Config
) -> Float[Array, " b"]:
    """A(s, a) = min_i Q_φi′(s, a) − V_ψ(s)."""
    q = learning.aggregated(state.critics_target(observations, actions), config)
    return q - state.value.params(observations)


def act(
    state: State, observations: Observations, key: Key, config: Config, acting: Acting
) -> Actions:
    """A sample of the EMA or the online behavior; of N candidates, the advantage selects one."""
    policy = state.policy.params if acting.policy == "online" else state.policy_target
    return learning.best_of_n(
        lambda s, k: dql.sample(policy, s, k, config, acting),  # without dropout
        lambda s, a: advantage(state, s, a, config),
        observations,
        key,
        acting,
    )


AGENT = Agent(
    "idql",
    "Implicit diffusion Q-learning",
    Config,
    init,
    update,
    act,
    samplers=get_args(fields.Sampler),
    reference="Hansen-Estruch, Kostrikov, Janner, Kuba and Levine, IDQL: Implicit Q-Learning as an "
    "Actor-Critic Method with Diffusion Policies, 2023",
    defaults="CleanDiffuser's for D4RL locomotion",
)
