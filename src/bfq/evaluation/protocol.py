"""The evaluation protocol: everything besides the policy that can change a score."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, get_type_hints

from bfq.agents.contract import Acting
from bfq.errors import unknown
from bfq.options import ProtocolValues
from bfq.records import check_value

TYPES = get_type_hints(ProtocolValues, include_extras=True)


@dataclass(frozen=True)
class Protocol:
    """How episodes are run, and with which checkpoint."""

    episodes: int = 20  # per seed
    seed: int = 10_000  # of the first episode; episode k has seed + k, the same for all members
    acting: Acting = Acting()
    checkpoint: str = (
        "last"  # last | best of those that were evaluated, by the mean over all members
    )

    def describe(self) -> ProtocolValues:
        """The protocol as a flat dictionary, as stored beside a score."""
        values = asdict(self)
        acting = values.pop("acting")
        return ProtocolValues(**values, **acting)  # type: ignore[typeddict-item]


def protocol_from(values: Mapping[str, Any]) -> Protocol:
    """The protocol with this description; BadInput names a wrong value."""
    for name in values:
        if name not in TYPES:
            raise unknown("evaluation option", name, TYPES)
    checked = {name: check_value(name, value, TYPES[name]) for name, value in values.items()}
    acting = {k: v for k, v in checked.items() if k in Acting.__dataclass_fields__}
    rest = {k: v for k, v in checked.items() if k not in acting}
    return Protocol(**rest, acting=Acting(**acting))
