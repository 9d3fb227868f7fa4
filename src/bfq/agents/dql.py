"""Diffusion Q-learning (DQL): Q guidance through the whole denoising chain of a diffusion policy.

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

This file also holds what EDP and IDQL share with it: the denoising chain, the TD target and acting.

The defaults are CleanDiffuser's, with these differences: φ′ moves by 0.005 at every update (CleanDiffuser has
the weights the wrong way round, which critic_target_rate = 0.995 with critic_target_every = 5 reproduces);
1,000,000 updates, not 2,000,000; 10⁻⁶ is added to |Q| where it divides. CleanDiffuser's fifth step of five
changes nothing (it goes from time 0 to time 0) and is not computed.

The authors' own settings: noise_schedule = "vp", sampler = "posterior", denoiser = "official",
critic = "plain", weight_decay = 0, schedule = "constant" (their cosine hardly falls), and a bound on both
gradient norms (clip_norm, critic_clip_norm) for each task, which presets/dql.toml lists. They act with the
online policy, temperature 1 and a softmax weight of 1.
"""

from functools import partial
from typing import Any, get_args

import jax

from bfq.agents import actor_critic, fields, learning
from bfq.agents.actor_critic import State
from bfq.agents.contract import Acting, Actions, Agent, Batch, Key, Loss, Observations, Spec
from bfq.agents.learning import Number
from bfq.flow.diffusion import SCHEDULES, Recipe, generate, noise_loss
from bfq.nets import ActionNetwork, Critics


@fields.hyperparameters
class Config(actor_critic.Config):
    """Hyperparameters of DQL."""

    # Diffusion
    denoising_steps: fields.Count = 5  # T: times of the schedule, and steps of the chain
    noise_schedule: fields.NoiseSchedule = "cosine"  # CleanDiffuser | vp (DQL) | linear (EDP)
    sampler: fields.ChainSampler = "ancestral"  # ancestral (CleanDiffuser) | posterior (official)

    # Optimization
    learning_rate: fields.NonNegative = 3e-4  # AdamW, for the policy
    critic_learning_rate: fields.NonNegative = 3e-4  # Adam, for the critics
    weight_decay: fields.Fixed = 0.01  # of the policy only: PyTorch's AdamW

    # Networks
    denoiser: fields.DenoiserKind = "clean_diffuser"  # official | edp (its authors): codes of time

    times = "denoising_steps"  # which hyperparameter is T; EDP has another

    def critic_rate(self) -> Number:
        """The critics' own learning rate; 0 stops them."""
        return self.critic_learning_rate

    def check(self) -> None:
        """Refuse fewer times than the noise schedule needs."""
        check_times(self.times, getattr(self, self.times), self.noise_schedule)

    def recipe(self, acting: Acting = Acting()) -> Recipe:
        """As many steps as times, unless acting asks for others."""
        return sampling_recipe(self, acting, self.denoising_steps, self.denoising_steps)


def check_times(name: str, times: int, noise_schedule: str) -> None:
    """Refuse fewer times than the noise schedule needs.

    The cosine starts next to the action, so from one time no step would lead there.
    """
    if noise_schedule == "cosine" and times < 2:
        raise ValueError(f"{name} must be at least 2 with the cosine schedule.")
    if noise_schedule == "linear" and times <= 20:
        raise ValueError(
            f"the linear noise schedule needs more than 20 {name}: its β ends at 20/T."
        )


def sampling_recipe(
    config: Any, acting: Acting, times: int, steps: int, predicts: str = "noise"
) -> Recipe:
    """The chain as trained, or with the rule and the steps that acting asks for."""
    sampler = config.sampler if acting.sampler == "trained" else acting.sampler
    schedule = SCHEDULES[config.noise_schedule](times)
    return Recipe(schedule, sampler, acting.sampling_steps or steps, predicts)


def init(key: Key, spec: Spec, config: Any) -> State:
    """Random networks, targets equal to them."""
    return actor_critic.initial_state("denoiser", config.denoiser, key, spec, config)


def sample(
    policy: Any, s: Observations, key: Key, config: Any, acting: Acting = Acting()
) -> Actions:
    """a = clip(the end of the chain, −1, 1), from temperature · N(0, I)."""
    recipe = config.recipe(acting)
    return generate(policy, s, policy.action_dim, key, recipe, acting.temperature)


def critic_loss(critics: Critics, state: State, batch: Batch, key: Key, config: Any) -> Loss:
    """L_Q(φ) = Σ_i E (Q_φi(s, a) − r − γ min_j Q_φj′(s′, a′))², a′ ~ π_θ′."""
    target = actor_critic.backup_target(sample, state, batch, key, config)
    return actor_critic.fit_critics(critics, batch, target)


def policy_loss(
    policy: ActionNetwork, critics: Critics, batch: Batch, key: Key, config: Config
) -> Loss:
    """L(θ) = E ‖ε_θ(a_t, t; s) − ε‖² − η E Q_φk(s, a^π) / sg E|Q_φj(s, a^π)|."""
    bc_key, action_key, critic_key = jax.random.split(key, 3)
    schedule = config.recipe().schedule
    bc_loss = noise_loss(
        lambda x, t: policy(x, t, batch.observations), schedule, batch.actions, bc_key
    )
    actions = sample(policy, batch.observations, action_key, config)
    value, q = learning.q_guidance(
        critics, batch.observations, actions, critic_key, config.guidance
    )
    return bc_loss - config.eta * value, {"bc_loss": bc_loss, "q_policy": q.mean()}


AGENT = Agent(
    "dql",
    "Diffusion Q-learning",
    Config,
    init,
    partial(actor_critic.update_networks, critic_loss, policy_loss),
    partial(actor_critic.select, sample),
    samplers=get_args(fields.ChainSampler),
    reference="Wang, Hunt and Zhou, Diffusion Policies as an Expressive Policy Class for Offline "
    "Reinforcement Learning, ICLR 2023",
    defaults="CleanDiffuser's for D4RL locomotion",
)
