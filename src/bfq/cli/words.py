"""How values are spelled on the command line."""

import argparse
import json
from collections.abc import Iterable, Sequence
from typing import Any

from bfq.errors import BadInput


def value(word: str) -> Any:
    """true, false, a number, or the word itself."""
    if word in ("true", "false"):
        return word == "true"
    for kind in (int, float):
        try:
            return kind(word)
        except ValueError:
            continue
    return word


def assignments(words: list[str]) -> dict[str, list[Any]]:
    """`eta=0.05,0.1` as {"eta": [0.05, 0.1]}."""
    found: dict[str, list[Any]] = {}
    for word in words:
        name, equals, values = word.partition("=")
        if not (equals and name and all(values.split(","))):
            raise BadInput(f"--set takes NAME=VALUE or NAME=VALUE,VALUE,…, not {word!r}.")
        if name in found:
            raise BadInput(
                f"--set {name} is given twice: several values go into one, {name}=VALUE,VALUE."
            )
        found[name] = [value(one) for one in values.split(",")]
    return found


def dest(flag: str) -> str:
    """Where argparse keeps what follows a flag."""
    return flag.removeprefix("--").replace("-", "_")


def mapping(words: list[str], flag: str = "--map") -> dict[str, str]:
    """`observations=obs,actions=act` as {"observations": "obs", "actions": "act"}."""
    found: dict[str, str] = {}
    for pair in ",".join(words).split(",") if words else []:
        ours, equals, theirs = pair.partition("=")
        if not (equals and ours and theirs):
            example = "OURS=THEIRS, such as observations=obs_" if flag == "--map" else "NAME=WORD"
            raise BadInput(f"{flag} takes {example}, not {pair!r}.")
        if ours in found:
            raise BadInput(f"{flag} names {ours} twice.")
        found[ours] = theirs
    return found


def seeds(word: str) -> int | list[int]:
    """`6` is six seeds, 0 to 5; `3,7` (or `3,`) is these seeds."""
    return _count_or_list(word, "a number of seeds nor a list of seeds")


def evaluations(word: str) -> int | list[int]:
    """`8` is eight of them; `5000,20000` (or `5000,`) is after these updates."""
    return _count_or_list(word, "a number of evaluations nor a list of updates")


def _count_or_list(word: str, neither: str) -> int | list[int]:
    try:
        return [int(one) for one in word.split(",") if one] if "," in word else int(word)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{word!r} is neither {neither}") from error


def numbers(word: str) -> list[int]:
    """`1,6,42` as a list of counts, each at least 0."""
    try:
        found = [int(one) for one in word.split(",")]
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{word!r} is not a list of whole numbers") from error
    if min(found) < 0:
        raise argparse.ArgumentTypeError(f"{word!r} has a negative number")
    return found


def show_json(content: Any) -> None:
    """Prints the answer for a program to read."""
    print(json.dumps(content, indent=1, allow_nan=False))


def show_table(
    headings: Sequence[str],
    rows: Iterable[Sequence[str]],
    title: str | None = None,
    caption: str | None = None,
) -> None:
    """Print a table as wide as the terminal, framed if it has headings.

    Long cells wrap, and nothing in them is markup.
    """
    from rich.box import HEAVY_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    box = HEAVY_HEAD if any(headings) else None
    heading = Text(title) if title else None
    table = Table(title=heading, caption=caption, box=box, show_header=any(headings))
    for k, name in enumerate(headings):
        table.add_column(name, no_wrap=k == 0, overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    Console(highlight=False).print(table)
