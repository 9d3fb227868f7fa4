"""Agents as functions. Written by `python -m tools.agent_stub`: change the agents' files instead."""

from collections.abc import Sequence
from typing import Literal

from bfq.agents.callables import with_networks as with_networks
from bfq.agents.registry import ConfiguredAgent as ConfiguredAgent

def BC(
    *,
    steps: int = 1000000,
    batch_size: int = 256,
    kind: Literal['gaussian', 'deterministic', 'flow'] = 'gaussian',
    unit_std: bool = False,
    flow_steps: int = 10,
    learning_rate: float | Sequence[float] = 0.0003,
    schedule: Literal['constant', 'cosine', 'warmup_cosine'] = 'constant',
    discount: float | Sequence[float] = 0.99,
    activation: Literal['mish', 'gelu', 'relu', 'silu', 'tanh'] = 'relu',
    norm: Literal['', 'none', 'before', 'after'] = '',
    width: int | str | Sequence[int] = 256,
    depth: int = 2,
    architecture: Literal['embedded', 'residual', 'raw_time'] = 'embedded',
    time_scale: int = 10,
) -> ConfiguredAgent:
    """Behavior cloning (BC): imitation of the data, without a critic.

    Args:
        steps: gradient updates.
        batch_size: transitions per update.
        kind: form of the policy (also gaussian, deterministic, flow).
        unit_std: gaussian: σ = 1 and FQL's initial weights, not a learned σ.
        flow_steps: flow: K, Euler steps of acting.
        learning_rate: Adam.
        schedule: of the learning rate (also constant, cosine, warmup_cosine).
        discount: γ; only reports use it.
        activation: of the gaussian and the deterministic policy (also mish, gelu, relu, silu, tanh).
        norm: layer norm of the gaussian and the deterministic policy (also none, before, after).
        width: units of a hidden layer; 256x128: of each one.
        depth: hidden layers.
        architecture: flow: network of the velocity (also embedded, residual, raw_time).
        time_scale: flow: factor on t before its sinusoidal embedding.
    """

def BFQ(
    *,
    steps: int = 1000000,
    batch_size: int = 256,
    discount: float | Sequence[float] = 0.99,
    learning_rate: float | Sequence[float] = 0.0003,
    schedule: Literal['constant', 'cosine', 'warmup_cosine'] = 'cosine',
    critic_target_rate: float | Sequence[float] = 0.005,
    critic_count: int = 2,
    aggregation: Literal['min', 'mean', 'lower'] = 'min',
    pessimism: float | Sequence[float] = 1.0,
    width: int | str | Sequence[int] = 256,
    depth: int = 3,
    activation: Literal['', 'mish', 'gelu', 'relu', 'silu', 'tanh'] = '',
    norm: Literal['', 'none', 'before', 'after'] = '',
    critic_width: int | str | Sequence[int] = 256,
    critic_depth: int = 3,
    critic_activation: Literal['', 'mish', 'gelu', 'relu', 'silu', 'tanh'] = '',
    critic_norm: Literal['', 'none', 'before', 'after'] = '',
    critic_learning_rate: float | Sequence[float] = 0.0,
    eta: float | Sequence[float] = 1.0,
    guidance: Literal['random', 'mean', 'min', 'first', 'unnormalized'] = 'random',
    backup_samples: int = 1,
    backup_best: Literal['each', 'together'] = 'each',
    clip_norm: float = 0.0,
    critic_clip_norm: float = 0.0,
    critic_target_every: int = 1,
    policy_target_rate: float | Sequence[float] = 0.005,
    policy_target_every: int = 5,
    policy_target_start: int = 1000,
    critic: Literal['clean_diffuser', 'plain', 'fql', 'relu', 'iql', 'rebrac', 'norm_mish', 'edac', 'cql'] = 'clean_diffuser',
    boundary_ratio: float | Sequence[float] = 0.5,
    max_offset: float | Sequence[float] = 0.001,
    mixing: Literal['split', 'update', 'both'] = 'split',
    time_rule: Literal['nested', 'ordered', 'sorted_below'] = 'nested',
    full_span_share: float = 0.0,
    composition_bound: float = 0.0,
    composition_power: float | Sequence[float] = 0.0,
    composition_weight: float | Sequence[float] = 1.0,
    composition_huber: float = 0.0,
    preconditioned: bool = True,
    squares: Literal['mean', 'sum'] = 'mean',
    constant_critic_rate: bool = False,
    weight_decay: float = 0.0,
    bound_penalty: float = 0.0,
    architecture: Literal['embedded', 'residual', 'raw_time'] = 'embedded',
    time_scale: int = 10,
) -> ConfiguredAgent:
    """Bootstrapped Flow Q-Learning (BFQ): one network call from noise to action, learned by composing steps.

    Args:
        steps: gradient updates; the horizon of a schedule.
        batch_size: transitions per update: at least one for each BC loss.
        discount: γ.
        learning_rate: Adam, for all networks.
        schedule: to 0 over `steps`; warmup_cosine: MeanFlowQL (also constant).
        critic_target_rate: ρ for φ′.
        critic_count: critics.
        aggregation: lower: mean − pessimism · std (also min).
        pessimism: standard deviations below the mean, for lower.
        width: units of a hidden layer of the policy; 256x128: of each one.
        depth: hidden layers, or residual blocks, of the policy.
        activation: of the policy, instead of its kind's (also mish, gelu, relu, silu, tanh).
        norm: layer norm of the policy, instead of its kind's (also none, before, after).
        critic_width: units of a hidden layer of a critic, and of V.
        critic_depth: hidden layers of a critic.
        critic_activation: of critics and V, instead of their kind's (also mish, gelu, relu, silu, tanh).
        critic_norm: layer norm of critics and V, instead of their kind's (also none, before, after).
        critic_learning_rate: for the critics; 0: as the policy.
        eta: η, the strength of value guidance.
        guidance: random (Q_k over |Q_j|) | mean | unnormalized (FQL) (also min, first).
        backup_samples: 10: max-Q backup (AntMaze).
        backup_best: each critic's maximum | together: of their mean.
        clip_norm: bound on the policy's gradient norm; 0: none.
        critic_clip_norm: bound on the critics' gradient norm; 0: none.
        critic_target_every: updates between two moves of φ′.
        policy_target_rate: ρ for θ′.
        policy_target_every: updates between two moves of θ′.
        policy_target_start: first update at which θ′ moves.
        critic: clean_diffuser | plain (official DQL, CAC) (also fql, relu, iql, rebrac, norm_mish, edac, cql).
        boundary_ratio: λ.
        max_offset: Δ_max.
        mixing: estimates of one loss; update: paper's ξ (also split, both).
        time_rule: paper's algorithm: nested | text: ordered | table: sorted_below.
        full_span_share: share of L_comp at (r, t) = (0, 1); not in paper.
        composition_bound: on |a_m| and |a_r|; 0: none; not in the paper.
        composition_power: p: squares / max(t − r, 0.01)^p; not in the paper.
        composition_weight: factor on L_comp; not in the paper.
        composition_huber: c > 0: √(e² + c²) − c per row; not in the paper.
        preconditioned: False: the network predicts the displacement (ablation).
        squares: ‖·‖²: mean (the field's code) | sum (as written).
        constant_critic_rate: True: the schedule is for the policy only (MeanFlowQL).
        weight_decay: of the policy only; 0.01: CleanDiffuser, PyTorch's AdamW.
        bound_penalty: weight of E relu(|a^π| − 1) before clipping (MeanFlowQL: 1).
        architecture: embedded (A) | residual (B) | raw_time (B′).
        time_scale: factor on t and r before their sinusoids; larger: η acts more.
    """

def CAC(
    *,
    steps: int = 1000000,
    batch_size: int = 256,
    discount: float | Sequence[float] = 0.99,
    learning_rate: float | Sequence[float] = 0.0003,
    schedule: Literal['constant', 'cosine', 'warmup_cosine'] = 'constant',
    critic_target_rate: float | Sequence[float] = 0.005,
    critic_count: int = 2,
    aggregation: Literal['min', 'mean', 'lower'] = 'min',
    pessimism: float | Sequence[float] = 1.0,
    width: int | str | Sequence[int] = 256,
    depth: int = 3,
    activation: Literal['', 'mish', 'gelu', 'relu', 'silu', 'tanh'] = '',
    norm: Literal['', 'none', 'before', 'after'] = '',
    critic_width: int | str | Sequence[int] = 256,
    critic_depth: int = 3,
    critic_activation: Literal['', 'mish', 'gelu', 'relu', 'silu', 'tanh'] = '',
    critic_norm: Literal['', 'none', 'before', 'after'] = '',
    critic_learning_rate: float | Sequence[float] = 0.0003,
    eta: float | Sequence[float] = 1.0,
    guidance: Literal['random', 'mean', 'min', 'first', 'unnormalized'] = 'random',
    backup_samples: int = 1,
    backup_best: Literal['each', 'together'] = 'each',
    clip_norm: float = 0.0,
    critic_clip_norm: float = 0.0,
    critic_target_every: int = 1,
    policy_target_rate: float | Sequence[float] = 0.005,
    policy_target_every: int = 5,
    policy_target_start: int = 1000,
    critic: Literal['clean_diffuser', 'plain', 'fql', 'relu', 'iql', 'rebrac', 'norm_mish', 'edac', 'cql'] = 'plain',
    consistency_steps: int = 2,
    literal_one_step: bool = False,
    curriculum_updates: int = 50000,
    scaled: bool = True,
    q_norm: bool = False,
    network: Literal['official', 'clean_diffuser', 'edp'] = 'official',
) -> ConfiguredAgent:
    """Consistency actor-critic (CAC): a consistency model as the policy, sampled in one or two network calls.

    Args:
        steps: gradient updates; the horizon of a schedule.
        batch_size: transitions per update.
        discount: γ.
        learning_rate: Adam, for the policy.
        schedule: of the learning rate (also constant, cosine, warmup_cosine).
        critic_target_rate: ρ for φ′.
        critic_count: critics.
        aggregation: lower: mean − pessimism · std (also min).
        pessimism: standard deviations below the mean, for lower.
        width: units of a hidden layer of the policy; 256x128: of each one.
        depth: hidden layers, or residual blocks, of the policy.
        activation: of the policy, instead of its kind's (also mish, gelu, relu, silu, tanh).
        norm: layer norm of the policy, instead of its kind's (also none, before, after).
        critic_width: units of a hidden layer of a critic, and of V.
        critic_depth: hidden layers of a critic.
        critic_activation: of critics and V, instead of their kind's (also mish, gelu, relu, silu, tanh).
        critic_norm: layer norm of critics and V, instead of their kind's (also none, before, after).
        critic_learning_rate: Adam, for the critics.
        eta: η, the strength of value guidance.
        guidance: random (Q_k over |Q_j|) | mean | unnormalized (FQL) (also min, first).
        backup_samples: 10: max-Q backup (AntMaze).
        backup_best: each critic's maximum | together: of their mean.
        clip_norm: bound on the policy's gradient norm; 0: none.
        critic_clip_norm: bound on the critics' gradient norm; 0: none.
        critic_target_every: updates between two moves of φ′.
        policy_target_rate: ρ for θ′.
        policy_target_every: updates between two moves of θ′.
        policy_target_start: first update at which θ′ moves.
        critic: plain (the authors') | clean_diffuser (also fql, relu, iql, rebrac, norm_mish, edac, cql).
        consistency_steps: M, network calls from noise to action.
        literal_one_step: M = 1: the call is at t = 2, as in the authors' code, not 80.
        curriculum_updates: K, updates from N = 2 to N = 150.
        scaled: weight 100/(t_{i+1} − t_i) in L_c.
        q_norm: y divided by its standard deviation over the batch.
        network: official: 16 numbers for t | clean_diffuser: 64 (also edp).
    """

def CQL(
    *,
    steps: int = 1000000,
    batch_size: int = 256,
    discount: float | Sequence[float] = 0.99,
    learning_rate: float | Sequence[float] = 3e-05,
    schedule: Literal['constant', 'cosine', 'warmup_cosine'] = 'constant',
    critic_target_rate: float | Sequence[float] = 0.005,
    critic_count: int = 2,
    aggregation: Literal['min', 'mean', 'lower'] = 'min',
    pessimism: float | Sequence[float] = 1.0,
    width: int | str | Sequence[int] = 256,
    depth: int = 3,
    activation: Literal['', 'mish', 'gelu', 'relu', 'silu', 'tanh'] = '',
    norm: Literal['', 'none', 'before', 'after'] = '',
    critic_width: int | str | Sequence[int] = 256,
    critic_depth: int = 3,
    critic_activation: Literal['', 'mish', 'gelu', 'relu', 'silu', 'tanh'] = '',
    critic_norm: Literal['', 'none', 'before', 'after'] = '',
    critic_learning_rate: float | Sequence[float] = 0.0003,
    policy: Literal['relu', 'iql', 'rebrac', 'fql', 'cql'] = 'cql',
    critic: Literal['clean_diffuser', 'plain', 'fql', 'relu', 'iql', 'rebrac', 'norm_mish', 'edac', 'cql'] = 'cql',
    conservatism: float | Sequence[float] = 10.0,
    sampled_actions: int = 10,
) -> ConfiguredAgent:
    """Conservative Q-learning, CQL(H): soft actor-critic whose critics are pushed down at actions not in the data.

    Args:
        steps: gradient updates; the horizon of a schedule.
        batch_size: transitions per update.
        discount: γ.
        learning_rate: Adam, for policy and temperature.
        schedule: of the learning rate (also constant, cosine, warmup_cosine).
        critic_target_rate: ρ for φ′.
        critic_count: critics.
        aggregation: lower: mean − pessimism · std (also min).
        pessimism: standard deviations below the mean, for lower.
        width: units of a hidden layer of the policy; 256x128: of each one.
        depth: hidden layers of the policy.
        activation: of the policy, instead of its kind's (also mish, gelu, relu, silu, tanh).
        norm: layer norm of the policy, instead of its kind's (also none, before, after).
        critic_width: units of a hidden layer of a critic, and of V.
        critic_depth: hidden layers of a critic.
        critic_activation: of critics and V, instead of their kind's (also mish, gelu, relu, silu, tanh).
        critic_norm: layer norm of critics and V, instead of their kind's (also none, before, after).
        critic_learning_rate: Adam, for the critics.
        policy: ReLU, last layer near zero (also relu, iql, rebrac, fql, cql).
        critic: ReLU, orthogonal, last layer near zero (also clean_diffuser, plain, fql, relu, iql, rebrac, norm_mish, edac, cql).
        conservatism: c, the weight of the penalty.
        sampled_actions: n, actions from each of three distributions.
    """

def DQL(
    *,
    steps: int = 1000000,
    batch_size: int = 256,
    discount: float | Sequence[float] = 0.99,
    learning_rate: float | Sequence[float] = 0.0003,
    schedule: Literal['constant', 'cosine', 'warmup_cosine'] = 'cosine',
    critic_target_rate: float | Sequence[float] = 0.005,
    critic_count: int = 2,
    aggregation: Literal['min', 'mean', 'lower'] = 'min',
    pessimism: float | Sequence[float] = 1.0,
    width: int | str | Sequence[int] = 256,
    depth: int = 3,
    activation: Literal['', 'mish', 'gelu', 'relu', 'silu', 'tanh'] = '',
    norm: Literal['', 'none', 'before', 'after'] = '',
    critic_width: int | str | Sequence[int] = 256,
    critic_depth: int = 3,
    critic_activation: Literal['', 'mish', 'gelu', 'relu', 'silu', 'tanh'] = '',
    critic_norm: Literal['', 'none', 'before', 'after'] = '',
    critic_learning_rate: float | Sequence[float] = 0.0003,
    eta: float | Sequence[float] = 1.0,
    guidance: Literal['random', 'mean', 'min', 'first', 'unnormalized'] = 'random',
    backup_samples: int = 1,
    backup_best: Literal['each', 'together'] = 'each',
    clip_norm: float = 0.0,
    critic_clip_norm: float = 0.0,
    critic_target_every: int = 1,
    policy_target_rate: float | Sequence[float] = 0.005,
    policy_target_every: int = 5,
    policy_target_start: int = 1000,
    critic: Literal['clean_diffuser', 'plain', 'fql', 'relu', 'iql', 'rebrac', 'norm_mish', 'edac', 'cql'] = 'clean_diffuser',
    denoising_steps: int = 5,
    noise_schedule: Literal['cosine', 'vp', 'linear'] = 'cosine',
    sampler: Literal['ancestral', 'posterior', 'ddim', 'dpm_solver'] = 'ancestral',
    weight_decay: float = 0.01,
    denoiser: Literal['official', 'clean_diffuser', 'edp'] = 'clean_diffuser',
) -> ConfiguredAgent:
    """Diffusion Q-learning (DQL): Q guidance through the whole denoising chain of a diffusion policy.

    Args:
        steps: gradient updates; the horizon of a schedule.
        batch_size: transitions per update.
        discount: γ.
        learning_rate: AdamW, for the policy.
        schedule: to 0 over `steps`; warmup_cosine: MeanFlowQL (also constant).
        critic_target_rate: ρ for φ′.
        critic_count: critics.
        aggregation: lower: mean − pessimism · std (also min).
        pessimism: standard deviations below the mean, for lower.
        width: units of a hidden layer of the policy; 256x128: of each one.
        depth: hidden layers, or residual blocks, of the policy.
        activation: of the policy, instead of its kind's (also mish, gelu, relu, silu, tanh).
        norm: layer norm of the policy, instead of its kind's (also none, before, after).
        critic_width: units of a hidden layer of a critic, and of V.
        critic_depth: hidden layers of a critic.
        critic_activation: of critics and V, instead of their kind's (also mish, gelu, relu, silu, tanh).
        critic_norm: layer norm of critics and V, instead of their kind's (also none, before, after).
        critic_learning_rate: Adam, for the critics.
        eta: η, the strength of value guidance.
        guidance: random (Q_k over |Q_j|) | mean | unnormalized (FQL) (also min, first).
        backup_samples: 10: max-Q backup (AntMaze).
        backup_best: each critic's maximum | together: of their mean.
        clip_norm: bound on the policy's gradient norm; 0: none.
        critic_clip_norm: bound on the critics' gradient norm; 0: none.
        critic_target_every: updates between two moves of φ′.
        policy_target_rate: ρ for θ′.
        policy_target_every: updates between two moves of θ′.
        policy_target_start: first update at which θ′ moves.
        critic: clean_diffuser | plain (official DQL, CAC) (also fql, relu, iql, rebrac, norm_mish, edac, cql).
        denoising_steps: T: times of the schedule, and steps of the chain.
        noise_schedule: CleanDiffuser | vp (DQL) | linear (EDP) (also cosine).
        sampler: ancestral (CleanDiffuser) | posterior (official) (also ddim, dpm_solver).
        weight_decay: of the policy only: PyTorch's AdamW.
        denoiser: official | edp (its authors): codes of time which hyperparameter is T; EDP has another (also clean_diffuser).
    """

def EDAC(
    *,
    steps: int = 1000000,
    batch_size: int = 256,
    discount: float | Sequence[float] = 0.99,
    learning_rate: float | Sequence[float] = 0.0003,
    schedule: Literal['constant', 'cosine', 'warmup_cosine'] = 'constant',
    critic_target_rate: float | Sequence[float] = 0.005,
    critic_count: int = 10,
    aggregation: Literal['min', 'mean', 'lower'] = 'min',
    pessimism: float | Sequence[float] = 1.0,
    width: int | str | Sequence[int] = 256,
    depth: int = 3,
    activation: Literal['', 'mish', 'gelu', 'relu', 'silu', 'tanh'] = '',
    norm: Literal['', 'none', 'before', 'after'] = '',
    critic_width: int | str | Sequence[int] = 256,
    critic_depth: int = 3,
    critic_activation: Literal['', 'mish', 'gelu', 'relu', 'silu', 'tanh'] = '',
    critic_norm: Literal['', 'none', 'before', 'after'] = '',
    critic_learning_rate: float | Sequence[float] = 0.0,
    policy: Literal['relu', 'iql', 'rebrac', 'fql', 'cql'] = 'rebrac',
    critic: Literal['clean_diffuser', 'plain', 'fql', 'relu', 'iql', 'rebrac', 'norm_mish', 'edac', 'cql'] = 'edac',
    diversity: float | Sequence[float] = 1.0,
) -> ConfiguredAgent:
    """EDAC, ensemble-diversified actor-critic: SAC-N with far fewer critics, whose gradients must differ.

    Args:
        steps: gradient updates; the horizon of a schedule.
        batch_size: transitions per update.
        discount: γ.
        learning_rate: Adam, for all networks.
        schedule: of the learning rate (also constant, cosine, warmup_cosine).
        critic_target_rate: ρ for φ′.
        critic_count: N, critics; 50 on Hopper.
        aggregation: lower: mean − pessimism · std (also min).
        pessimism: standard deviations below the mean, for lower.
        width: units of a hidden layer of the policy; 256x128: of each one.
        depth: hidden layers of the policy.
        activation: of the policy, instead of its kind's (also mish, gelu, relu, silu, tanh).
        norm: layer norm of the policy, instead of its kind's (also none, before, after).
        critic_width: units of a hidden layer of a critic, and of V.
        critic_depth: hidden layers of a critic.
        critic_activation: of critics and V, instead of their kind's (also mish, gelu, relu, silu, tanh).
        critic_norm: layer norm of critics and V, instead of their kind's (also none, before, after).
        critic_learning_rate: Adam, for the critics; 0: as the policy.
        policy: ReLU, biases of 0.1, last layer near zero (also relu, iql, rebrac, fql, cql).
        critic: ReLU, biases of 0.1, last layer near zero (also clean_diffuser, plain, fql, relu, iql, rebrac, norm_mish, edac, cql).
        diversity: η, how strongly the critics' gradients are kept apart.
    """

def EDP(
    *,
    steps: int = 1000000,
    batch_size: int = 256,
    discount: float | Sequence[float] = 0.99,
    learning_rate: float | Sequence[float] = 0.0003,
    schedule: Literal['constant', 'cosine', 'warmup_cosine'] = 'cosine',
    critic_target_rate: float | Sequence[float] = 0.005,
    critic_count: int = 2,
    aggregation: Literal['min', 'mean', 'lower'] = 'min',
    pessimism: float | Sequence[float] = 1.0,
    width: int | str | Sequence[int] = 256,
    depth: int = 3,
    activation: Literal['', 'mish', 'gelu', 'relu', 'silu', 'tanh'] = '',
    norm: Literal['', 'none', 'before', 'after'] = '',
    critic_width: int | str | Sequence[int] = 256,
    critic_depth: int = 3,
    critic_activation: Literal['', 'mish', 'gelu', 'relu', 'silu', 'tanh'] = '',
    critic_norm: Literal['', 'none', 'before', 'after'] = '',
    critic_learning_rate: float | Sequence[float] = 0.0003,
    eta: float | Sequence[float] = 1.0,
    guidance: Literal['random', 'mean', 'min', 'first', 'unnormalized'] = 'random',
    backup_samples: int = 1,
    backup_best: Literal['each', 'together'] = 'each',
    clip_norm: float = 0.0,
    critic_clip_norm: float = 0.0,
    critic_target_every: int = 1,
    policy_target_rate: float | Sequence[float] = 0.005,
    policy_target_every: int = 5,
    policy_target_start: int = 1000,
    critic: Literal['clean_diffuser', 'plain', 'fql', 'relu', 'iql', 'rebrac', 'norm_mish', 'edac', 'cql'] = 'clean_diffuser',
    denoising_steps: int = 15,
    noise_schedule: Literal['cosine', 'vp', 'linear'] = 'cosine',
    sampler: Literal['ancestral', 'posterior', 'ddim', 'dpm_solver'] = 'dpm_solver',
    weight_decay: float = 0.01,
    denoiser: Literal['official', 'clean_diffuser', 'edp'] = 'clean_diffuser',
    diffusion_times: int = 50,
    predicts: Literal['action', 'noise'] = 'action',
    approximation: Literal['fresh', 'shared'] = 'fresh',
) -> ConfiguredAgent:
    """Efficient diffusion policies (EDP): DQL whose Q term needs one network call, not a whole chain.

    Args:
        steps: gradient updates; the horizon of a schedule.
        batch_size: transitions per update.
        discount: γ.
        learning_rate: AdamW, for the policy.
        schedule: to 0 over `steps`; warmup_cosine: MeanFlowQL (also constant).
        critic_target_rate: ρ for φ′.
        critic_count: critics.
        aggregation: lower: mean − pessimism · std (also min).
        pessimism: standard deviations below the mean, for lower.
        width: units of a hidden layer of the policy; 256x128: of each one.
        depth: hidden layers, or residual blocks, of the policy.
        activation: of the policy, instead of its kind's (also mish, gelu, relu, silu, tanh).
        norm: layer norm of the policy, instead of its kind's (also none, before, after).
        critic_width: units of a hidden layer of a critic, and of V.
        critic_depth: hidden layers of a critic.
        critic_activation: of critics and V, instead of their kind's (also mish, gelu, relu, silu, tanh).
        critic_norm: layer norm of critics and V, instead of their kind's (also none, before, after).
        critic_learning_rate: Adam, for the critics.
        eta: η, the strength of value guidance.
        guidance: random (Q_k over |Q_j|) | mean | unnormalized (FQL) (also min, first).
        backup_samples: 10: max-Q backup (AntMaze).
        backup_best: each critic's maximum | together: of their mean.
        clip_norm: bound on the policy's gradient norm; 0: none.
        critic_clip_norm: bound on the critics' gradient norm; 0: none.
        critic_target_every: updates between two moves of φ′.
        policy_target_rate: ρ for θ′.
        policy_target_every: updates between two moves of θ′.
        policy_target_start: first update at which θ′ moves.
        critic: clean_diffuser | plain (official DQL, CAC) (also fql, relu, iql, rebrac, norm_mish, edac, cql).
        denoising_steps: steps from noise to action.
        noise_schedule: CleanDiffuser | vp (DQL) | linear (EDP) (also cosine).
        sampler: ddim: CleanDiffuser on AntMaze (also ancestral, posterior, dpm_solver).
        weight_decay: of the policy only: PyTorch's AdamW.
        denoiser: official | edp (its authors): codes of time which hyperparameter is T; EDP has another (also clean_diffuser).
        diffusion_times: T: times of the schedule.
        predicts: action (CleanDiffuser) | noise (official).
        approximation: a^π's draw; shared: L_d's (official) (also fresh).
    """

def FAWAC(
    *,
    steps: int = 1000000,
    batch_size: int = 256,
    discount: float | Sequence[float] = 0.99,
    learning_rate: float | Sequence[float] = 0.0003,
    schedule: Literal['constant', 'cosine', 'warmup_cosine'] = 'constant',
    critic_target_rate: float | Sequence[float] = 0.005,
    critic_count: int = 2,
    aggregation: Literal['min', 'mean', 'lower'] = 'mean',
    pessimism: float | Sequence[float] = 1.0,
    width: int | str | Sequence[int] = 512,
    depth: int = 4,
    activation: Literal['', 'mish', 'gelu', 'relu', 'silu', 'tanh'] = '',
    norm: Literal['', 'none', 'before', 'after'] = '',
    critic_width: int | str | Sequence[int] = 512,
    critic_depth: int = 4,
    critic_activation: Literal['', 'mish', 'gelu', 'relu', 'silu', 'tanh'] = '',
    critic_norm: Literal['', 'none', 'before', 'after'] = '',
    flow_steps: int = 10,
    critic: Literal['clean_diffuser', 'plain', 'fql', 'relu', 'iql', 'rebrac', 'norm_mish', 'edac', 'cql'] = 'fql',
    alpha: float | Sequence[float] = 3.0,
    baseline: Literal['policy', 'network'] = 'policy',
) -> ConfiguredAgent:
    """Flow AWAC (FAWAC): a flow imitates logged actions, better ones more strongly.

    Args:
        steps: gradient updates; FQL's paper has half as many on D4RL.
        batch_size: transitions per update.
        discount: γ.
        learning_rate: Adam, for all networks.
        schedule: of the learning rate (also constant, cosine, warmup_cosine).
        critic_target_rate: ρ for φ′.
        critic_count: critics.
        aggregation: in the TD target and among candidates (also min, mean, lower).
        pessimism: standard deviations below the mean, for lower.
        width: units of a hidden layer of the policy.
        depth: hidden layers of the policy.
        activation: of the policy, instead of its kind's (also mish, gelu, relu, silu, tanh).
        norm: layer norm of the policy, instead of its kind's (also none, before, after).
        critic_width: units of a hidden layer of a critic, and of V.
        critic_depth: hidden layers of a critic, and of V.
        critic_activation: of critics and V, instead of their kind's (also mish, gelu, relu, silu, tanh).
        critic_norm: layer norm of critics and V, instead of their kind's (also none, before, after).
        flow_steps: K, Euler steps of the policy in training.
        critic: Linear, GELU, LayerNorm (also clean_diffuser, plain, fql, relu, iql, rebrac, norm_mish, edac, cql).
        alpha: α, the inverse temperature of the weights.
        baseline: V: one sample, as AWAC | regressed on Q (also policy, network).
    """

def FBRAC(
    *,
    steps: int = 1000000,
    batch_size: int = 256,
    discount: float | Sequence[float] = 0.99,
    learning_rate: float | Sequence[float] = 0.0003,
    schedule: Literal['constant', 'cosine', 'warmup_cosine'] = 'constant',
    critic_target_rate: float | Sequence[float] = 0.005,
    critic_count: int = 2,
    aggregation: Literal['min', 'mean', 'lower'] = 'mean',
    pessimism: float | Sequence[float] = 1.0,
    width: int | str | Sequence[int] = 512,
    depth: int = 4,
    activation: Literal['', 'mish', 'gelu', 'relu', 'silu', 'tanh'] = '',
    norm: Literal['', 'none', 'before', 'after'] = '',
    critic_width: int | str | Sequence[int] = 512,
    critic_depth: int = 4,
    critic_activation: Literal['', 'mish', 'gelu', 'relu', 'silu', 'tanh'] = '',
    critic_norm: Literal['', 'none', 'before', 'after'] = '',
    flow_steps: int = 10,
    critic: Literal['clean_diffuser', 'plain', 'fql', 'relu', 'iql', 'rebrac', 'norm_mish', 'edac', 'cql'] = 'fql',
    alpha: float | Sequence[float] = 1.0,
    normalize_q: bool = True,
) -> ConfiguredAgent:
    """Flow behavior-regularized actor-critic (FBRAC): a flow policy that maximizes Q through all of its steps.

    Args:
        steps: gradient updates; FQL's paper has half as many on D4RL.
        batch_size: transitions per update.
        discount: γ.
        learning_rate: Adam, for all networks.
        schedule: of the learning rate (also constant, cosine, warmup_cosine).
        critic_target_rate: ρ for φ′.
        critic_count: critics.
        aggregation: in the TD target and among candidates (also min, mean, lower).
        pessimism: standard deviations below the mean, for lower.
        width: units of a hidden layer of the policy.
        depth: hidden layers of the policy.
        activation: of the policy, instead of its kind's (also mish, gelu, relu, silu, tanh).
        norm: layer norm of the policy, instead of its kind's (also none, before, after).
        critic_width: units of a hidden layer of a critic, and of V.
        critic_depth: hidden layers of a critic, and of V.
        critic_activation: of critics and V, instead of their kind's (also mish, gelu, relu, silu, tanh).
        critic_norm: layer norm of critics and V, instead of their kind's (also none, before, after).
        flow_steps: K, Euler steps of the policy in training.
        critic: Linear, GELU, LayerNorm (also clean_diffuser, plain, fql, relu, iql, rebrac, norm_mish, edac, cql).
        alpha: α, the strength of imitation.
        normalize_q: divide by sg E|Q̄|; FQL's paper does not.
    """

def FQL(
    *,
    steps: int = 1000000,
    batch_size: int = 256,
    discount: float | Sequence[float] = 0.99,
    learning_rate: float | Sequence[float] = 0.0003,
    schedule: Literal['constant', 'cosine', 'warmup_cosine'] = 'constant',
    critic_target_rate: float | Sequence[float] = 0.005,
    critic_count: int = 2,
    aggregation: Literal['min', 'mean', 'lower'] = 'mean',
    pessimism: float | Sequence[float] = 1.0,
    width: int | str | Sequence[int] = 512,
    depth: int = 4,
    activation: Literal['', 'mish', 'gelu', 'relu', 'silu', 'tanh'] = '',
    norm: Literal['', 'none', 'before', 'after'] = '',
    critic_width: int | str | Sequence[int] = 512,
    critic_depth: int = 4,
    critic_activation: Literal['', 'mish', 'gelu', 'relu', 'silu', 'tanh'] = '',
    critic_norm: Literal['', 'none', 'before', 'after'] = '',
    flow_steps: int = 10,
    critic: Literal['clean_diffuser', 'plain', 'fql', 'relu', 'iql', 'rebrac', 'norm_mish', 'edac', 'cql'] = 'fql',
    alpha: float | Sequence[float] = 1.0,
    normalize_q: bool = True,
) -> ConfiguredAgent:
    """Flow Q-Learning (FQL): a flow imitates the data; a one-step policy is distilled from it and maximizes Q.

    Args:
        steps: gradient updates; FQL's paper has half as many on D4RL.
        batch_size: transitions per update.
        discount: γ.
        learning_rate: Adam, for all networks.
        schedule: of the learning rate (also constant, cosine, warmup_cosine).
        critic_target_rate: ρ for φ′.
        critic_count: critics.
        aggregation: in the TD target and among candidates (also min, mean, lower).
        pessimism: standard deviations below the mean, for lower.
        width: units of a hidden layer of the policy.
        depth: hidden layers of the policy.
        activation: of the policy, instead of its kind's (also mish, gelu, relu, silu, tanh).
        norm: layer norm of the policy, instead of its kind's (also none, before, after).
        critic_width: units of a hidden layer of a critic, and of V.
        critic_depth: hidden layers of a critic, and of V.
        critic_activation: of critics and V, instead of their kind's (also mish, gelu, relu, silu, tanh).
        critic_norm: layer norm of critics and V, instead of their kind's (also none, before, after).
        flow_steps: K, Euler steps of the policy in training.
        critic: Linear, GELU, LayerNorm (also clean_diffuser, plain, fql, relu, iql, rebrac, norm_mish, edac, cql).
        alpha: α, the strength of the distillation.
        normalize_q: divide by sg E|Q̄|; FQL itself does not.
    """

def IDQL(
    *,
    steps: int = 1000000,
    batch_size: int = 256,
    discount: float | Sequence[float] = 0.99,
    learning_rate: float | Sequence[float] = 0.0003,
    schedule: Literal['constant', 'cosine', 'warmup_cosine'] = 'cosine',
    critic_target_rate: float | Sequence[float] = 0.005,
    critic_count: int = 2,
    aggregation: Literal['min', 'mean', 'lower'] = 'min',
    pessimism: float | Sequence[float] = 1.0,
    width: int | str | Sequence[int] = 256,
    depth: int = 3,
    activation: Literal['', 'mish', 'gelu', 'relu', 'silu', 'tanh'] = '',
    norm: Literal['', 'none', 'before', 'after'] = '',
    critic_width: int | str | Sequence[int] = 256,
    critic_depth: int = 2,
    critic_activation: Literal['', 'mish', 'gelu', 'relu', 'silu', 'tanh'] = '',
    critic_norm: Literal['', 'none', 'before', 'after'] = '',
    critic_learning_rate: float = 0.0,
    critic_batch_size: int = 256,
    diffusion_steps: int = 5,
    noise_schedule: Literal['cosine', 'vp'] = 'cosine',
    sampler: Literal['ancestral', 'posterior', 'ddim', 'dpm_solver', 'sqrt_beta'] = 'ancestral',
    sum_loss: bool = False,
    expectile: float | Sequence[float] = 0.7,
    critic_every: int = 2,
    critic_schedule: Literal['constant', 'cosine', 'warmup_cosine'] = 'cosine',
    weight_decay: float = 0.01,
    policy_target_rate: float | Sequence[float] = 0.0001,
    architecture: Literal['clean_diffuser', 'idql'] = 'clean_diffuser',
    critic: Literal['clean_diffuser', 'plain', 'fql', 'relu', 'iql', 'rebrac', 'norm_mish', 'edac', 'cql'] = 'norm_mish',
) -> ConfiguredAgent:
    """Implicit diffusion Q-learning (IDQL): IQL's critics select among the actions of a diffusion policy.

    Args:
        steps: updates; CleanDiffuser: 2,000,000, official: 3,000,000.
        batch_size: transitions per update.
        discount: γ.
        learning_rate: Adam, for all networks.
        schedule: of the behavior, over `steps` (also constant, cosine, warmup_cosine).
        critic_target_rate: ρ for φ′, at each update of the critics.
        critic_count: critics.
        aggregation: lower: mean − pessimism · std (also min).
        pessimism: standard deviations below the mean, for lower.
        width: units of the behavior's residual stream.
        depth: its blocks.
        activation: of the policy, instead of its kind's (also mish, gelu, relu, silu, tanh).
        norm: layer norm of the policy, instead of its kind's (also none, before, after).
        critic_width: units of a hidden layer of a critic, and of V.
        critic_depth: hidden layers of a critic, and of V.
        critic_activation: of critics and V, instead of their kind's (also mish, gelu, relu, silu, tanh).
        critic_norm: layer norm of critics and V, instead of their kind's (also none, before, after).
        critic_learning_rate: Adam, for critics and V; 0: as the policy.
        critic_batch_size: the first rows of the batch train the critics.
        diffusion_steps: T, the times of the noise schedule.
        noise_schedule: cosine (CleanDiffuser) | vp (official).
        sampler: ancestral (CleanDiffuser) | sqrt_beta (official) (also posterior, ddim, dpm_solver).
        sum_loss: sum over action dimensions (official), not their mean.
        expectile: κ.
        critic_every: updates of the behavior per update of the critics.
        critic_schedule: of V and Q, counted in their own updates (also constant, cosine, warmup_cosine).
        weight_decay: of the behavior only: PyTorch's AdamW.
        policy_target_rate: ρ for θ′, at each update.
        architecture: idql: official (also clean_diffuser).
        critic: kind of Q and V (also clean_diffuser, plain, fql, relu, iql, rebrac, norm_mish, edac, cql).
    """

def IFQL(
    *,
    steps: int = 1000000,
    batch_size: int = 256,
    discount: float | Sequence[float] = 0.99,
    learning_rate: float | Sequence[float] = 0.0003,
    schedule: Literal['constant', 'cosine', 'warmup_cosine'] = 'constant',
    critic_target_rate: float | Sequence[float] = 0.005,
    critic_count: int = 2,
    aggregation: Literal['min', 'mean', 'lower'] = 'min',
    pessimism: float | Sequence[float] = 1.0,
    width: int | str | Sequence[int] = 512,
    depth: int = 4,
    activation: Literal['', 'mish', 'gelu', 'relu', 'silu', 'tanh'] = '',
    norm: Literal['', 'none', 'before', 'after'] = '',
    critic_width: int | str | Sequence[int] = 512,
    critic_depth: int = 4,
    critic_activation: Literal['', 'mish', 'gelu', 'relu', 'silu', 'tanh'] = '',
    critic_norm: Literal['', 'none', 'before', 'after'] = '',
    flow_steps: int = 10,
    critic: Literal['clean_diffuser', 'plain', 'fql', 'relu', 'iql', 'rebrac', 'norm_mish', 'edac', 'cql'] = 'fql',
    expectile: float | Sequence[float] = 0.9,
) -> ConfiguredAgent:
    """Implicit Flow Q-Learning (IFQL): IQL's values, a flow that imitates, and the best of N of its actions.

    Args:
        steps: gradient updates; FQL's paper has half as many on D4RL.
        batch_size: transitions per update.
        discount: γ.
        learning_rate: Adam, for all networks.
        schedule: of the learning rate (also constant, cosine, warmup_cosine).
        critic_target_rate: ρ for φ′.
        critic_count: critics.
        aggregation: in V's target and among candidates (also min, mean, lower).
        pessimism: standard deviations below the mean, for lower.
        width: units of a hidden layer of the policy.
        depth: hidden layers of the policy.
        activation: of the policy, instead of its kind's (also mish, gelu, relu, silu, tanh).
        norm: layer norm of the policy, instead of its kind's (also none, before, after).
        critic_width: units of a hidden layer of a critic, and of V.
        critic_depth: hidden layers of a critic, and of V.
        critic_activation: of critics and V, instead of their kind's (also mish, gelu, relu, silu, tanh).
        critic_norm: layer norm of critics and V, instead of their kind's (also none, before, after).
        flow_steps: K, Euler steps of acting.
        critic: Linear, GELU, LayerNorm (also clean_diffuser, plain, fql, relu, iql, rebrac, norm_mish, edac, cql).
        expectile: κ.
    """

def IQL(
    *,
    steps: int = 1000000,
    batch_size: int = 256,
    discount: float | Sequence[float] = 0.99,
    learning_rate: float | Sequence[float] = 0.0003,
    schedule: Literal['constant', 'cosine', 'warmup_cosine'] = 'cosine',
    critic_target_rate: float | Sequence[float] = 0.005,
    critic_count: int = 2,
    aggregation: Literal['min', 'mean', 'lower'] = 'min',
    pessimism: float | Sequence[float] = 1.0,
    width: int | str | Sequence[int] = 256,
    depth: int = 2,
    activation: Literal['', 'mish', 'gelu', 'relu', 'silu', 'tanh'] = '',
    norm: Literal['', 'none', 'before', 'after'] = '',
    critic_width: int | str | Sequence[int] = 256,
    critic_depth: int = 2,
    critic_activation: Literal['', 'mish', 'gelu', 'relu', 'silu', 'tanh'] = '',
    critic_norm: Literal['', 'none', 'before', 'after'] = '',
    critic_learning_rate: float = 0.0,
    expectile: float | Sequence[float] = 0.7,
    beta: float | Sequence[float] = 3.0,
    advantage: Literal['target', 'online'] = 'target',
    joint: bool = False,
    policy: Literal['relu', 'iql', 'rebrac', 'fql', 'cql'] = 'iql',
    unit_std: bool = False,
    tanh_mean: bool = True,
    dropout: bool = False,
    critic: Literal['clean_diffuser', 'plain', 'fql', 'relu', 'iql', 'rebrac', 'norm_mish', 'edac', 'cql'] = 'iql',
) -> ConfiguredAgent:
    """Implicit Q-learning (IQL): values by expectile regression, a policy by weighted imitation.

    Args:
        steps: gradient updates; the horizon of a schedule.
        batch_size: transitions per update.
        discount: γ.
        learning_rate: Adam, for all networks.
        schedule: of the policy only: cosine to 0 over `steps` (also constant, warmup_cosine).
        critic_target_rate: ρ for φ′.
        critic_count: critics.
        aggregation: lower: mean − pessimism · std (also min).
        pessimism: standard deviations below the mean, for lower.
        width: units of a hidden layer of the policy; 256x128: of each one.
        depth: hidden layers of the policy.
        activation: of the policy, instead of its kind's (also mish, gelu, relu, silu, tanh).
        norm: layer norm of the policy, instead of its kind's (also none, before, after).
        critic_width: units of a hidden layer of a critic, and of V.
        critic_depth: hidden layers of a critic, and of V.
        critic_activation: of critics and V, instead of their kind's (also mish, gelu, relu, silu, tanh).
        critic_norm: layer norm of critics and V, instead of their kind's (also none, before, after).
        critic_learning_rate: Adam, for critics and V; 0: as the policy.
        expectile: κ: ½ is the mean over the data's actions, 1 their best.
        beta: β, how strongly better actions are preferred.
        advantage: critics in the weights; online: FQL family (also target).
        joint: losses and the target use the parameters before the update (FQL family).
        policy: iql (ReLU, orthogonal) | fql (GELU) (also relu, rebrac, cql).
        unit_std: σ = 1 instead of a learned σ for each action dimension.
        tanh_mean: μ = tanh(·); the distribution itself is not squashed.
        dropout: drop a tenth of the policy's hidden units (the authors' on Adroit).
        critic: of Q and V: iql (ReLU, orthogonal) | fql (also clean_diffuser, plain, relu, rebrac, norm_mish, edac, cql).
    """

def OFQL(
    *,
    steps: int = 1000000,
    batch_size: int = 256,
    discount: float | Sequence[float] = 0.99,
    learning_rate: float | Sequence[float] = 0.0003,
    schedule: Literal['constant', 'cosine', 'warmup_cosine'] = 'cosine',
    critic_target_rate: float | Sequence[float] = 0.005,
    critic_count: int = 2,
    aggregation: Literal['min', 'mean', 'lower'] = 'min',
    pessimism: float | Sequence[float] = 1.0,
    width: int | str | Sequence[int] = 256,
    depth: int = 3,
    activation: Literal['', 'mish', 'gelu', 'relu', 'silu', 'tanh'] = '',
    norm: Literal['', 'none', 'before', 'after'] = '',
    critic_width: int | str | Sequence[int] = 256,
    critic_depth: int = 3,
    critic_activation: Literal['', 'mish', 'gelu', 'relu', 'silu', 'tanh'] = '',
    critic_norm: Literal['', 'none', 'before', 'after'] = '',
    critic_learning_rate: float = 0.0,
    eta: float | Sequence[float] = 1.0,
    guidance: Literal['random', 'mean', 'min', 'first', 'unnormalized'] = 'random',
    backup_samples: int = 1,
    backup_best: Literal['each', 'together'] = 'each',
    clip_norm: float = 0.0,
    critic_clip_norm: float = 0.0,
    critic_target_every: int = 1,
    policy_target_rate: float | Sequence[float] = 0.005,
    policy_target_every: int = 5,
    policy_target_start: int = 1000,
    critic: Literal['clean_diffuser', 'plain', 'fql', 'relu', 'iql', 'rebrac', 'norm_mish', 'edac', 'cql'] = 'clean_diffuser',
    flow_ratio: float | Sequence[float] = 0.5,
    time_rule: Literal['logit_normal', 'uniform'] = 'logit_normal',
    adaptive_power: float | Sequence[float] = 0.0,
    architecture: Literal['embedded', 'residual', 'raw_time'] = 'embedded',
    time_scale: int = 1,
) -> ConfiguredAgent:
    """One-step flow Q-learning (OFQL): like BFQ, with a one-step policy learned by MeanFlow.

    Args:
        steps: gradient updates; the horizon of a schedule.
        batch_size: transitions per update.
        discount: γ.
        learning_rate: Adam, for all networks.
        schedule: to 0 over `steps`; warmup_cosine: MeanFlowQL (also constant).
        critic_target_rate: ρ for φ′.
        critic_count: critics.
        aggregation: lower: mean − pessimism · std (also min).
        pessimism: standard deviations below the mean, for lower.
        width: units of a hidden layer of the policy; 256x128: of each one.
        depth: hidden layers, or residual blocks, of the policy.
        activation: of the policy, instead of its kind's (also mish, gelu, relu, silu, tanh).
        norm: layer norm of the policy, instead of its kind's (also none, before, after).
        critic_width: units of a hidden layer of a critic, and of V.
        critic_depth: hidden layers of a critic.
        critic_activation: of critics and V, instead of their kind's (also mish, gelu, relu, silu, tanh).
        critic_norm: layer norm of critics and V, instead of their kind's (also none, before, after).
        critic_learning_rate: Adam, for critics and V; 0: as the policy.
        eta: η, the strength of value guidance.
        guidance: random (Q_k over |Q_j|) | mean | unnormalized (FQL) (also min, first).
        backup_samples: 10: max-Q backup (AntMaze).
        backup_best: each critic's maximum | together: of their mean.
        clip_norm: bound on the policy's gradient norm; 0: none.
        critic_clip_norm: bound on the critics' gradient norm; 0: none.
        critic_target_every: updates between two moves of φ′.
        policy_target_rate: ρ for θ′.
        policy_target_every: updates between two moves of θ′.
        policy_target_start: first update at which θ′ moves.
        critic: clean_diffuser | plain (official DQL, CAC) (also fql, relu, iql, rebrac, norm_mish, edac, cql).
        flow_ratio: λ, share of the samples with r = t.
        time_rule: sigmoid of N(−0.4, 1) (also logit_normal, uniform).
        adaptive_power: p of MeanFlow's weight (error² + c)^(−p).
        architecture: as BFQ's (also embedded, residual, raw_time).
        time_scale: factor on t and r before their sinusoids; BFQ has 10.
    """

def REBRAC(
    *,
    steps: int = 1000000,
    batch_size: int = 1024,
    discount: float | Sequence[float] = 0.99,
    learning_rate: float | Sequence[float] = 0.001,
    schedule: Literal['constant', 'cosine', 'warmup_cosine'] = 'constant',
    critic_target_rate: float | Sequence[float] = 0.005,
    critic_count: int = 2,
    aggregation: Literal['min', 'mean', 'lower'] = 'min',
    pessimism: float | Sequence[float] = 1.0,
    width: int | str | Sequence[int] = 256,
    depth: int = 3,
    activation: Literal['', 'mish', 'gelu', 'relu', 'silu', 'tanh'] = '',
    norm: Literal['', 'none', 'before', 'after'] = '',
    critic_width: int | str | Sequence[int] = 256,
    critic_depth: int = 3,
    critic_activation: Literal['', 'mish', 'gelu', 'relu', 'silu', 'tanh'] = '',
    critic_norm: Literal['', 'none', 'before', 'after'] = '',
    critic_learning_rate: float | Sequence[float] = 0.0,
    policy_penalty: float | Sequence[float] = 1.0,
    critic_penalty: float | Sequence[float] = 1.0,
    target_noise: float | Sequence[float] = 0.2,
    target_noise_bound: float | Sequence[float] = 0.5,
    policy_every: int = 2,
    joint: bool = False,
    policy_target_rate: float | Sequence[float] = 0.005,
    policy: Literal['relu', 'iql', 'rebrac', 'fql', 'cql'] = 'rebrac',
    critic: Literal['clean_diffuser', 'plain', 'fql', 'relu', 'iql', 'rebrac', 'norm_mish', 'edac', 'cql'] = 'rebrac',
) -> ConfiguredAgent:
    """ReBRAC: TD3-BC with deep normalized critics and a second penalty, inside the TD target.

    Args:
        steps: gradient updates; the horizon of a schedule.
        batch_size: transitions per update.
        discount: γ.
        learning_rate: Adam, for the policy.
        schedule: of the learning rate (also constant, cosine, warmup_cosine).
        critic_target_rate: ρ for φ′.
        critic_count: critics.
        aggregation: lower: mean − pessimism · std (also min).
        pessimism: standard deviations below the mean, for lower.
        width: units of a hidden layer of the policy; 256x128: of each one.
        depth: hidden layers of the policy.
        activation: of the policy, instead of its kind's (also mish, gelu, relu, silu, tanh).
        norm: layer norm of the policy, instead of its kind's (also none, before, after).
        critic_width: units of a hidden layer of a critic, and of V.
        critic_depth: hidden layers of a critic.
        critic_activation: of critics and V, instead of their kind's (also mish, gelu, relu, silu, tanh).
        critic_norm: layer norm of critics and V, instead of their kind's (also none, before, after).
        critic_learning_rate: for the critics; 0: as the policy.
        policy_penalty: α₁, on ‖π_θ(s) − a‖²; each task has its own.
        critic_penalty: α₂, on the distance from the data's next action.
        target_noise: standard deviation of the noise on ã.
        target_noise_bound: bound on that noise.
        policy_every: updates between two steps of the policy and of both targets.
        joint: losses and targets use the parameters before the update (FQL family).
        policy_target_rate: ρ for θ′.
        policy: rebrac (ReLU, last layer near zero) | fql (GELU) (also relu, iql, cql).
        critic: rebrac (ReLU and LayerNorm) | fql (GELU and LayerNorm) (also clean_diffuser, plain, relu, iql, norm_mish, edac, cql).
    """

def SAC_N(
    *,
    steps: int = 1000000,
    batch_size: int = 256,
    discount: float | Sequence[float] = 0.99,
    learning_rate: float | Sequence[float] = 0.0003,
    schedule: Literal['constant', 'cosine', 'warmup_cosine'] = 'constant',
    critic_target_rate: float | Sequence[float] = 0.005,
    critic_count: int = 10,
    aggregation: Literal['min', 'mean', 'lower'] = 'min',
    pessimism: float | Sequence[float] = 1.0,
    width: int | str | Sequence[int] = 256,
    depth: int = 3,
    activation: Literal['', 'mish', 'gelu', 'relu', 'silu', 'tanh'] = '',
    norm: Literal['', 'none', 'before', 'after'] = '',
    critic_width: int | str | Sequence[int] = 256,
    critic_depth: int = 3,
    critic_activation: Literal['', 'mish', 'gelu', 'relu', 'silu', 'tanh'] = '',
    critic_norm: Literal['', 'none', 'before', 'after'] = '',
    critic_learning_rate: float | Sequence[float] = 0.0,
    policy: Literal['relu', 'iql', 'rebrac', 'fql', 'cql'] = 'rebrac',
    critic: Literal['clean_diffuser', 'plain', 'fql', 'relu', 'iql', 'rebrac', 'norm_mish', 'edac', 'cql'] = 'edac',
) -> ConfiguredAgent:
    """SAC-N: soft actor-critic with N critics; the least of them is the value, which is low where data is rare.

    Args:
        steps: gradient updates; the horizon of a schedule.
        batch_size: transitions per update.
        discount: γ.
        learning_rate: Adam, for all networks.
        schedule: of the learning rate (also constant, cosine, warmup_cosine).
        critic_target_rate: ρ for φ′.
        critic_count: N, critics.
        aggregation: lower: mean − pessimism · std (also min).
        pessimism: standard deviations below the mean, for lower.
        width: units of a hidden layer of the policy; 256x128: of each one.
        depth: hidden layers of the policy.
        activation: of the policy, instead of its kind's (also mish, gelu, relu, silu, tanh).
        norm: layer norm of the policy, instead of its kind's (also none, before, after).
        critic_width: units of a hidden layer of a critic, and of V.
        critic_depth: hidden layers of a critic.
        critic_activation: of critics and V, instead of their kind's (also mish, gelu, relu, silu, tanh).
        critic_norm: layer norm of critics and V, instead of their kind's (also none, before, after).
        critic_learning_rate: Adam, for the critics; 0: as the policy.
        policy: ReLU, biases of 0.1, last layer near zero (also relu, iql, rebrac, fql, cql).
        critic: ReLU, biases of 0.1, last layer near zero (also clean_diffuser, plain, fql, relu, iql, rebrac, norm_mish, edac, cql).
    """

def SORL(
    *,
    steps: int = 1000000,
    batch_size: int = 256,
    discount: float | Sequence[float] = 0.99,
    learning_rate: float | Sequence[float] = 0.0001,
    schedule: Literal['constant', 'cosine', 'warmup_cosine'] = 'constant',
    critic_target_rate: float | Sequence[float] = 0.005,
    critic_count: int = 2,
    aggregation: Literal['min', 'mean', 'lower'] = 'mean',
    pessimism: float | Sequence[float] = 1.0,
    width: int | str | Sequence[int] = 512,
    depth: int = 4,
    activation: Literal['', 'mish', 'gelu', 'relu', 'silu', 'tanh'] = '',
    norm: Literal['', 'none', 'before', 'after'] = '',
    critic_width: int | str | Sequence[int] = 512,
    critic_depth: int = 4,
    critic_activation: Literal['', 'mish', 'gelu', 'relu', 'silu', 'tanh'] = '',
    critic_norm: Literal['', 'none', 'before', 'after'] = '',
    flow_steps: int = 8,
    critic: Literal['clean_diffuser', 'plain', 'fql', 'relu', 'iql', 'rebrac', 'norm_mish', 'edac', 'cql'] = 'fql',
    eta: float | Sequence[float] = 100.0,
    bc_weight: float | Sequence[float] = 10.0,
    consistency_weight: float | Sequence[float] = 10.0,
    clip_norm: float = 1.0,
    policy_target_rate: float | Sequence[float] = 0.005,
) -> ConfiguredAgent:
    """Scalable Offline RL with shortcut models (SORL): one flow policy for 1, 2, 4 or 8 steps.

    Args:
        steps: gradient updates; FQL's paper has half as many on D4RL.
        batch_size: transitions per update.
        discount: γ.
        learning_rate: Adam.
        schedule: of the learning rate (also constant, cosine, warmup_cosine).
        critic_target_rate: ρ for φ′.
        critic_count: critics.
        aggregation: in the TD target and among candidates (also min, mean, lower).
        pessimism: standard deviations below the mean, for lower.
        width: units of a hidden layer of the policy.
        depth: hidden layers of the policy.
        activation: of the policy, instead of its kind's (also mish, gelu, relu, silu, tanh).
        norm: layer norm of the policy, instead of its kind's (also none, before, after).
        critic_width: units of a hidden layer of a critic, and of V.
        critic_depth: hidden layers of a critic, and of V.
        critic_activation: of critics and V, instead of their kind's (also mish, gelu, relu, silu, tanh).
        critic_norm: layer norm of critics and V, instead of their kind's (also none, before, after).
        flow_steps: the most steps of the policy, a power of two.
        critic: Linear, GELU, LayerNorm (also clean_diffuser, plain, fql, relu, iql, rebrac, norm_mish, edac, cql).
        eta: c, the strength of value guidance.
        bc_weight: weight of L_flow.
        consistency_weight: weight of L_cons.
        clip_norm: bound on the joint gradient's norm in each step; 0: none.
        policy_target_rate: ρ for θ′.
    """

def SRPO(
    *,
    steps: int = 1000000,
    batch_size: int = 2048,
    discount: float | Sequence[float] = 0.99,
    learning_rate: float | Sequence[float] = 0.0003,
    schedule: Literal['constant', 'cosine', 'warmup_cosine'] = 'cosine',
    critic_target_rate: float | Sequence[float] = 0.005,
    critic_count: int = 2,
    aggregation: Literal['min', 'mean', 'lower'] = 'min',
    pessimism: float | Sequence[float] = 1.0,
    width: int | str | Sequence[int] = 256,
    depth: int = 2,
    activation: Literal['', 'mish', 'gelu', 'relu', 'silu', 'tanh'] = '',
    norm: Literal['', 'none', 'before', 'after'] = '',
    critic_width: int | str | Sequence[int] = 256,
    critic_depth: int = 2,
    critic_activation: Literal['', 'mish', 'gelu', 'relu', 'silu', 'tanh'] = '',
    critic_norm: Literal['', 'none', 'before', 'after'] = '',
    critic_learning_rate: float = 0.0,
    behavior_parts: int = 4,
    critic_parts: int = 3,
    policy_parts: int = 2,
    critic_batch_size: int = 256,
    policy_batch_size: int = 256,
    beta: float | Sequence[float] = 0.2,
    normalize_gradient: bool = False,
    subtract_noise: bool = False,
    expectile: float | Sequence[float] = 0.7,
    weight_decay: float = 0.01,
    behavior_depth: int = 3,
    critic: Literal['clean_diffuser', 'plain', 'fql', 'relu', 'iql', 'rebrac', 'norm_mish', 'edac', 'cql'] = 'relu',
) -> ConfiguredAgent:
    """Score-regularized policy optimization (SRPO): the score of a behavior model regularizes a deterministic policy.

    Args:
        steps: updates of all three phases together.
        batch_size: transitions per update; the behavior uses all of them.
        discount: γ.
        learning_rate: Adam, for all networks.
        schedule: of the policy, over its own phase; the others: constant (also cosine, warmup_cosine).
        critic_target_rate: ρ for φ′.
        critic_count: critics.
        aggregation: lower: mean − pessimism · std (also min).
        pessimism: standard deviations below the mean, for lower.
        width: units of the policy's hidden layers and the behavior's stream.
        depth: hidden layers of the policy (AntMaze: 4).
        activation: of the policy, instead of its kind's (also mish, gelu, relu, silu, tanh).
        norm: layer norm of the policy, instead of its kind's (also none, before, after).
        critic_width: units of a hidden layer of a critic, and of V.
        critic_depth: hidden layers of a critic, and of V.
        critic_activation: of critics and V, instead of their kind's (also mish, gelu, relu, silu, tanh).
        critic_norm: layer norm of critics and V, instead of their kind's (also none, before, after).
        critic_learning_rate: Adam, for critics and V; 0: as the policy.
        behavior_parts: share of the behavior.
        critic_parts: share of the critics.
        policy_parts: share of the policy.
        critic_batch_size: the critics use this many of them, the first ones.
        policy_batch_size: the policy uses this many of them, the first ones.
        beta: β, the strength of Q against the behavior's score.
        normalize_gradient: divide g by its RMS over action dimensions (AntMaze).
        subtract_noise: ε_θ − z instead of ε_θ: the same mean, less variance.
        expectile: κ.
        weight_decay: of the behavior only: PyTorch's AdamW.
        behavior_depth: residual blocks of the behavior.
        critic: kind of Q and V (also clean_diffuser, plain, fql, relu, iql, rebrac, norm_mish, edac, cql).
    """

def TD3_BC(
    *,
    steps: int = 1000000,
    batch_size: int = 256,
    discount: float | Sequence[float] = 0.99,
    learning_rate: float | Sequence[float] = 0.0003,
    schedule: Literal['constant', 'cosine', 'warmup_cosine'] = 'constant',
    critic_target_rate: float | Sequence[float] = 0.005,
    critic_count: int = 2,
    aggregation: Literal['min', 'mean', 'lower'] = 'min',
    pessimism: float | Sequence[float] = 1.0,
    width: int | str | Sequence[int] = 256,
    depth: int = 2,
    activation: Literal['', 'mish', 'gelu', 'relu', 'silu', 'tanh'] = '',
    norm: Literal['', 'none', 'before', 'after'] = '',
    critic_width: int | str | Sequence[int] = 256,
    critic_depth: int = 2,
    critic_activation: Literal['', 'mish', 'gelu', 'relu', 'silu', 'tanh'] = '',
    critic_norm: Literal['', 'none', 'before', 'after'] = '',
    critic_learning_rate: float = 0.0,
    eta: float | Sequence[float] = 2.5,
    target_noise: float | Sequence[float] = 0.2,
    target_noise_bound: float | Sequence[float] = 0.5,
    policy_every: int = 2,
    policy_target_rate: float | Sequence[float] = 0.005,
    policy: Literal['relu', 'iql', 'rebrac', 'fql', 'cql'] = 'relu',
    critic: Literal['clean_diffuser', 'plain', 'fql', 'relu', 'iql', 'rebrac', 'norm_mish', 'edac', 'cql'] = 'relu',
) -> ConfiguredAgent:
    """TD3-BC: a deterministic policy that climbs Q and stays close to the data's actions.

    Args:
        steps: gradient updates; the horizon of a schedule.
        batch_size: transitions per update.
        discount: γ.
        learning_rate: Adam, for all networks.
        schedule: of the learning rate (also constant, cosine, warmup_cosine).
        critic_target_rate: ρ for φ′.
        critic_count: critics.
        aggregation: lower: mean − pessimism · std (also min).
        pessimism: standard deviations below the mean, for lower.
        width: units of a hidden layer of the policy; 256x128: of each one.
        depth: hidden layers of the policy.
        activation: of the policy, instead of its kind's (also mish, gelu, relu, silu, tanh).
        norm: layer norm of the policy, instead of its kind's (also none, before, after).
        critic_width: units of a hidden layer of a critic, and of V.
        critic_depth: hidden layers of a critic, and of V.
        critic_activation: of critics and V, instead of their kind's (also mish, gelu, relu, silu, tanh).
        critic_norm: layer norm of critics and V, instead of their kind's (also none, before, after).
        critic_learning_rate: Adam, for critics and V; 0: as the policy.
        eta: α, the strength of value guidance.
        target_noise: standard deviation of the noise on ã.
        target_noise_bound: bound on that noise.
        policy_every: updates between two steps of the policy and of both targets.
        policy_target_rate: ρ for θ′.
        policy: relu (the authors') | fql (GELU, as the FQL family) (also iql, rebrac, cql).
        critic: relu (the authors') | fql (GELU and LayerNorm) (also clean_diffuser, plain, iql, rebrac, norm_mish, edac, cql).
    """
