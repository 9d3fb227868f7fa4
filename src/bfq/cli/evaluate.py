"""`bfq evaluate RUN`: score a run's last checkpoint, under its own protocol or another one."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from bfq.cli.words import add_options, read_options, show_json, show_table
from bfq.errors import BadInput, counted
from bfq.files import check_place, check_regular, write_json
from bfq.options import OPTIONS, PROTOCOL

if TYPE_CHECKING:
    from bfq.run import RunRecord

EVALUATION = PROTOCOL | {name: OPTIONS[name] for name in ("env", "episode_steps")}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The protocol, a video, and where to write the scores."""
    add = parser.add_argument
    add("folder", type=Path, metavar="RUN", help="the run folder")
    add_options(parser, EVALUATION)
    add("--agent", metavar="FILE", help="the Python file of the agent, if bfq does not have it")
    add("--video", type=Path, metavar="FILE", help="record the first episode (.mp4, .gif)")
    about = "position of the seed in result.json, for --video; default 0"
    add("--member", type=int, default=0, metavar="K", help=about)
    add("--out", type=Path, metavar="FILE", help="also write the record to this JSON file")
    add("--json", action="store_true", help="print the record as JSON")


def run(args: argparse.Namespace) -> int:
    """Evaluate, and show one line per member."""
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
        from bfq.results import evaluate

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
    from bfq.reports import describe_acting
    from bfq.reports.statistics import mean_text, number_text, summarize

    members, protocol, units = record.members, record.protocol, ("return", "normalized")
    scores = [(record.scores or {}).get(unit) or [None] * len(members) for unit in units]
    rows = []
    for member, *values in zip(members, *scores, strict=True):
        overrides = "".join(f", {name}={number:g}" for name, number in member.overrides.items())
        cells = ("–" if value is None else number_text(value, 1) for value in values)
        rows.append([f"seed {member.seed}{overrides}", *cells])
    if len(members) > 1:
        finite = [[value for value in values if value is not None] for values in scores]
        means = [summarize(values) if values else None for values in finite]
        rows.append(["mean ± std", *map(mean_text, means, units)])
    caption = (
        f"{counted(protocol['episodes'], 'episode')} of up to {record.episode_steps:,} steps "
        f"from seed {protocol['seed']}, {protocol['checkpoint']} checkpoint; {describe_acting(record)}"
    )
    title = f"{record.agent} on {record.task}, update {record.steps:,}"
    show_table(("member", *units), rows, title, caption, numbers=True)
