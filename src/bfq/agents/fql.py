"""Flow Q-Learning (FQL): a flow imitates the data; a one-step policy is distilled from it and maximizes Q.

    for each update, every loss uses the parameters before it:
        # policy evaluation
        a′ = clip(μ_ω(z′; s′)),  y = r + γ · mask · Q̄_φ′(s′, a′)      the one-step policy itself, no copy
        L_Q = mean_i E (Q_φi(s, a) − y)²
        # imitation
        L_flow = E ‖v_θ(x_t, t; s) − (a − x0)‖²,  x_t = (1 − t) x0 + t a
        # distillation and improvement
        μ = sg clip(K Euler steps of v_θ from z)
        L_distil = E ‖μ_ω(z; s) − μ‖²                                  the student's output is not clipped
        L_π = L_flow + α L_distil − E Q̄_φ(s, clip μ_ω(z; s)) [/ sg E|Q̄_φ|]      no gradient into φ
        (φ, θ, ω) ← one Adam on L_Q + L_π
        φ′ ← (1 − ρ) φ′ + ρ φ                                          with φ before the step

This file also holds what FAWAC, FBRAC and IFQL share with it: the joint Adam step and acting by Euler steps.

FQL's authors give no locomotion settings. The published numbers there come from a port by OFQL's authors with
normalized Q and an α for each task, which is the default here. Other tasks use FQL's raw Q (`normalize_q`).
Deviations: 1e-6 is added to E|Q̄|; logged actions are not clipped to ±(1 − 1e-5). With several candidates, the
online critics select, as in IFQL.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from bfq.agents import fields, learning
from bfq.agents.contract import (
    Acting,
    Actions,
    Agent,
    Batch,
    Key,
    Loss,
    Metrics,
    Observations,
    Spec,
)
from bfq.agents.learning import Draw, Evaluate, Learner, Step
from bfq.flow.matching import push, random_matching_errors
from bfq.flow.matching import sample as sample_flow
from bfq.nets import ActionNetwork, Critics, Value, make_critics, make_policy


@fields.hyperparameters
class FlowConfig(learning.ValueBased):
    """Hyperparameters that the FQL family shares; an agent adds its own and may change defaults."""

    steps: fields.Count = 1_000_000  # gradient updates; FQL's paper has half as many on D4RL
    flow_steps: fields.Count = 10  # K, Euler steps of the policy in training
    aggregation: fields.Aggregation = "mean"  # in the TD target and among candidates
    width: fields.Width = 512  # units of a hidden layer of the policy
    depth: fields.Depth = 4  # hidden layers of the policy
    critic: fields.CriticKind = "fql"  # Linear, GELU, LayerNorm
    critic_width: fields.Width = 512  # units of a hidden layer of a critic, and of V
    critic_depth: fields.Depth = 4  # hidden layers of a critic, and of V


@fields.hyperparameters
class Config(FlowConfig):
    """Hyperparameters of FQL; the defaults are those of the port to locomotion."""

    alpha: fields.NonNegative = 1.0  # α, the strength of the distillation
    normalize_q: bool = True  # divide by sg E|Q̄|; FQL itself does not


class State(NamedTuple):
    """Everything that training changes."""

    networks: Learner  # the agent's tuple of networks, which includes the critics φ
    critics_target: Critics  # φ′
    step: Step


class Networks(NamedTuple):
    """The networks that the one optimizer of an agent of this family updates."""

    critics: Critics  # φ
    flow: ActionNetwork  # θ
    policy: Any = None  # ω, FQL's one-step policy
    value: Value | None = None  # ψ, where an agent has V


def joint_state(networks: Networks) -> State:
    """These networks, and a target equal to their critics."""
    return State(learning.learner(networks), networks.critics, jnp.zeros((), jnp.int32))


def init(key: Key, spec: Spec, config: Config) -> State:
    """Random networks, the target equal to the critics."""
    critic_key, flow_key, policy_key = jax.random.split(key, 3)
    critics = make_critics(critic_key, spec, config)
    flow = make_policy("flow", "fql", flow_key, spec, config, 1)
    policy = make_policy("flow", "fql", policy_key, spec, config)
    return joint_state(Networks(critics, flow, policy))


def sample(
    policy: ActionNetwork, observations: Observations, key: Key, temperature: float = 1.0
) -> Actions:
    """a = clip(μ_ω(z; s), −1, 1), z ~ temperature · N(0, I): one network call."""
    noise = temperature * jax.random.normal(key, (len(observations), policy.action_dim))
    return jnp.clip(policy(noise, observations), -1.0, 1.0)


def propose(
    networks: Networks, s: Observations, key: Key, steps: int, temperature: float = 1.0
) -> Actions:
    """An action per state from temperature · N(0, I): by the one-step policy, or in Euler steps."""
    if networks.policy is not None:
        return sample(networks.policy, s, key, temperature)
    return sample_flow(networks.flow, s, key, networks.flow.action_dim, steps, temperature)


def td_loss(
    critics: Evaluate, targets: Evaluate, sample: Draw, batch: Batch, key: Key, config: Any
) -> Loss:
    """L_Q = mean_i E (Q_i(s, a) − r − γ Q′(s′, a′))² with one a′ from `sample`."""
    next_values = learning.backup_values(targets, sample, batch.next_observations, key)
    target = learning.backup(batch, next_values, config)
    q = critics(batch.observations, batch.actions)
    loss = learning.critic_loss(q, target, averaged=True)
    return loss, {"critic_loss": loss, "q": q.mean()}


def mean_value(values: Float[Array, "q b"], normalized: bool) -> Float[Array, ""]:
    """E Q̄ with Q̄ the mean over critics, divided by sg E|Q̄| if normalized."""
    mean = values.mean(0)
    return learning.normalize_by_magnitude(mean) if normalized else mean.mean()


def distillation_loss(
    policy: ActionNetwork, flow: ActionNetwork, s: Observations, noise: Actions, flow_steps: int
) -> tuple[Float[Array, ""], Actions]:
    """L_distil = E ‖μ_ω(z; s) − sg clip(flow_θ(z; s))‖², and the student's actions, not clipped."""
    taught = jnp.clip(push(flow, noise, s, flow_steps), -1.0, 1.0)
    actions = policy(noise, s)
    return jnp.square(actions - jax.lax.stop_gradient(taught)).mean(), actions


def policy_loss(
    networks: Networks, before: Networks, batch: Batch, key: Key, config: Config
) -> Loss:
    """L_π = L_flow + α L_distil − E Q̄_φ(s, clip μ_ω(z; s)), the last divided by sg E|Q̄_φ| if normalized.

    The critics and the flow that teaches are those `before` the step, so they get no gradient.
    """
    flow_key, noise_key = jax.random.split(key)
    errors = random_matching_errors(networks.flow, batch.actions, batch.observations, flow_key)
    bc_loss = errors.mean()
    noise = jax.random.normal(noise_key, batch.actions.shape)
    distil_loss, actions = distillation_loss(
        networks.policy, before.flow, batch.observations, noise, config.flow_steps
    )
    q = before.critics(batch.observations, jnp.clip(actions, -1.0, 1.0))
    loss = bc_loss + config.alpha * distil_loss - mean_value(q, config.normalize_q)
    metrics = {"policy_loss": loss, "bc_loss": bc_loss, "distil_loss": distil_loss}
    return loss, {**metrics, "q_policy": q.mean()}


def total_loss(networks: Networks, state: State, batch: Batch, key: Key, config: Config) -> Loss:
    """L_Q + L_π."""
    critic_key, policy_key = jax.random.split(key)
    before = state.networks.params
    proposal = partial(propose, before, steps=config.flow_steps)
    td = td_loss(networks.critics, state.critics_target, proposal, batch, critic_key, config)
    return added(td, policy_loss(networks, before, batch, policy_key, config))


def added(*losses: Loss) -> Loss:
    """The sum of losses, with the metrics of all."""
    values, metrics = zip(*losses, strict=True)
    return sum(values[1:], values[0]), {k: v for one in metrics for k, v in one.items()}


def joint_update(
    loss: Any, state: State, batch: Batch, key: Key, config: Any
) -> tuple[State, Metrics]:
    """One Adam step on the sum of the losses; φ′ ← (1 − ρ) φ′ + ρ φ with φ before the step."""
    rate = learning.learning_rate(config.learning_rate, config.schedule, state.step, config.steps)
    networks, _, metrics = learning.descend(
        state.networks, lambda now: loss(now, state, batch, key, config), rate
    )
    target = learning.polyak(
        state.critics_target, state.networks.params.critics, config.critic_target_rate
    )
    return State(networks, target, state.step + 1), metrics


def act(state: State, observations: Observations, key: Key, config: Any, acting: Acting) -> Actions:
    """The one-step policy or else Euler steps; of N candidates, the online critics select one."""
    networks: Networks = state.networks.params
    steps = acting.sampling_steps or config.flow_steps

    def draw(s: Observations, k: Key) -> Actions:
        return propose(networks, s, k, steps, acting.temperature)

    return learning.best_of_n(
        draw,
        lambda s, a: learning.aggregated(networks.critics(s, a), config),
        observations,
        key,
        acting,
    )


AGENT = Agent(
    "fql",
    "Flow Q-Learning",
    Config,
    init,
    partial(joint_update, total_loss),
    act,
    network=lambda state, policy: (state.networks.params.policy, "online"),
    watched=("distil_loss",),
    reference="Park, Li and Levine, Flow Q-Learning, ICML 2025",
    defaults="OFQL's port of FQL to locomotion",
    ignores=lambda config: ("policy",),
)
