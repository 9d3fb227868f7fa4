"""Efficient diffusion policies (EDP): DQL whose Q term needs one network call, not a whole chain.

    initialize the prediction of the action â_θ, critics Q_φ1, Q_φ2, and copies θ′, φ′
    for each update:
        draw (s, a, r, s′) from the data
        # policy evaluation
        a′ = clip(15 steps of DPM-Solver++ with â_θ′ from noise, given s′)       the EMA policy
        y  = r + γ · mask · min_i Q_φi′(s′, a′)                (max over 10 a′ for the max-Q backup)
        φ  ← Adam on Σ_i (Q_φi(s, a) − y)²
        # policy improvement
        L_d = ‖â_θ(α_t a + σ_t ε, t; s) − a‖²                  t uniform on the T times
        a^π = â_θ(α_u a + σ_u ε″, u; s)                        the action approximation: u, ε″ drawn anew
        θ  ← AdamW on L_d − η E Q_φk(s, a^π) / sg E|Q_φj(s, a^π)|       {k, j} = {1, 2}, drawn at each update
        # targets
        θ′, φ′ ← (1 − ρ) θ′ + ρ θ, (1 − ρ) φ′ + ρ φ            each with its own rate and interval

The defaults are CleanDiffuser's, where a^π is not clipped. Beside it: φ′ moves by 0.005 at every update;
CleanDiffuser has the weights the wrong way round, which critic_target_rate = 0.995 with
critic_target_every = 5 reproduces. 1,000,000 updates, not 2,000,000. |Q| has 10⁻⁶ added where it divides.

The authors' own settings: predicts = "noise", noise_schedule = "linear", diffusion_times = 100, eta = 2,
approximation = "shared" (one draw for both terms, a^π clipped), sampler = "posterior", denoising_steps = 100,
denoiser = "edp", critic = "plain", weight_decay = 0, schedule = "constant", and as clip_norm and
critic_clip_norm the bounds of DQL's authors (at the head of its presets). What they do beyond these switches:
each critic's gradient is bounded by itself; Q_k is divided by its own |Q_k|; the policy's step sees the
critics before theirs; the copies first move at update 1004, not 1000; the network's inputs are
[s, a_t, code]; weights begin as Flax has them; DPM-Solver runs in continuous time; the online critics choose
among candidates; logged actions are pulled in to ±0.999.
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
    actor_critic,
    denoising,
    hyperparameters,
    one_of,
    values,
)
from bfq.agents.actor_critic import State
from bfq.agents.checks import check_common, check_times
from bfq.diffusion.denoising import PREDICTIONS, action_predictor, draw, squared_error
from bfq.diffusion.schedules import SCHEDULES
from bfq.diffusion.solvers import Recipe
from bfq.nets.critic import Critics
from bfq.nets.denoiser import DENOISERS, Denoiser

RULES = ("dpm_solver", "ddim", "ancestral", "posterior")
APPROXIMATIONS = ("fresh", "shared")


@hyperparameters
class Config:
    """Hyperparameters of EDP; floats may differ from member to member of a population."""

    steps: int = 1_000_000  # updates, and the horizon of the cosine schedule; as many as BFQ
    batch_size: int = 256  # transitions an update

    # Diffusion
    diffusion_times: int = 50  # T: times of the schedule
    denoising_steps: int = 15  # steps from noise to action
    predicts: str = "action"  # action (CleanDiffuser) | noise (official)
    approximation: str = (
        "fresh"  # a^π from a draw of its own | shared: from that of L_d, clipped (official)
    )
    noise_schedule: str = "cosine"  # cosine (CleanDiffuser) | linear (official) | vp
    sampler: str = (
        "dpm_solver"  # dpm_solver | ddim (CleanDiffuser on AntMaze) | ancestral | posterior
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
    denoiser: str = (
        "clean_diffuser"  # clean_diffuser | edp (its authors) | official (DQL's): codes of time
    )
    width: int = 256  # units of a hidden layer of the policy
    depth: int = 3  # hidden layers of the policy
    critic: str = "clean_diffuser"  # clean_diffuser | plain (official) | fql
    critic_width: int = 256  # units of a hidden layer of a critic
    critic_depth: int = 3  # hidden layers of a critic

    def check(self) -> None:
        """Refuses words that are no choice and numbers that cannot be."""
        check_common(self)
        one_of("noise_schedule", self.noise_schedule, SCHEDULES)
        check_times(self, "diffusion_times")
        one_of("sampler", self.sampler, RULES)
        one_of("predicts", self.predicts, PREDICTIONS)
        one_of("approximation", self.approximation, APPROXIMATIONS)
        one_of("denoiser", self.denoiser, DENOISERS)

    def recipe(self, acting: Acting = denoising.AS_TRAINED) -> Recipe:
        """Steps of a number of their own on the T times, unless acting asks for others."""
        return denoising.recipe(
            self, acting, self.diffusion_times, self.denoising_steps, self.predicts
        )


def policy_loss(
    policy: Denoiser, critics: Critics, batch: Batch, key: PRNGKeyArray, config: Config
) -> tuple[Float[Array, ""], Metrics]:
    """L(θ) = E ‖â_θ(a_t, t; s) − a‖² − η E Q_φk(s, a^π) / sg E|Q_φj(s, a^π)|, a^π = â_θ(a_u, u; s)."""
    bc_key, action_key, critic_key = jax.random.split(key, 3)
    schedule = config.recipe().schedule

    def predict(x: Array, t: Array) -> Array:
        return policy(x, t, batch.observations)

    drawn = draw(schedule, batch.actions, bc_key)
    wanted = drawn.noise if config.predicts == "noise" else batch.actions
    bc_loss = squared_error(predict(drawn.noisy, drawn.told), wanted)
    shared = config.approximation == "shared"
    again = drawn if shared else draw(schedule, batch.actions, action_key)
    actions = action_predictor(predict, schedule, config.predicts)(again.noisy, again.told)
    actions = jnp.clip(actions, -1.0, 1.0) if shared else actions
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
    "Kang, Ma, Du, Pang and Yan, Efficient Diffusion Policies for Offline Reinforcement Learning, "
    "NeurIPS 2023"
)
AGENT = Agent(
    "edp",
    "Efficient diffusion policies",
    Config,
    denoising.begin,
    update,
    denoising.act,
    samplers=RULES,
    reference=REFERENCE,
    defaults="CleanDiffuser's for D4RL locomotion",
)
