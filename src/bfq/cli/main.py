"""`bfq COMMAND …`: find the command, run it, and turn errors into one sentence and an exit code."""

import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from threading import Timer, main_thread
from types import FrameType, ModuleType

from bfq.cli.words import Parser, exit_code
from bfq.errors import unknown

VERBS = {
    "train": "train an agent and evaluate it; without options, on a small built-in task",
    "sweep": "train a grid of hyperparameters and rank it",
    "evaluate": "score a trained run again, under its own protocol or another one",
    "tasks": "list the tasks, and whether their data is on this machine",
    "agents": "list the agents; with a name, its hyperparameters and their sources",
    "data": "generate, import, inspect and download datasets",
    "report": "write tables, learning curves and an HTML page from finished runs",
    "export": "write a trained policy to a file that runs without JAX",
    "bench": "measure the speed of updates, actions and evaluations",
    "doctor": "check what works on this machine",
}
COMMANDS = "bfq.commands"  # the entry point group in which other packages offer commands


@cache
def verbs() -> dict[str, str]:
    """Every command with its description: bfq's own, then those of installed packages."""
    return VERBS | {name: module.ABOUT for name, module in added_commands().items()}


@cache
def added_commands() -> dict[str, ModuleType]:
    """Modules of other packages that offer a command: `ABOUT`, `add_arguments` and `run`."""
    points = sorted(entry_points(group=COMMANDS), key=lambda point: point.name)
    if points:
        return {point.name: point.load() for point in points}
    # A source tree on PYTHONPATH that is not installed: packages bfq_* beside this one.
    files = sorted(Path(__file__).parents[2].glob("bfq_*/cli_*.py"))
    return {f.stem.removeprefix("cli_"): import_module(f"{f.parent.name}.{f.stem}") for f in files}


def _module(verb: str) -> ModuleType:
    return import_module(f"bfq.cli.{verb}") if verb in VERBS else added_commands()[verb]


def build_parser(*chosen: str) -> Parser:
    """The parser of all commands; only the chosen ones have options, and are imported for them."""
    parser = Parser(prog="bfq", description="Expressive one-step policies from logged data.")
    commands = parser.add_subparsers(dest="verb", metavar="COMMAND")
    for name, about in verbs().items():
        own = commands.add_parser(name, help=about, description=f"{about[0].upper()}{about[1:]}.")
        if name in chosen:
            _module(name).add_arguments(own)
    return parser


def interrupt(number: int, frame: FrameType | None) -> None:
    """Handle Ctrl-C: JAX's callback of the garbage collector would swallow it, so repeat it after that."""
    if frame is None or frame.f_code.co_name != "_xla_gc_callback":
        raise KeyboardInterrupt
    thread = main_thread().ident  # of the main thread: the signal also ends its sleep
    Timer(0.05, signal.pthread_kill, [thread, number]).start()


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line and return its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        with suppress(ValueError):  # only the main thread may set handlers
            signal.signal(signal.SIGINT, interrupt)
    try:
        return exit_code(lambda: _run(words))
    except KeyboardInterrupt:
        print("bfq: interrupted.", file=sys.stderr)
        return 130
    except BrokenPipeError:  # as in `bfq tasks | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _run(words: list[str]) -> int:
    if words and not words[0].startswith("-") and words[0] not in verbs():
        raise unknown("command", words[0], verbs())
    parser = build_parser(*words[:1])
    arguments = parser.parse_args(words)
    arguments.words = words
    if arguments.verb is None:
        parser.print_help()
        return 0
    return int(_module(arguments.verb).run(arguments))


if __name__ == "__main__":
    sys.exit(main())
