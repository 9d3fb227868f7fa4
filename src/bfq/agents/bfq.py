"""Bootstrapped Flow Q-Learning (BFQ): one network makes an action from noise in one call, by composing steps.

    initialize the policy's velocity v_θ, critics Q_φ1, Q_φ2, and copies θ′, φ′
    for each update:
        draw (s, a, r, s′) from the data
        # policy evaluation
        a′ = clip(ε′ − v_θ′(ε′, 0, 1; s′))                    one call of the EMA policy
        y  = r + γ · mask · min_i Q_φi′(s′, a′)                (max over 10 a′ for the max-Q backup)
        φ  ← Adam on Σ_i (Q_φi(s, a) − y)²
        # policy improvement
        L_bnd  = ‖v_θ(a_t, t − Δ, t; s) − (ε − a)‖²            short displacements are the velocity's
        L_comp = ‖π_θ(a_t, r, t; s) − sg π_θ(π_θ(a_t, m, t; s), r, m; s)‖²       long ones are composed
        a^π = clip(ε″ − v_θ(ε″, 0, 1; s))                      one call, so no backpropagation through time
        θ  ← Adam on λ L_bnd + (1 − λ) L_comp − η E Q_φ(s, a^π) / sg E|Q_φ(s, a^π)|
        # targets
        θ′, φ′ ← (1 − ρ) θ′ + ρ θ, (1 − ρ) φ′ + ρ φ            each with its own rate and interval

Where the paper leaves a choice open, the switch says so; docs/method.md lists them all.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from bfq.agents import (
    Acting,
    Agent,
    Batch,
    Fixed,
    Metrics,
    Spec,
    actor_critic,
    fractions,
    hyperparameters,
    one_of,
    values,
)
from bfq.agents.actor_critic import State
from bfq.agents.checks import check_common, check_velocity
from bfq.agents.learning import own_or
from bfq.errors import BadInput
from bfq.flow.maps import CompositionError, TimeRule, bootstrap, full_span, one_step
from bfq.flow.times import COMPOSITION_TIMES
from bfq.nets.critic import Critics
from bfq.nets.velocity import ARCHITECTURES, VelocityNet


@hyperparameters
class Config:
    """Hyperparameters of BFQ; floats may differ from member to member of a population."""

    steps: int = 1_000_000  # updates, and the horizon of the cosine schedule
    batch_size: int = 256  # transitions an update

    # Behavior: L_BC = λ L_bnd + (1 − λ) L_comp
    boundary_ratio: float = 0.5  # λ
    max_offset: float = 1e-3  # Δ_max
    mixing: str = "split"  # split | update (the paper's ξ) | both: three estimates of one loss
    time_rule: str = (
        "nested"  # nested (the paper's algorithm) | ordered (its text) | sorted_below (its table)
    )
    full_span_share: Fixed = 0.0  # share of L_comp at (r, t) = (0, 1); not in the paper
    composition_bound: Fixed = (
        0.0  # on |a_m| and |a_r| in L_comp's target; 0: none; not in the paper
    )
    composition_power: float = (
        0.0  # p: L_comp's squares are divided by max(t − r, 0.01)^p; not in the paper
    )
    composition_weight: float = 1.0  # factor on L_comp; not in the paper
    composition_huber: Fixed = (
        0.0  # c > 0: L_comp has √(e² + c²) − c of a row's e²; not in the paper
    )
    preconditioned: bool = True  # False: the network predicts the displacement itself (ablation)
    squares: str = (
        "mean"  # ‖·‖² over the numbers of an action: mean (the field's code) | sum (as written)
    )

    # Value
    eta: float = 1.0  # η, the strength of value guidance
    guidance: str = (
        "random"  # random (Q_k over |Q_j|, as DQL's code) | mean | unnormalized (FQL family)
    )
    discount: float = 0.99  # γ
    aggregation: str = "min"  # min (clipped double Q) | mean, in the TD target and among candidates
    backup_samples: int = 1  # 10: max-Q backup (AntMaze)
    backup_best: str = (
        "each"  # each critic's own maximum | together: the critics' mean picks (MeanFlowQL)
    )

    # Optimization
    learning_rate: float = 3e-4  # Adam, for policy and critics
    schedule: str = "cosine"  # cosine to 0 over `steps` | constant | warmup_cosine (MeanFlowQL)
    critic_learning_rate: float = 0.0  # for the critics; 0: as the policy's
    constant_critic_rate: bool = False  # True: the schedule is the policy's alone (MeanFlowQL)
    weight_decay: Fixed = 0.0  # of the policy alone; 0.01: CleanDiffuser's, by PyTorch's AdamW
    clip_norm: Fixed = 0.0  # bound on the policy's gradient norm; 0: none
    critic_clip_norm: Fixed = 0.0  # bound on the critics' gradient norm; 0: none
    bound_penalty: Fixed = 0.0  # weight of E relu(|a^π| − 1) before clipping (MeanFlowQL: 1)

    # Targets
    critic_target_rate: float = 0.005  # ρ for φ′
    critic_target_every: int = 1  # updates between two moves of φ′
    policy_target_rate: float = 0.005  # ρ for θ′
    policy_target_every: int = 5  # updates between two moves of θ′
    policy_target_start: int = 1000  # first update at which θ′ moves

    # Networks
    architecture: str = "embedded"  # embedded (A) | residual (B) | raw_time (B′)
    width: int = 256  # units of a hidden layer of the policy
    depth: int = 3  # hidden layers of the policy (residual: blocks)
    time_scale: int = (
        10  # factor on t and r before their sinusoids: the larger, the further η reaches
    )
    critic: str = "clean_diffuser"  # clean_diffuser | plain | fql
    critic_width: int = 256  # units of a hidden layer of a critic
    critic_depth: int = 3  # hidden layers of a critic

    def check(self) -> None:
        """Refuses words that are no choice and numbers that cannot be."""
        check_common(self)
        check_velocity(self)
        fractions(self, "boundary_ratio", "max_offset", "full_span_share")
        if self.batch_size < 2:
            raise BadInput(
                "batch_size must be at least 2, one transition for each of the two losses."
            )
        one_of("mixing", self.mixing, ("split", "update", "both"))
        one_of("squares", self.squares, ("mean", "sum"))
        one_of("time_rule", self.time_rule, COMPOSITION_TIMES)


def init(key: PRNGKeyArray, spec: Spec, config: Config) -> State:
    """Random networks, targets equal to them."""
    policy_key, critic_key = jax.random.split(key)
    make = ARCHITECTURES[config.architecture]
    policy = make(policy_key, *spec, config.width, config.depth, config.time_scale)
    return actor_critic.begin(policy, critic_key, spec, config)


def sample(
    policy: VelocityNet,
    observations: Float[Array, "b s"],
    key: PRNGKeyArray,
    config: Config,
    temperature: float,
) -> Float[Array, "b a"]:
    """a = clip(π_θ(ε, 0, 1; s), −1, 1), ε ~ temperature · N(0, I): one network call."""
    noise = temperature * jax.random.normal(key, (len(observations), policy.action_dim))
    return jnp.clip(one_step(policy, noise, observations, config.preconditioned), -1.0, 1.0)


def critic_loss(
    critics: Critics, state: State, batch: Batch, key: PRNGKeyArray, config: Config
) -> tuple[Float[Array, ""], Metrics]:
    """L_Q(φ) = Σ_i E (Q_φi(s, a) − r − γ min_j Q_φj′(s′, a′))², a′ ~ π_θ′."""
    target = actor_critic.td_target(
        state,
        batch,
        key,
        config,
        lambda policy, s, k: sample(policy, s, k, config, temperature=1.0),
    )
    return actor_critic.fit(critics, batch, target)


def times(config: Config) -> TimeRule:
    """Where L_BC looks, and how far what it composes may go."""
    return TimeRule(
        config.time_rule, config.max_offset, config.full_span_share, config.composition_bound
    )


def measure(config: Config) -> CompositionError:
    """How L_comp measures its errors."""
    return CompositionError(
        config.composition_power, config.composition_weight, config.composition_huber
    )


def policy_loss(
    policy: VelocityNet, critics: Critics, batch: Batch, key: PRNGKeyArray, config: Config
) -> tuple[Float[Array, ""], Metrics]:
    """L(θ) = L_BC(θ) − η E Q_φ(s, a^π) / sg E|Q_φ(s, a^π)|, or as `squares` and `guidance` have it."""
    bc_key, action_key, critic_key = jax.random.split(key, 3)
    noise = jax.random.normal(action_key, batch.actions.shape)
    # One call for both parts of L_BC and for a^π; over (0, 1) the answer is the displacement itself.
    asked = bootstrap(
        policy,
        batch.actions,
        batch.observations,
        bc_key,
        config.boundary_ratio,
        config.mixing,
        times(config),
        config.preconditioned,
        full_span(noise, batch.observations),
        measure=measure(config),
    )
    bc_loss, parts = asked.loss()
    proposed = noise - asked.answers[-1]
    actions = jnp.clip(proposed, -1.0, 1.0)
    guidance, q = values.guided(critics, batch.observations, actions, critic_key, config.guidance)
    loss = (policy.action_dim if config.squares == "sum" else 1) * bc_loss - config.eta * guidance
    if config.bound_penalty:
        loss += config.bound_penalty * jnp.maximum(jnp.abs(proposed) - 1.0, 0.0).mean()
    return loss, {"bc_loss": bc_loss, **parts, "q_policy": q.mean()}


def update(state: State, batch: Batch, key: PRNGKeyArray, config: Config) -> tuple[State, Metrics]:
    """One update of critics, policy and targets, in that order."""
    return actor_critic.improve(
        state,
        batch,
        key,
        config,
        critic_loss,
        policy_loss,
        critic_learning_rate=own_or(config.critic_learning_rate, config.learning_rate),
        critic_schedule="constant" if config.constant_critic_rate else None,
        weight_decay=config.weight_decay,
    )


def act(
    state: State,
    observations: Float[Array, "b s"],
    key: PRNGKeyArray,
    config: Config,
    acting: Acting,
) -> Float[Array, "b a"]:
    """One network call an action; with N candidates, the target critics choose among N of them."""
    return actor_critic.act(
        state,
        observations,
        key,
        config,
        acting,
        lambda policy, s, k: sample(policy, s, k, config, acting.temperature),
    )


REFERENCE = "Bootstrapped Flow Q-Learning, ICML 2026"
AGENT = Agent(
    "bfq",
    "Bootstrapped Flow Q-Learning",
    Config,
    init,
    update,
    act,
    network=actor_critic.acting_network,
    watched=("boundary_loss", "composition_loss"),
    reference=REFERENCE,
    defaults="the paper's for D4RL locomotion, in CleanDiffuser's frame",
)
