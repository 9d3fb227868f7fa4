"""A word on D4RL's Hopper, which was lighter than today's: docs/data.md, "D4RL's robots were lighter"."""

import re

FACT = (
    "D4RL's Hopper was lighter than today's: the policy that collected hopper-medium returns 12 % less with "
    "today's masses, 1253 and not 1430 (docs/data.md)"
)
ROLLED, PUBLISHED = "re-rolled in Hopper-v4 ", " in D4RL's layout"  # how sources begin and end


def masses_hint(source: str) -> str:
    """What a user should know of data from this source; empty where it is not of D4RL's Hopper."""
    if not re.search("hopper[-_]medium", source.lower()):
        return ""
    if source.startswith(ROLLED):
        return f"{FACT}; `bfq data reroll FILE --old-masses` rolls it out with those of its time."
    return f"{FACT}." if source.endswith(PUBLISHED) else ""
