"""Messages for users: exceptions that explain in one sentence what is wrong and what to do."""

import difflib
import sys
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

T = TypeVar("T")


class BadInput(Exception):
    """Input that cannot be used; the command line prints the sentence and exits with code 2."""


class Busy(BadInput):
    """Another process is working on the same thing; its result can be used later."""


class DiskTrouble(Exception):
    """The disk refused a write; what was saved earlier is intact."""


def unknown(kind: str, name: str, known: Iterable[str]) -> BadInput:
    """The error about a name that does not exist, with the nearest name that does."""
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(names)}."
    return BadInput(f"unknown {kind} {name!r}: {hint}")


def counted(number: int, noun: str) -> str:
    """Return `1 member`, `6 members`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def guarded(whose: str, function: Callable[..., T], *arguments: Any) -> T:
    """Call a function of the user; what it raises becomes one sentence."""
    try:
        return function(*arguments)
    except BadInput:
        raise
    except Exception as error:
        raise BadInput(f"{whose} raised {type(error).__name__}: {error}.") from error


def say(sentence: str) -> None:
    """Print a message to standard error."""
    print(sentence, file=sys.stderr)
