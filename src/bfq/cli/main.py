"""`bfq VERB …`: finds the verb, runs it, and turns what goes wrong into one sentence and an exit code."""

import os
import sys
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from types import ModuleType

from bfq.cli.words import Parser, exit_code
from bfq.errors import unknown

VERBS = {
    "train": "train and evaluate; with no argument, the embedded default task",
    "sweep": "train a grid of hyperparameters and rank it",
    "evaluate": "score a run's saved members again",
    "tasks": "what can be trained on, and whether its data is here",
    "agents": "the methods; with a name, its hyperparameters and their sources",
    "data": "make data here, bring in your own, look at it",
    "report": "tables, learning curves and one HTML page from finished runs",
    "export": "write a trained policy to a file that runs without JAX",
    "bench": "how fast updates and actions are",
    "doctor": "what works on this machine",
}


COMMANDS = "bfq.commands"  # the entry point group in which other packages offer commands


@cache
def verbs() -> dict[str, str]:
    """Every command with its one-line description: bfq's own, then those of installed packages."""
    return VERBS | {name: module.ABOUT for name, module in _offered().items()}


@cache
def _offered() -> dict[str, ModuleType]:
    """Modules of other packages that offer a command: `ABOUT`, `add_arguments` and `run`."""
    return {
        point.name: point.load()
        for point in sorted(entry_points(group=COMMANDS), key=lambda p: p.name)
    }


def _module(verb: str) -> ModuleType:
    return import_module(f"bfq.cli.{verb}") if verb in VERBS else _offered()[verb]


def build_parser(chosen: str | None) -> Parser:
    """The parser; only the chosen verb's file is imported for its words."""
    parser = Parser(prog="bfq", description="Expressive one-step policies from logged data.")
    commands = parser.add_subparsers(dest="verb", metavar="VERB", parser_class=Parser)
    for name, about in verbs().items():
        command = commands.add_parser(
            name, help=about, description=f"{about[0].upper()}{about[1:]}."
        )
        if name == chosen:
            _module(name).add_arguments(command)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command line and returns its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        return exit_code(lambda: _run(words))
    except KeyboardInterrupt:
        print("bfq: interrupted.", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of our output went away, as `bfq tasks | head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _run(words: list[str]) -> int:
    if words and not words[0].startswith("-") and words[0] not in verbs():
        raise unknown("command", words[0], verbs())
    chosen = words[0] if words and words[0] in verbs() else None
    parser = build_parser(chosen)
    arguments = parser.parse_args(words)
    arguments.words = words  # as they were given
    if chosen is None:
        parser.print_help()
        return 0
    return int(_module(chosen).run(arguments))


if __name__ == "__main__":
    sys.exit(main())
