"""`bfq reproduce EXPERIMENT`: the paper's experiments, ours beside its numbers."""

import argparse
import json
import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from bfq import BadInput

ABOUT = "the paper's experiments, beside its published numbers"
NAMES = "main | ogbench | efficiency | lambda | eta | preconditioning | switches | toy | all"
MOST_JOBS = 64


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    add = parser.add_argument
    add("name", metavar="EXPERIMENT", help=NAMES)
    add("--quick", action="store_true", help="a check that everything works, in minutes")
    add("--agents", type=_names, default=[], metavar="A[,B…]", help="only these methods")
    add(
        "--tasks", type=_names, default=[], metavar="T[,U…]", help="only these rows, or other tasks"
    )
    add("--seeds", type=_seeds, metavar="N", help="a number of seeds, or a list such as 3,7")
    add("--steps", type=int, metavar="N", help="gradient updates")
    add(
        "--precision",
        metavar="NAME",
        help="precision of matrix products: float32 (default) or bfloat16",
    )
    add("--out", type=Path, default=Path("results"), metavar="DIR", help="default results")
    add("--jobs", type=int, default=1, metavar="N", help="processes that share the work on one GPU")
    add("--again", action="store_true", help="also rerun parts that another machine trained")
    add("--dry-run", action="store_true", help="print what would run, and on which data")
    add("--json", action="store_true", help="print result.json, or the plan, and nothing else")


def _names(word: str) -> list[str]:
    return [name for name in word.split(",") if name]


def _seeds(word: str) -> int | list[int]:
    """`6` is six seeds; `3,7` (or `3,`) is a list of seeds."""
    return [int(one) for one in word.split(",") if one] if "," in word else int(word)


def run(args: argparse.Namespace) -> int:
    """Run the parts that are not finished; exit code 1 if one failed."""
    if not 1 <= args.jobs <= MOST_JOBS:
        raise BadInput(f"--jobs must be from 1 to {MOST_JOBS}, not {args.jobs}.")
    if args.jobs > 1:  # before JAX is imported
        os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
    from bfq.training.loop import Stopped
    from bfq_paper.experiments import Options, select_experiments
    from bfq_paper.run import RUNS, helpers, make_plan, reproduce

    options = Options(args.quick, args.agents, args.tasks, args.seeds, args.steps, args.precision)
    experiments = select_experiments(args.name, options)
    if args.jobs > 1 and any(each.kind == "speed" for each in experiments):
        raise BadInput("times are measured alone: leave out --jobs for efficiency and all.")
    plans = [make_plan(each, args.out, args.again) for each in experiments]
    if args.dry_run or not args.json:
        print(
            json.dumps([plan.describe() for plan in plans], indent=1)
            if args.json
            else "\n".join(line for plan in plans for line in plan.lines()),
            flush=True,
        )
    if args.dry_run:
        return 0
    command, failures = _command(args.words), []
    try:
        with helpers(args.jobs - 1, args.words, RUNS / "shared"):
            for plan in plans:
                failures += reproduce(plan, args.out, command, _say, args.json)
    except Stopped as stopped:
        _say(f"bfq: {stopped} The same command continues from there.")
        return stopped.exit_code
    folders = [args.out / each.folder for each in experiments]
    if args.json:
        found = [json.loads((folder / "result.json").read_text()) for folder in folders]
        print(json.dumps(found, indent=1))
    else:
        for folder in folders:
            print((folder / "table.md").read_text())
            print(f"page {folder / 'index.html'}")
    return 1 if failures else 0


def _say(sentence: str) -> None:
    print(sentence, file=sys.stderr, flush=True)


def _command(words: Sequence[str]) -> str:
    """The command as results record it, without --out."""
    kept = [
        word
        for place, word in enumerate(words)
        if not word.startswith("--out=") and "--out" not in words[max(0, place - 1) : place + 1]
    ]
    return f"bfq {shlex.join(kept)}"
