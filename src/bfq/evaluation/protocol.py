"""Everything that can change a score besides the policy."""

from dataclasses import asdict, dataclass
from numbers import Integral, Real
from typing import Any

from bfq.agents import Acting
from bfq.errors import BadInput, unknown

SELECTIONS = ("argmax", "softmax")
MOST_CANDIDATES = 10_000
MOST_STEPS = 1000
MOST_FACTOR = 1_000_000  # on noise, and on values in a softmax
POLICIES = ("ema", "online")


@dataclass(frozen=True)
class Protocol:
    """How episodes are run and which checkpoint they are run with."""

    episodes: int = 20  # a member
    seed: int = (
        10_000  # of the first episode's simulator; episode k has seed + k, the same for all members
    )
    acting: Acting = Acting()
    checkpoint: str = "last"  # the last one, never the best

    def check(self) -> "Protocol":
        """Itself, or a sentence saying what cannot be."""
        self._check_types()
        if self.checkpoint != "last":
            raise BadInput("a score is that of the last checkpoint: leave checkpoint at last.")
        if self.episodes < 1:
            raise BadInput(f"episodes must be at least 1, not {self.episodes}.")
        if not 1 <= self.acting.candidates <= MOST_CANDIDATES:
            raise BadInput(
                f"candidates must be 1 to {MOST_CANDIDATES}, not {self.acting.candidates}."
            )
        for name in ("temperature", "softmax_weight"):
            value = getattr(self.acting, name)
            if not 0 <= value <= MOST_FACTOR:
                raise BadInput(f"{name} must be finite and from 0 to {MOST_FACTOR:,}, not {value}.")
        if not 0 <= self.acting.sampling_steps <= MOST_STEPS:
            raise BadInput(
                f"sampling_steps must be 0 to {MOST_STEPS}, not {self.acting.sampling_steps}."
            )
        if not 0 <= self.seed < 2**31:
            raise BadInput(f"seed must be 0 or more, not {self.seed}.")
        if self.acting.selection not in SELECTIONS:
            raise unknown("selection", self.acting.selection, SELECTIONS)
        if self.acting.policy not in POLICIES:
            raise unknown("policy", self.acting.policy, POLICIES)
        return self

    def _check_types(self) -> None:
        told = self.describe()
        for name in ("episodes", "seed", "candidates", "sampling_steps"):
            if not isinstance(told[name], Integral) or isinstance(told[name], bool):
                raise BadInput(f"{name} must be a whole number, not {told[name]!r}.")
        for name in ("temperature", "softmax_weight"):
            if not isinstance(told[name], Real) or isinstance(told[name], bool):
                raise BadInput(f"{name} must be a number, not {told[name]!r}.")

    def describe(self) -> dict[str, Any]:
        """As stored beside a score."""
        told = asdict(self)
        return {**{k: v for k, v in told.items() if k != "acting"}, **told["acting"]}


def protocol_from(values: dict[str, Any]) -> Protocol:
    """A protocol from its description."""
    acting = {k: v for k, v in values.items() if k in Acting.__dataclass_fields__}
    rest = {k: v for k, v in values.items() if k not in acting}
    strange = set(rest) - set(Protocol.__dataclass_fields__)
    if strange:
        raise unknown(
            "evaluation setting", sorted(strange)[0], [*Protocol.__dataclass_fields__, *acting]
        )
    return Protocol(**rest, acting=Acting(**acting)).check()
