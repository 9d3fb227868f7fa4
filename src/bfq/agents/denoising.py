"""What agents whose policy denoises share: how it is asked, what the critics learn from it, and acting.

The Config of such an agent has a `recipe`, which says how its network turns noise into an action.
"""

from typing import Any

import jax
from jaxtyping import Array, Float, PRNGKeyArray

from bfq.agents import Acting, Batch, Metrics, Spec, actor_critic
from bfq.agents.actor_critic import State
from bfq.diffusion.schedules import SCHEDULES
from bfq.diffusion.solvers import Recipe, generate
from bfq.nets.critic import Critics
from bfq.nets.denoiser import DENOISERS

Config = Any  # the agent's own, with a `recipe` and the common names
AS_TRAINED = Acting()


def recipe(
    config: Config, acting: Acting, times: int, steps: int, predicts: str = "noise"
) -> Recipe:
    """The chain as trained, or by the rule and in as many steps as acting asks for."""
    sampler = config.sampler if acting.sampler == "trained" else acting.sampler
    schedule = SCHEDULES[config.noise_schedule](times)
    return Recipe(schedule, sampler, acting.sampling_steps or steps, predicts)


def begin(key: PRNGKeyArray, spec: Spec, config: Config) -> State:
    """Random networks, targets equal to them."""
    policy_key, critic_key = jax.random.split(key)
    policy = DENOISERS[config.denoiser](policy_key, *spec, config.width, config.depth)
    return actor_critic.begin(policy, critic_key, spec, config)


def sample(
    policy: Any,
    observations: Float[Array, "b s"],
    key: PRNGKeyArray,
    config: Config,
    acting: Acting = AS_TRAINED,
) -> Float[Array, "b a"]:
    """a = clip(the chain's end, −1, 1), begun at temperature · N(0, I)."""
    by = config.recipe(acting)
    return generate(policy, observations, policy.action_dim, key, by, acting.temperature)


def critic_loss(
    critics: Critics, state: State, batch: Batch, key: PRNGKeyArray, config: Config
) -> tuple[Float[Array, ""], Metrics]:
    """L_Q(φ) = Σ_i E (Q_φi(s, a) − r − γ min_j Q_φj′(s′, a′))², a′ ~ π_θ′."""
    target = actor_critic.td_target(
        state, batch, key, config, lambda p, s, k: sample(p, s, k, config)
    )
    return actor_critic.fit(critics, batch, target)


def act(
    state: State,
    observations: Float[Array, "b s"],
    key: PRNGKeyArray,
    config: Config,
    acting: Acting,
) -> Float[Array, "b a"]:
    """A chain for each action; with N candidates, the target critics choose among N of them."""
    return actor_critic.act(
        state, observations, key, config, acting, lambda p, s, k: sample(p, s, k, config, acting)
    )
