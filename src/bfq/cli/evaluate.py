"""`bfq evaluate RUN`: score a run's last checkpoint in a simulator, or with --offline by a log alone."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bfq.cli.words import add_options, read_options, show_json, show_table
from bfq.errors import BadInput, counted
from bfq.files import check_place, check_regular, write_json
from bfq.options import ACTING, OPTIONS, PROTOCOL

if TYPE_CHECKING:
    from bfq.run import RunRecord

EVALUATION = PROTOCOL | {name: OPTIONS[name] for name in ("env", "episode_steps")}
OFFLINE = ("data", "beside", "updates", "networks")


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
    about = "judge by a log alone; writes offline.json and offline.png into the run folder"
    add("--offline", action="store_true", help=about)
    about = "the log for --offline: a task or a file; default what the run was trained on"
    add("--data", metavar="LOG", help=about)
    about = "judge this too: another run, an exported .npz or .onnx file, or module:function; repeat for more"
    add("--beside", action="append", metavar="POLICY", help=about)
    about = "gradient updates of each estimator of --offline; default 10,000"
    add("--updates", type=int, metavar="N", help=about)
    add("--networks", type=int, metavar="N", help="critics per policy for --offline; default 5")


def run(args: argparse.Namespace) -> int:
    """Evaluate, and show one line per member."""
    if args.out:
        if not args.out.parent.is_dir():
            raise BadInput(f"there is no folder {args.out.parent} for {args.out.name}: create it.")
        check_place(args.out.parent)
        check_regular(args.out)  # a device such as /dev/null would be replaced by a file
    asked = read_options(args, EVALUATION)
    return _judge(args, asked) if args.offline else _score(args, asked)


def _score(args: argparse.Namespace, asked: dict[str, Any]) -> int:
    """Run episodes."""
    from bfq.progress import announced
    from bfq.run import as_json

    for name in OFFLINE:
        if getattr(args, name) is not None:
            raise BadInput(f"--{name} judges by a log: add --offline.")
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


def _judge(args: argparse.Namespace, asked: dict[str, Any]) -> int:
    """Judge by a log, without episodes."""
    simulated = [EVALUATION[name].flag for name in asked if name not in {*ACTING, "checkpoint"}]
    simulated += ["--video"] * bool(args.video)
    if simulated:
        raise BadInput(f"{simulated[0]} needs a simulator: leave it out, or leave --offline out.")
    from msgspec import to_builtins

    from bfq.agents.registry import load_agent
    from bfq.offline.evaluate import evaluate_offline

    if args.agent:
        load_agent(args.agent)
    given = {name: getattr(args, name) for name in OFFLINE if getattr(args, name) is not None}
    record = evaluate_offline(args.folder, **given, **asked, quiet=args.json)
    if args.out:
        write_json(args.out, to_builtins(record))
    if args.json:
        show_json(to_builtins(record))
    else:
        print(record)  # intervals would wrap in a framed table
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
