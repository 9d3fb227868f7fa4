"""One-step flow Q-learning (OFQL), the sister method that learns its one-step policy by MeanFlow.

    initialize the policy's average velocity u_θ, critics Q_φ1, Q_φ2, and copies θ′, φ′
    for each update:
        draw (s, a, r, s′) from the data
        # policy evaluation
        a′ = clip(ε′ − u_θ′(ε′, 0, 1; s′))                    one call of the EMA policy
        y  = r + γ · mask · min_i Q_φi′(s′, a′)                (max over 10 a′ for the max-Q backup)
        φ  ← Adam on Σ_i (Q_φi(s, a) − y)²
        # policy improvement
        t, r sorted, r = t for a share of the samples; a_t = (1 − t) a + t ε, v = ε − a
        u_tgt = v − (t − r) (v · ∂_a u_θ + ∂_t u_θ)(a_t, r, t; s)        one Jacobian-vector product
        L_FBC = ‖u_θ(a_t, r, t; s) − sg u_tgt‖²
        a^π = clip(ε″ − u_θ(ε″, 0, 1; s))                      one call, so no backpropagation through time
        θ  ← Adam on L_FBC − η E Q_φ(s, a^π) / sg E|Q_φ(s, a^π)|
        # targets
        θ′, φ′ ← (1 − ρ) θ′ + ρ θ, (1 − ρ) φ′ + ρ φ            each with its own rate and interval

There is no public code. Beside its paper, and as in BFQ on D4RL so that the two differ in L_BC alone there:
an MLP refines each time's sinusoids (64 of them, the paper's size); critics have CleanDiffuser's layer norms
("plain" is the paper's); 1,000,000 updates (the paper: 2,000,000 on locomotion); rewards scaled as in
CleanDiffuser (the paper: raw, and 4(r − ½) on AntMaze); a cosine schedule, which the paper does not mention.
Losses are means over action dimensions. Unlike BFQ's, times reach their sinusoids as they are: ∂_t u_θ grows
with a factor on t, and on the checkerboard MeanFlow learns with 1 to 30, does worse with 100 and diverges
with 1000.
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
from bfq.flow.maps import one_step
from bfq.flow.meanflow import DISTRIBUTIONS, meanflow_loss
from bfq.nets.critic import Critics
from bfq.nets.velocity import ARCHITECTURES, VelocityNet


@hyperparameters
class Config:
    """Hyperparameters of OFQL; floats may differ from member to member of a population."""

    steps: int = 1_000_000  # updates, and the horizon of the cosine schedule; as many as BFQ
    batch_size: int = 256  # transitions an update

    # Behavior: L_FBC
    flow_ratio: float = 0.5  # λ, share of the samples with r = t
    time_rule: str = "logit_normal"  # logit_normal: sigmoid of N(−0.4, 1) | uniform
    adaptive_power: float = 0.0  # p of MeanFlow's weight (error² + c)^(−p); the paper mentions none

    # Value
    eta: float = 1.0  # η, the strength of value guidance
    guidance: str = (
        "random"  # random (Q_k over |Q_j|, as DQL's code) | mean | unnormalized (FQL family)
    )
    discount: float = 0.99  # γ
    aggregation: str = "min"  # min (clipped double Q) | mean, in the TD target and among candidates
    backup_samples: int = 1  # 10: max-Q backup (AntMaze)
    backup_best: str = "each"  # each critic's own maximum | together: the critics' mean picks

    # Optimization
    learning_rate: float = 3e-4  # Adam, for policy and critics
    schedule: str = "cosine"  # cosine to 0 over `steps` | constant | warmup_cosine
    clip_norm: Fixed = 0.0  # bound on the policy's gradient norm; 0: none
    critic_clip_norm: Fixed = 0.0  # bound on the critics' gradient norm; 0: none

    # Targets
    critic_target_rate: float = 0.005  # ρ for φ′
    critic_target_every: int = 1  # updates between two moves of φ′
    policy_target_rate: float = 0.005  # ρ for θ′
    policy_target_every: int = 5  # updates between two moves of θ′
    policy_target_start: int = 1000  # first update at which θ′ moves

    # Networks
    architecture: str = "embedded"  # embedded | residual | raw_time, as BFQ's
    width: int = 256  # units of a hidden layer of the policy
    depth: int = 3  # hidden layers of the policy (residual: blocks)
    time_scale: int = 1  # factor on t and r before their sinusoidal embedding; BFQ has 10
    critic: str = "clean_diffuser"  # clean_diffuser | plain | fql
    critic_width: int = 256  # units of a hidden layer of a critic
    critic_depth: int = 3  # hidden layers of a critic

    def check(self) -> None:
        """Refuses words that are no choice and numbers that cannot be."""
        check_common(self)
        check_velocity(self)
        fractions(self, "flow_ratio")
        one_of("time_rule", self.time_rule, DISTRIBUTIONS)


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
    temperature: float = 1.0,
) -> Float[Array, "b a"]:
    """a = clip(ε − u_θ(ε, 0, 1; s), −1, 1), ε ~ temperature · N(0, I): one network call."""
    noise = temperature * jax.random.normal(key, (len(observations), policy.action_dim))
    return jnp.clip(one_step(policy, noise, observations), -1.0, 1.0)


def critic_loss(
    critics: Critics, state: State, batch: Batch, key: PRNGKeyArray, config: Config
) -> tuple[Float[Array, ""], Metrics]:
    """L_Q(φ) = Σ_i E (Q_φi(s, a) − r − γ min_j Q_φj′(s′, a′))², a′ ~ π_θ′."""
    return actor_critic.fit(
        critics, batch, actor_critic.td_target(state, batch, key, config, sample)
    )


def policy_loss(
    policy: VelocityNet, critics: Critics, batch: Batch, key: PRNGKeyArray, config: Config
) -> tuple[Float[Array, ""], Metrics]:
    """L(θ) = L_FBC(θ) − η E Q_φ(s, a^π) / sg E|Q_φ(s, a^π)|."""
    bc_key, action_key, critic_key = jax.random.split(key, 3)
    bc_loss = meanflow_loss(
        policy,
        batch.actions,
        batch.observations,
        bc_key,
        config.flow_ratio,
        config.time_rule,
        config.adaptive_power,
    )
    actions = sample(policy, batch.observations, action_key)
    guidance, q = values.guided(critics, batch.observations, actions, critic_key, config.guidance)
    return bc_loss - config.eta * guidance, {"bc_loss": bc_loss, "q_policy": q.mean()}


def update(state: State, batch: Batch, key: PRNGKeyArray, config: Config) -> tuple[State, Metrics]:
    """One update of critics, policy and targets, in that order."""
    return actor_critic.improve(state, batch, key, config, critic_loss, policy_loss)


def act(
    state: State,
    observations: Float[Array, "b s"],
    key: PRNGKeyArray,
    config: Config,
    acting: Acting,
) -> Float[Array, "b a"]:
    """One network call an action; with N candidates, the target critics choose among N of them."""

    def at_temperature(policy: VelocityNet, s: Array, k: PRNGKeyArray) -> Array:
        return sample(policy, s, k, acting.temperature)

    return actor_critic.act(state, observations, key, config, acting, at_temperature)


REFERENCE = "Nguyen and Yoo, One-Step Flow Q-Learning, 2026"
AGENT = Agent(
    "ofql",
    "One-step flow Q-learning",
    Config,
    init,
    update,
    act,
    network=actor_critic.acting_network,
    reference=REFERENCE,
    defaults="the paper's text, and BFQ's where it is silent",
)
