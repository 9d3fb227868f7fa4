"""Diffusion Q-learning (DQL): a diffusion policy whose whole denoising chain is pushed towards high Q.

    initialize the noise prediction ε_θ, critics Q_φ1, Q_φ2, and copies θ′, φ′
    for each update:
        draw (s, a, r, s′) from the data
        # policy evaluation
        a′ = clip(chain of T steps with ε_θ′ from noise, given s′)      the EMA policy
        y  = r + γ · mask · min_i Q_φi′(s′, a′)                (max over 10 a′ for the max-Q backup)
        φ  ← Adam on Σ_i (Q_φi(s, a) − y)²
        # policy improvement
        L_d = ‖ε_θ(α_t a + σ_t ε, t; s) − ε‖²                  t uniform on the T times
        a^π = clip(chain of T steps with ε_θ from noise, given s)       with its gradient through all steps
        θ  ← AdamW on L_d − η E Q_φk(s, a^π) / sg E|Q_φj(s, a^π)|       {k, j} = {1, 2}, drawn at each update
        # targets
        θ′, φ′ ← (1 − ρ) θ′ + ρ θ, (1 − ρ) φ′ + ρ φ            each with its own rate and interval

The defaults are CleanDiffuser's. Beside it: φ′ moves by 0.005 at every update; CleanDiffuser has the weights
the wrong way round, which critic_target_rate = 0.995 with critic_target_every = 5 reproduces. 1,000,000
updates, not 2,000,000. Its fifth step of five changes nothing (it goes from time 0 to time 0) and is not
computed. |Q| has 10⁻⁶ added where it divides.

The authors' own settings: noise_schedule = "vp", sampler = "posterior", denoiser = "official",
critic = "plain", weight_decay = 0, schedule = "constant" (theirs, a cosine, hardly falls), and
a bound on both gradients' norms (clip_norm, critic_clip_norm) for each task, which presets/dql.toml lists.
They act with the online policy, temperature 1 and a softmax weight of 1.
"""

import jax
from jaxtyping import Array, Float, PRNGKeyArray

from bfq.agents import (
    Acting,
    Agent,
    Batch,
    Fixed,
    Metrics,
    actor_critic,
    denoising,
    hyperparameters,
    one_of,
    values,
)
from bfq.agents.actor_critic import State
from bfq.agents.checks import check_common, check_times
from bfq.diffusion.denoising import noise_loss
from bfq.diffusion.solvers import Recipe
from bfq.nets.critic import Critics
from bfq.nets.denoiser import DENOISERS, Denoiser

RULES = ("ancestral", "posterior", "ddim", "dpm_solver")


@hyperparameters
class Config:
    """Hyperparameters of DQL; floats may differ from member to member of a population."""

    steps: int = 1_000_000  # updates, and the horizon of the cosine schedule; as many as BFQ
    batch_size: int = 256  # transitions an update

    # Diffusion
    denoising_steps: int = 5  # T: times of the schedule, and steps of the chain
    noise_schedule: str = "cosine"  # cosine (CleanDiffuser) | vp (official)
    sampler: str = (
        "ancestral"  # ancestral (CleanDiffuser) | posterior (official) | ddim | dpm_solver
    )

    # Value
    eta: float = 1.0  # η, the strength of value guidance
    guidance: str = "random"  # random (Q_k over |Q_j|) | mean | min | first | unnormalized mean
    discount: float = 0.99  # γ
    aggregation: str = "min"  # min (clipped double Q) | mean, in the TD target and among candidates
    backup_samples: int = 1  # 10: max-Q backup (AntMaze)
    backup_best: str = "each"  # each critic's own maximum | together: the critics' mean picks

    # Optimization
    learning_rate: float = 3e-4  # AdamW, for the policy
    critic_learning_rate: float = 3e-4  # Adam, for the critics
    schedule: str = "cosine"  # cosine to 0 over `steps` | constant | warmup_cosine
    weight_decay: Fixed = 0.01  # of the policy alone: PyTorch's AdamW
    clip_norm: Fixed = 0.0  # bound on the policy's gradient norm; 0: none
    critic_clip_norm: Fixed = 0.0  # bound on the critics' gradient norm; 0: none

    # Targets
    critic_target_rate: float = 0.005  # ρ for φ′
    critic_target_every: int = 1  # updates between two moves of φ′
    policy_target_rate: float = 0.005  # ρ for θ′
    policy_target_every: int = 5  # updates between two moves of θ′
    policy_target_start: int = 1000  # first update at which θ′ moves

    # Networks
    denoiser: str = "clean_diffuser"  # clean_diffuser | official | edp (its authors): codes of time
    width: int = 256  # units of a hidden layer of the policy
    depth: int = 3  # hidden layers of the policy
    critic: str = "clean_diffuser"  # clean_diffuser | plain (official) | fql
    critic_width: int = 256  # units of a hidden layer of a critic
    critic_depth: int = 3  # hidden layers of a critic

    def check(self) -> None:
        """Refuses words that are no choice and numbers that cannot be."""
        check_common(self)
        one_of("noise_schedule", self.noise_schedule, ("cosine", "vp"))
        check_times(self, "denoising_steps")
        one_of("sampler", self.sampler, RULES)
        one_of("denoiser", self.denoiser, DENOISERS)

    def recipe(self, acting: Acting = denoising.AS_TRAINED) -> Recipe:
        """As many steps as times, unless acting asks for others."""
        return denoising.recipe(
            self, acting, times=self.denoising_steps, steps=self.denoising_steps
        )


def policy_loss(
    policy: Denoiser, critics: Critics, batch: Batch, key: PRNGKeyArray, config: Config
) -> tuple[Float[Array, ""], Metrics]:
    """L(θ) = E ‖ε_θ(a_t, t; s) − ε‖² − η E Q_φk(s, a^π) / sg E|Q_φj(s, a^π)|."""
    bc_key, action_key, critic_key = jax.random.split(key, 3)
    schedule = config.recipe().schedule
    bc_loss = noise_loss(
        lambda x, t: policy(x, t, batch.observations), schedule, batch.actions, bc_key
    )
    actions = denoising.sample(policy, batch.observations, action_key, config)
    guidance, q = values.guided(critics, batch.observations, actions, critic_key, config.guidance)
    return bc_loss - config.eta * guidance, {"bc_loss": bc_loss, "q_policy": q.mean()}


def update(state: State, batch: Batch, key: PRNGKeyArray, config: Config) -> tuple[State, Metrics]:
    """One update of critics, policy and targets, in that order."""
    return actor_critic.improve(
        state,
        batch,
        key,
        config,
        denoising.critic_loss,
        policy_loss,
        config.critic_learning_rate,
        config.weight_decay,
    )


REFERENCE = (
    "Wang, Hunt and Zhou, Diffusion Policies as an Expressive Policy Class for Offline Reinforcement "
    "Learning, ICLR 2023"
)
AGENT = Agent(
    "dql",
    "Diffusion Q-learning",
    Config,
    denoising.begin,
    update,
    denoising.act,
    samplers=RULES,
    reference=REFERENCE,
    defaults="CleanDiffuser's for D4RL locomotion",
)
