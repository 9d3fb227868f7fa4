"""Options, values and errors on the command line."""

import argparse
import errno
import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NoReturn

from bfq.errors import BadInput, DiskTrouble
from bfq.options import Option, parse

TOO_LARGE = "RESOURCE_EXHAUSTED"  # how XLA's message begins when memory runs out
BAD_NAMES = (errno.ENAMETOOLONG, errno.ELOOP)


class Parser(argparse.ArgumentParser):
    """An argument parser with one-sentence errors and without abbreviations."""

    def __init__(self, **settings: Any):
        super().__init__(allow_abbrev=False, **settings)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Refuse unknown arguments here: otherwise the parser of `bfq` itself would report them."""
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return found, unknown

    def error(self, message: str) -> NoReturn:
        """Raise BadInput instead of printing the usage."""
        raise BadInput(f"{message}; see `{self.prog} --help`.")


def exit_code(work: Callable[[], int | None]) -> int:
    """Run `work`; 2 after bad input, 1 when disk space or memory runs out."""
    try:
        return work() or 0
    except (BadInput, DiskTrouble) as trouble:
        return _failed(str(trouble), 2 if isinstance(trouble, BadInput) else 1)
    except OSError as trouble:
        if trouble.errno not in BAD_NAMES:
            raise
        return _failed(f"{trouble.filename!s:.80} cannot name a file: {trouble.strerror}.", 2)
    except (MemoryError, RuntimeError) as trouble:
        if isinstance(trouble, RuntimeError) and TOO_LARGE not in str(trouble):
            raise
        detail = " ".join(str(trouble).split())[:200]
        return _failed(
            f"out of memory: use fewer seeds, or smaller batches or networks ({detail}).", 1
        )


def _failed(sentence: str, code: int) -> int:
    sentence = "".join(c if c.isprintable() else repr(c)[1:-1] for c in sentence)  # one line
    print(f"bfq: {sentence}", file=sys.stderr)
    return code


def add_options(parser: argparse.ArgumentParser, options: Mapping[str, Option]) -> None:
    """Add every declared option to a parser."""
    for option in options.values():
        how: dict[str, Any] = {"dest": option.name, "help": _help(option)}
        if option.kind == "boolean":
            parser.add_argument(option.flag, action="store_true", **how)
        elif option.kind in ("object", "array"):
            parser.add_argument(option.flag, action="append", metavar=option.metavar, **how)
        else:
            parser.add_argument(option.flag, metavar=option.metavar, **how)


def _help(option: Option) -> str:
    choices = option.schema.get("enum", [])
    words = [option.help, *([f"one of {', '.join(choices)}"] if choices else [])]
    if option.default and not isinstance(option.default, bool):
        words.append(f"default {option.default}")
    return "; ".join(words).replace("%", "%%")


def read_options(args: argparse.Namespace, options: Mapping[str, Option]) -> dict[str, Any]:
    """The values of the options that were given, checked; code that --env names is imported."""
    given = {name: getattr(args, name) for name in options}
    found = {
        name: parse(options[name], value)
        for name, value in given.items()
        if value is not None and value is not False
    }
    if ":" in found.get("env", ""):
        from bfq.envs.own import admit

        admit(found["env"])
    return found


def parse_counts(word: str) -> list[int]:
    """`1,6,42` as a list of counts."""
    try:
        return [int(one) for one in word.split(",")]
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{word!r} is not a list of whole numbers") from error


def show_json(content: Any) -> None:
    """Print a result as JSON."""
    print(json.dumps(content, indent=1, allow_nan=False))


def show_table(
    headings: Sequence[str],
    rows: Iterable[Sequence[str]],
    title: str | None = None,
    caption: str | None = None,
    numbers: bool = False,
) -> None:
    """Print a table as wide as the terminal, framed if it has headings.

    Long cells wrap, and nothing in them is markup. All columns but the first may be `numbers`.
    """
    from rich.box import HEAVY_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    framed, heading = any(headings), Text(title) if title else None
    box = HEAVY_HEAD if framed else None
    table = Table(title=heading, caption=caption, box=box, show_header=framed)
    for k, name in enumerate(headings):
        side: Any = "right" if k and numbers else "left"
        table.add_column(name, no_wrap=k == 0, overflow="fold", justify=side)
    for row in rows:
        table.add_row(*map(Text, row))
    Console(highlight=False).print(table)
