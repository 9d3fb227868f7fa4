"""The exceptions a user is meant to see: what is wrong and what to do, in one sentence."""

import difflib
from collections.abc import Iterable


class BadInput(Exception):
    """Something the user gave cannot be used; the command line prints it and exits with code 2."""


class Busy(BadInput):
    """Another process is at work on the same thing; what it makes can be used when it is done."""


class DiskTrouble(Exception):
    """The disk refused a write in the middle of something; what was saved before still stands."""


def unknown(kind: str, name: str, known: Iterable[str]) -> BadInput:
    """Names what does not exist and the nearest name that does."""
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(names)}."
    return BadInput(f"unknown {kind} {name!r}: {hint}")


def counted(number: int, noun: str) -> str:
    """Return `1 member`, `6 members`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
