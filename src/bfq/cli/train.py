"""`bfq train`: from data to a score, a picture and a policy."""

import argparse
import sys
from pathlib import Path
from typing import Any

from bfq.cli.words import assignments, seeds, show_json
from bfq.errors import BadInput


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The words of the verb."""
    parser.add_argument(
        "--task", metavar="NAME", help="a task (see `bfq tasks`) or a .npz/.hdf5 file of your own"
    )
    parser.add_argument("--agent", metavar="NAME", help="a method (see `bfq agents`); default bfq")
    parser.add_argument(
        "--steps", type=int, metavar="N", help="updates of each member; default from the preset"
    )
    parser.add_argument(
        "--seeds", type=seeds, metavar="N", help="a number of seeds, or a list as 3,7; default 5"
    )
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE[,VALUE…]",
                        help="a hyperparameter; several values train as members of one population")  # fmt: skip
    parser.add_argument("--baseline", action="append", metavar="AGENT",
                        help="also train this agent and show it beside; default bc for the embedded task")  # fmt: skip
    parser.add_argument("--out", type=Path, metavar="DIR", help="run folder; default runs/TASK-AGENT-NNN")
    parser.add_argument("--resume", action="store_true",
                        help="continue the run in --out, or the newest unfinished one under runs/")  # fmt: skip
    parser.add_argument("--config", type=Path, metavar="FILE", help="repeat the run of this config.json")
    parser.add_argument("--eval-episodes", type=int, metavar="N", help="episodes a member in each evaluation")
    parser.add_argument("--evaluations", type=int, metavar="N", help="evaluations during the run; default 8")
    parser.add_argument(
        "--candidates", type=int, metavar="N", help="actions drawn a state, the critic choosing"
    )
    parser.add_argument("--temperature", type=float, metavar="X", help="factor on the acting noise")
    parser.add_argument(
        "--simulator", metavar="ID", help="a Gymnasium id to judge a policy from your own file in"
    )
    parser.add_argument("--episode-steps", type=int, metavar="N", help="episode limit with --simulator")
    parser.add_argument("--keep-going", action="store_true", help="report a diverging member, do not stop")
    parser.add_argument("--track", action="append", default=[], metavar="NAME", help="tensorboard | wandb")
    parser.add_argument("--json", action="store_true", help="print result.json and nothing else")


def run(args: argparse.Namespace) -> int:
    """Starts or continues a run, and shows what came of it."""
    from bfq.experiment import complete, say
    from bfq.training.files import DiskTrouble
    from bfq.training.health import Diverged
    from bfq.training.loop import Stopped

    folder = _folder(args)
    try:
        result = complete(folder, tuple(args.track), quiet=args.json)
    except Stopped as stopped:
        say(f"bfq: {stopped} Continue with: bfq train --resume --out {folder}")
        return stopped.exit_code
    except Diverged as trouble:
        say(f"bfq: {trouble} The last good checkpoint is kept in {folder}.")
        return 1
    except DiskTrouble as trouble:
        say(f"bfq: {trouble} Free some space, then: bfq train --resume --out {folder}")
        return 1
    if args.json:
        show_json(result)
    else:
        _show(folder)
    return 0


def _folder(args: argparse.Namespace) -> Path:
    """The folder to work in: the one to resume, or a new one that holds what was asked for."""
    from bfq import experiment

    if args.resume:
        _only_resume(args)
        folder = args.out or experiment.unfinished()
        if not (folder / "config.json").exists():
            raise BadInput(f"there is no run to resume in {folder}.")
        return Path(folder)
    if args.config:
        _only_config(args)
        described, _ = experiment.read_run(args.config.parent, args.config.name)
    else:
        described = _compose(args)
    folder = args.out or experiment.new_folder(described)
    experiment.start(described, folder)
    return Path(folder)


def _compose(args: argparse.Namespace) -> Any:
    from bfq.settings import compose

    default = args.task is None and args.agent is None
    asked: dict[str, Any] = {
        "task": args.task,
        "agent": args.agent,
        "steps": args.steps,
        "seeds": args.seeds,
        "evaluations": args.evaluations,
        "simulator": args.simulator,
        "episode_steps": args.episode_steps,
        "baselines": args.baseline or (["bc"] if default else None),
    }
    return compose(
        **{name: value for name, value in asked.items() if value is not None},
        values=assignments(args.set),
        evaluation={
            "episodes": args.eval_episodes,
            "candidates": args.candidates,
            "temperature": args.temperature,
        },
        stop_on_divergence=not args.keep_going,
    )


def _given(args: argparse.Namespace) -> list[str]:
    """The options that describe a run, as far as they were used."""
    names = ("task", "agent", "steps", "seeds", "set", "baseline", "eval_episodes", "evaluations", "candidates",
             "temperature", "simulator", "episode_steps", "keep_going")  # fmt: skip
    return [f"--{name.replace('_', '-')}" for name in names if getattr(args, name) not in (None, [], False)]


def _only_resume(args: argparse.Namespace) -> None:
    if _given(args) or args.config:
        other = (_given(args) or ["--config"])[0]
        raise BadInput(f"--resume continues a run as it was begun, so {other} cannot be given with it.")


def _only_config(args: argparse.Namespace) -> None:
    if _given(args):
        raise BadInput(f"--config repeats a run as it was, so {_given(args)[0]} cannot be given with it.")


def _show(folder: Path) -> None:
    from rich.console import Console

    from bfq.reporting.runs import read_run
    from bfq.reporting.tables import rich_table

    console = Console(file=sys.stdout)
    console.print(rich_table(read_run(folder)))
    for name in ("", "learning_curves.png", "report.html"):
        print(f"{'run folder' if not name else name:20} {folder / name}")
