"""`bfq reproduce EXPERIMENT`: the paper's experiments, ours beside its numbers."""

import argparse
import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bfq.cli.words import seeds, show_json
from bfq.errors import BadInput
from bfq_paper.cli_sharing import TOGETHER, end_with_the_first, helped

if TYPE_CHECKING:
    from bfq_paper.reproduce import Plan
    from bfq_paper.work.bench import Bench

MOST_JOBS = 64
NAMES = "main | ogbench | efficiency | lambda | eta | preconditioning | switches | toy | all"


ABOUT = "the paper's experiments, beside its published numbers"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The words of the verb."""
    add = parser.add_argument
    add("name", metavar="EXPERIMENT", help=NAMES)
    add(
        "--quick",
        action="store_true",
        help="minutes on a laptop: a look at it, comparable with nothing",
    )
    add("--agents", type=_words, default=[], metavar="A[,B…]", help="only these methods")
    add(
        "--tasks",
        type=_words,
        default=[],
        metavar="T[,U…]",
        help="only these rows, or any other task",
    )
    add("--seeds", type=seeds, metavar="N", help="a number of seeds, or a list as 3,7")
    add("--steps", type=int, metavar="N", help="updates of each member")
    add("--precision", metavar="NAME", help="of products in training: float32 (default) | bfloat16")
    add("--out", type=Path, default=Path("results"), metavar="DIR", help="default results")
    add(
        "--jobs",
        type=int,
        default=1,
        metavar="N",
        help="parts at once, for a GPU that one leaves half idle",
    )
    add(
        "--share", action="store_true", help=argparse.SUPPRESS
    )  # as one of a command's further processes
    add("--again", action="store_true", help="run anew what is finished, but not on this machine")
    add("--dry-run", action="store_true", help="tell what would be done, and from which data")
    add("--json", action="store_true", help="print result.json, or the plan, and nothing else")


def _words(word: str) -> list[str]:
    return [name for name in word.split(",") if name]


def run(args: argparse.Namespace) -> int:
    """Settles everything, tells it, does it; 1 if something failed that could have been filled."""
    if not 1 <= args.jobs <= MOST_JOBS:
        raise BadInput(f"--jobs must be from 1 to {MOST_JOBS}, not {args.jobs}.")
    if args.jobs > 1:
        os.environ.update(TOGETHER)  # before JAX looks at it
    from bfq.progress import announced

    with announced("loading JAX", quiet=args.json):
        from bfq.api import evaluate
        from bfq.errors import say
        from bfq.files import check_place
        from bfq_paper.plan.options import Options, chosen
        from bfq_paper.reproduce import plan
        from bfq_paper.results.stored import earlier_of
        from bfq_paper.work.bench import Bench

    wished = Options(args.quick, args.agents, args.tasks, args.seeds, args.steps, args.precision)
    asked = chosen(args.name, wished)
    if args.jobs > 1 and any(each.kind == "speed" for each in asked):
        raise BadInput(
            "times are measured with nothing beside them: leave --jobs out for efficiency and all."
        )
    plans = [plan(each, earlier_of(each, args.out), args.again) for each in asked]
    bench = Bench(evaluate, quiet=args.json)
    if args.dry_run:
        return _tell(plans, bench, args.json)
    for each in plans:
        each.check(bench)
    for place in (args.out, bench.runs):
        check_place(place)
    if args.share:
        return _share(plans, bench)
    logs = bench.runs / "shared"
    verb, *rest = args.words
    with helped(args.jobs - 1, [verb, "--share", *rest], logs, say):
        if args.jobs > 1 and not args.json:
            print(f"The parts are shared with {args.jobs - 1} more, which tell of them in {logs}.")
        return _reproduce(plans, bench, args)


def _tell(plans: "Sequence[Plan]", bench: "Bench", as_json: bool) -> int:
    if as_json:
        show_json([each.describe(bench) for each in plans])
        return 0
    for each in plans:
        print(each.tell(bench))
    return 0


def _share(plans: "Sequence[Plan]", bench: "Bench") -> int:
    from bfq.training.loop import Stopped
    from bfq_paper.reproduce import share

    end_with_the_first()
    try:
        for each in plans:
            share(each, bench)
    except Stopped as stopped:
        return stopped.exit_code
    return 0


def _reproduce(plans: "Sequence[Plan]", bench: "Bench", args: argparse.Namespace) -> int:
    from bfq.errors import say
    from bfq.files import read_json
    from bfq.training.loop import Stopped
    from bfq_paper.reproduce import reproduce
    from bfq_paper.results.stored import folder_of

    command = _told(args.words)
    done = []
    if not args.json:
        for each in plans:
            print(each.tell(bench), flush=True)
    try:
        for each in plans:
            done.append(reproduce(each, bench, args.out, command, say))
    except Stopped as stopped:
        say(f"bfq: {stopped} The same command goes on from there.")
        return stopped.exit_code
    folders = [folder_of(each.experiment, args.out) for each in plans]
    if args.json:
        show_json([read_json(folder / "result.json") for folder in folders])
    else:
        for folder in folders:
            print((folder / "table.md").read_text())
            print(f"page {folder / 'index.html'}")
    return 1 if any(each.failed for each in done) else 0


def _told(words: "Sequence[str]") -> str:
    """The command as results keep it: without `--out`, a place on one machine that changes no number."""
    kept = [
        word
        for place, word in enumerate(words)
        if not word.startswith("--out=") and "--out" not in words[max(0, place - 1) : place + 1]
    ]
    return f"bfq {shlex.join(kept)}"
