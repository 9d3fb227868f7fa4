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
        a^π = â_θ(α_u a + σ_u ε″, u; s)                        the action approximation: u, ε″ drawn again
        θ  ← AdamW on L_d − η E Q_φk(s, a^π) / sg E|Q_φj(s, a^π)|       {k, j} = {1, 2}, drawn at each update
        # targets
        θ′, φ′ ← (1 − ρ) θ′ + ρ θ, (1 − ρ) φ′ + ρ φ            each with its own rate and interval

The defaults are CleanDiffuser's, where a^π is not clipped, with these differences: φ′ moves by 0.005 at every
update (CleanDiffuser has the weights the wrong way round, which critic_target_rate = 0.995 with
critic_target_every = 5 reproduces); 1,000,000 updates, not 2,000,000; 10⁻⁶ is added to |Q| where it divides.

The authors' own settings: predicts = "noise", noise_schedule = "linear", diffusion_times = 100, eta = 2,
approximation = "shared" (one draw for both terms, a^π clipped), sampler = "posterior", denoising_steps = 100,
denoiser = "edp", critic = "plain", weight_decay = 0, schedule = "constant", and the bounds of DQL's authors
(top of its presets) as clip_norm and critic_clip_norm. Differences that remain: they bound each critic's
gradient separately; Q_k is divided by its own |Q_k|; the policy's step uses the critics before theirs; the
copies first move at update 1004, not 1000; the network's inputs are [s, a_t, code]; weights start as in Flax;
DPM-Solver runs in continuous time; the online critics select among candidates; logged actions are clipped to
±0.999.
"""

from functools import partial
from typing import Literal, get_args

import jax
import jax.numpy as jnp
from jaxtyping import Array

from bfq.agents import actor_critic, dql, fields, learning
from bfq.agents.contract import Acting, Agent, Batch, Key, Loss
from bfq.flow.diffusion import Recipe, action_predictor, draw_noisy, squared_error
from bfq.nets import ActionNetwork, Critics


@fields.hyperparameters
class Config(dql.Config):
    """Hyperparameters of EDP."""

    # Diffusion
    diffusion_times: fields.Count = 50  # T: times of the schedule
    denoising_steps: fields.Count = 15  # steps from noise to action
    predicts: Literal["action", "noise"] = "action"  # action (CleanDiffuser) | noise (official)
    approximation: Literal["fresh", "shared"] = "fresh"  # a^π's draw; shared: L_d's (official)
    sampler: fields.ChainSampler = "dpm_solver"  # ddim: CleanDiffuser on AntMaze

    times = "diffusion_times"

    def recipe(self, acting: Acting = Acting()) -> Recipe:
        """`denoising_steps` on the T times, unless acting asks for others."""
        return dql.sampling_recipe(
            self, acting, self.diffusion_times, self.denoising_steps, self.predicts
        )


def policy_loss(
    policy: ActionNetwork, critics: Critics, batch: Batch, key: Key, config: Config
) -> Loss:
    """L(θ) = E ‖â_θ(a_t, t; s) − a‖² − η E Q_φk(s, a^π) / sg E|Q_φj(s, a^π)|, a^π = â_θ(a_u, u; s)."""
    bc_key, action_key, critic_key = jax.random.split(key, 3)
    schedule = config.recipe().schedule

    def predict(x: Array, t: Array) -> Array:
        return policy(x, t, batch.observations)

    noisy = draw_noisy(schedule, batch.actions, bc_key)
    target = noisy.noise if config.predicts == "noise" else batch.actions
    bc_loss = squared_error(predict(noisy.noisy, noisy.time), target)
    shared = config.approximation == "shared"
    approximate = noisy if shared else draw_noisy(schedule, batch.actions, action_key)
    actions = action_predictor(predict, schedule, config.predicts)(
        approximate.noisy, approximate.time
    )
    actions = jnp.clip(actions, -1.0, 1.0) if shared else actions
    value, q = learning.q_guidance(
        critics, batch.observations, actions, critic_key, config.guidance
    )
    return bc_loss - config.eta * value, {"bc_loss": bc_loss, "q_policy": q.mean()}


AGENT = Agent(
    "edp",
    "Efficient diffusion policies",
    Config,
    dql.init,
    partial(actor_critic.update_networks, dql.critic_loss, policy_loss),
    partial(actor_critic.select, dql.sample),
    samplers=get_args(fields.ChainSampler),
    reference="Kang, Ma, Du, Pang and Yan, Efficient Diffusion Policies for Offline Reinforcement "
    "Learning, NeurIPS 2023",
    defaults="CleanDiffuser's for D4RL locomotion",
)
