"""`bfq evaluate RUN`: score a run's last checkpoint, under its own protocol or another one."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from bfq.cli.words import add_options, read_options, show_json
from bfq.errors import BadInput, counted
from bfq.options import OPTIONS, PROTOCOL

if TYPE_CHECKING:
    from bfq.run import RunRecord

EVALUATION = PROTOCOL | {"episode_steps": OPTIONS["episode_steps"]}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The protocol, a video, and where to write the scores."""
    add = parser.add_argument
    add("folder", type=Path, metavar="RUN", help="the run folder")
    add_options(parser, EVALUATION)
    add("--agent", metavar="FILE", help="the Python file of the agent, if bfq does not have it")
    add("--video", type=Path, metavar="FILE", help="record the first episode (.mp4, .gif)")
    add(
        "--member",
        type=int,
        default=0,
        metavar="K",
        help="position of the seed in result.json, for --video; default 0",
    )
    add("--out", type=Path, metavar="FILE", help="also write the record to this JSON file")
    add("--json", action="store_true", help="print the record as JSON")


def run(args: argparse.Namespace) -> int:
    """Evaluate, and show one line per member."""
    from bfq.files import check_place, check_regular, write_json
    from bfq.progress import announced
    from bfq.run import as_json

    if args.out:
        if not args.out.parent.is_dir():
            raise BadInput(f"there is no folder {args.out.parent} for {args.out.name}: create it.")
        check_place(args.out.parent)
        check_regular(args.out)  # a device such as /dev/null would be replaced by a file
    asked = read_options(args, EVALUATION)
    with announced(f"evaluating {args.folder}", quiet=args.json):
        from bfq.agents.registry import load_agent
        from bfq.api import evaluate

        if args.agent:
            load_agent(args.agent)
        record = evaluate(args.folder, video=args.video, member=args.member, **asked)
    if args.out:
        write_json(args.out, as_json(record))
    if args.json:
        show_json(as_json(record))
        return 0
    _show(record)
    if args.video:
        print(f"video                {args.video}")
    return 0


def _show(record: "RunRecord") -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    from bfq.reports import describe_acting
    from bfq.reports.statistics import mean_text, number_text, summarize

    scores, members, protocol = record.scores or {}, record.members, record.protocol
    title = f"{record.agent} on {record.task}, update {record.steps:,}"
    caption = (
        f"{counted(protocol['episodes'], 'episode')} of up to {record.episode_steps:,} steps "
        f"from seed {protocol['seed']}, {protocol['checkpoint']} checkpoint; {describe_acting(record)}"
    )
    table = Table(title=title, caption=caption, box=box.SIMPLE_HEAD)
    for column in ("member", "return", "normalized"):
        table.add_column(column, justify="right")
    nothing: list[float | None] = [None] * len(members)
    returns, normalized = scores.get("return") or nothing, scores.get("normalized") or nothing
    for member, value, score in zip(members, returns, normalized, strict=True):
        overrides = "".join(f", {name}={number:g}" for name, number in member.overrides.items())
        shown = ["–" if number is None else number_text(number, 1) for number in (value, score)]
        table.add_row(f"seed {member.seed}{overrides}", *shown)
    if len(members) > 1:
        table.add_section()
        means = [
            mean_text(summarize(known) if known else None, unit)
            for unit, numbers in (("return", returns), ("normalized", normalized))
            for known in [[number for number in numbers if number is not None]]
        ]
        table.add_row("mean ± std", *means)
    Console().print(table)
