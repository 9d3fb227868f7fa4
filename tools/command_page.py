"""Write docs/command-line.md: every command with its options, from the parsers themselves.

python -m tools.command_page docs/command-line.md
"""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from bfq.cli.main import build_parser, verbs
from bfq.files import write_bytes

INTRO = """# Command line

<!-- Written by `make docs` from the parsers: change those. -->

`bfq --help` lists the commands and `bfq COMMAND --help` the options of one. Every command that prints results accepts
`--json`. Bad input is explained in one sentence, with exit code 2; Ctrl-C and SIGTERM save a checkpoint first. The
options of a run are keywords of `bfq.train` too.
"""


def command_page() -> str:
    """The whole page."""
    return "\n".join([INTRO, *_sections(build_parser(*verbs()), 2)])


def _sections(parser: argparse.ArgumentParser, level: int) -> Iterator[str]:
    """A heading, a sentence and a table of the options for each command below a parser."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                yield from _section(command, level)


def _section(command: argparse.ArgumentParser, level: int) -> Iterator[str]:
    yield f"{'#' * level} {command.prog}\n"
    if command.description:
        yield f"{command.description}\n"
    rows = [
        f"| {_spelling(action)} | {_meaning(action)} |"
        for action in command._actions
        if not isinstance(action, argparse._HelpAction | argparse._SubParsersAction)
        and action.help != argparse.SUPPRESS
    ]
    if rows:
        yield "\n".join(["| option | meaning |", "|---|---|", *rows]) + "\n"
    yield from _sections(command, level + 1)


def _spelling(action: argparse.Action) -> str:
    """`--seeds N`, or the name of a positional argument."""
    metavar = action.metavar if isinstance(action.metavar, str) else action.dest.upper()
    words = [action.option_strings[-1]] if action.option_strings else []
    words += [metavar] if action.nargs != 0 else []
    return f"`{' '.join(words)}`".replace("|", "\\|")


def _meaning(action: argparse.Action) -> str:
    text = (action.help or "").replace("%%", "%").replace("%(default)s", str(action.default))
    return text.replace("|", "\\|").replace("\n", " ")


def main() -> None:
    """Write the page to the file that is named."""
    write_bytes(Path(sys.argv[1]), command_page().encode())


if __name__ == "__main__":
    main()
