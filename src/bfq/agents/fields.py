"""Types of hyperparameters: ranges and choices that `configure` checks, and the Config decorator."""

import dataclasses
from typing import (
    Annotated,
    Any,
    Literal,
    TypeVar,
    dataclass_transform,
    get_type_hints,
)

import jax
from msgspec import Meta

LARGEST_COUNT = 2**31 - 1  # counts are 32-bit integers on the device

# A population can vary a number, unless its type is fixed.
NonNegative = Annotated[float, Meta(ge=0, le=3e38)]  # a weight, a rate, a scale
Fraction = Annotated[float, Meta(ge=0, le=1)]  # a share, a discount, a target rate
Fixed = Annotated[NonNegative, Meta(extra={"fixed": True})]  # at 0, its term is not computed at all
FixedFraction = Annotated[Fraction, Meta(extra={"fixed": True})]
Count = Annotated[int, Meta(ge=1, le=LARGEST_COUNT)]
PairCount = Annotated[int, Meta(ge=2, le=LARGEST_COUNT)]
StartStep = Annotated[int, Meta(ge=0, le=LARGEST_COUNT)]
Size = Annotated[int, Meta(ge=1, le=2**16)]
# Hidden layers of one width, or a width for each layer, which then counts instead of the depth.
Widths = Annotated[
    str, Meta(pattern=r"^[1-9]\d{0,4}(x[1-9]\d{0,4})*\Z", title="widths such as 256x128")
]
Width = Size | Widths
Depth = Annotated[int, Meta(ge=1, le=2**8)]

# Choices that several agents have.
Schedule = Literal["constant", "cosine", "warmup_cosine"]
Aggregation = Literal["min", "mean", "lower"]
Guidance = Literal["random", "mean", "min", "first", "unnormalized"]
BackupBest = Literal["each", "together"]
CriticKind = Literal[
    "clean_diffuser", "plain", "fql", "relu", "iql", "rebrac", "norm_mish", "edac", "cql"
]
PolicyKind = Literal["relu", "iql", "rebrac", "fql", "cql"]
Activation = Literal["mish", "gelu", "relu", "silu", "tanh"]
OwnActivation = Literal["", Activation]  # "": that of the kind of network
OwnNorm = Literal["", "none", "before", "after"]  # layer norm before or after the activation
Architecture = Literal["embedded", "residual", "raw_time"]
NoiseSchedule = Literal["cosine", "vp", "linear"]
ChainSampler = Literal["ancestral", "posterior", "ddim", "dpm_solver"]
Sampler = Literal["ancestral", "posterior", "ddim", "dpm_solver", "sqrt_beta"]
DenoiserKind = Literal["official", "clean_diffuser", "edp"]

C = TypeVar("C")


@dataclass_transform(frozen_default=True)
def hyperparameters(cls: type[C]) -> type[C]:
    """Turn a class into a frozen Config: varied numbers are pytree leaves, other fields are static."""
    data_class = dataclasses.dataclass(frozen=True)(cls)
    types = field_types(data_class)
    numeric = [name for name, kind in types.items() if _varies(kind)]
    static = [name for name in types if name not in numeric]
    return jax.tree_util.register_dataclass(data_class, data_fields=numeric, meta_fields=static)


def field_types(config: Any) -> dict[str, Any]:
    """The type of each hyperparameter of a Config, with its range or choices."""
    cls = config if isinstance(config, type) else type(config)
    hints = get_type_hints(cls, include_extras=True)
    return {field.name: hints[field.name] for field in dataclasses.fields(cls)}


def numeric_fields(config: Any) -> list[str]:
    """The hyperparameters that a population can vary."""
    return [name for name, kind in field_types(config).items() if _varies(kind)]


def _varies(kind: Any) -> bool:
    """Whether the type is a number that is not fixed."""
    metas = [meta for meta in getattr(kind, "__metadata__", ()) if isinstance(meta, Meta)]
    return getattr(kind, "__origin__", kind) is float and not any(meta.extra for meta in metas)


def check_residual(config: Any) -> None:
    """Refuse what a residual architecture cannot have: its code of time is pairs of sines and cosines."""
    one_width = not isinstance(config.width, str) and config.width % 2 == 0
    if config.architecture == "residual" and (config.norm or not one_width):
        raise ValueError("a residual network has one even width, and its own norm.")
