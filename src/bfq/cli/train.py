"""`bfq train`: from data to a score, a picture and a policy."""

import argparse
import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bfq.cli.words import assignments, dest, evaluations, mapping, seeds, show_json
from bfq.errors import BadInput, DiskTrouble

if TYPE_CHECKING:
    from bfq.settings import RunConfig

TASK_HELP = (
    "a task (see `bfq tasks`), or a file of your own: .npz, .csv, .csv.gz, .parquet, .hdf5 or .h5"
)
SET_HELP = "a hyperparameter; several values train as members of one population"
BASELINE_HELP = (
    "also train this agent, or these (`iql,bc`), or all others (`all`), and show them beside, each as its "
    "preset is; default bc where neither --task nor --agent is given"
)
DATA_HELP = "how numbers are changed first, as observations=none or reward=standardize; default from the preset"
DESCRIBES_A_RUN = (
    "task", "agent", "steps", "seeds", "set", "baseline", "eval_episodes", "evaluations", "candidates",
    "temperature", "eval_seed", "selection", "softmax_weight", "policy", "sampling_steps", "sampler", "data",
    "simulator", "episode_steps", "keep_going", "precision",
)  # fmt: skip


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The words of the verb."""
    add_description(parser)
    add = parser.add_argument
    add("--baseline", action="append", metavar="AGENT", help=BASELINE_HELP)
    add("--out", type=Path, metavar="DIR", help="run folder; default runs/TASK-AGENT-NNN")
    add(
        "--resume",
        action="store_true",
        help="continue the run in --out, or the newest unfinished in runs/",
    )
    add("--config", type=Path, metavar="FILE", help="repeat the run of this config.json")
    add("--keep-going", action="store_true", help="report a diverging member, do not stop")
    add("--track", action="append", default=[], metavar="NAME", help="tensorboard | wandb")
    add("--json", action="store_true", help="print result.json and nothing else")


def add_description(parser: argparse.ArgumentParser) -> None:
    """The words that describe what is trained, on what, and how it is judged."""
    add = parser.add_argument
    add("--task", metavar="NAME", help=TASK_HELP)
    add("--agent", metavar="NAME", help="a method (see `bfq agents`); default bfq")
    add("--steps", type=int, metavar="N", help="updates of each member; default from the preset")
    add("--seeds", type=seeds, metavar="N", help="a number of seeds, or a list as 3,7; default 5")
    add("--set", action="append", default=[], metavar="NAME=VALUE[,VALUE…]", help=SET_HELP)
    add("--eval-episodes", type=int, metavar="N", help="episodes a member in each evaluation")
    add(
        "--evaluations",
        type=evaluations,
        metavar="N",
        help="how many during the run, or a list of updates, rounded up to whole chunks; default 8",
    )
    add("--candidates", type=int, metavar="N", help="actions drawn a state, the critic choosing")
    add("--temperature", type=float, metavar="X", help="factor on the acting noise")
    add("--eval-seed", type=int, metavar="N", help="seed of the first episode of an evaluation")
    add("--selection", metavar="HOW", help="argmax | softmax among the candidates")
    add("--softmax-weight", type=float, metavar="W", help="w in softmax(w · Q)")
    add("--policy", metavar="WHICH", help="ema | online")
    add("--sampling-steps", type=int, metavar="N", help="network calls an action when evaluated")
    add("--sampler", metavar="NAME", help="the rule of these steps, as ddim; see `bfq agents`")
    add("--data", action="append", default=[], metavar="NAME=WORD", help=DATA_HELP)
    add("--simulator", metavar="ID", help="a Gymnasium id to judge a policy from your own file in")
    add(
        "--episode-steps",
        type=int,
        metavar="N",
        help="episode limit with --simulator; default its own",
    )
    add(
        "--precision",
        metavar="NAME",
        help="float32, or bfloat16 for products: faster, on NVIDIA GPUs",
    )


def run(args: argparse.Namespace) -> int:
    """Starts or continues a run, and shows what came of it."""
    from bfq.training.progress import announced

    with announced("loading JAX", quiet=args.json):
        from bfq.experiment import complete, say
        from bfq.training.health import Diverged
        from bfq.training.loop import Stopped
        from bfq.training.trackers import check_trackers

    check_trackers(args.track)
    folder, dataset = _folder(args)
    try:
        result = complete(folder, dataset, tuple(args.track), quiet=args.json)
    except Stopped as stopped:
        say(f"bfq: {stopped} Continue with: bfq train --resume --out {folder}")
        return stopped.exit_code
    except Diverged as trouble:
        kept = any(folder.glob("checkpoints/step-*"))
        say(f"bfq: {trouble}" + (f" The last good checkpoint is kept in {folder}." if kept else ""))
        return 1
    except DiskTrouble as trouble:
        say(f"bfq: {trouble} Free some space, then: bfq train --resume --out {folder}")
        return 1
    if args.json:
        show_json(result)
    else:
        _show(folder)
    return 0


def _folder(args: argparse.Namespace) -> tuple[Path, Any]:
    """The folder to work in: the one to resume, or a new one that holds what was asked for."""
    from bfq import experiment

    if args.resume:
        _only_resume(args)
        folder = args.out or experiment.unfinished()
        if not (folder / "config.json").exists():
            raise BadInput(f"there is no run to resume in {folder}.")
        if (folder / "result.json").exists():
            experiment.say(f"the run in {folder} has ended already; this is its result.")
        return folder, None
    if args.config:
        _only_config(args)
        run, _ = experiment.read_run(args.config.parent, args.config.name)
    else:
        run = described(args)
        if run.baselines and args.set:
            names = ", ".join(run.baselines)
            experiment.say(f"note: --set is for {run.agent} alone; {names} keep their presets.")
    folder = args.out or experiment.new_folder(run)
    return folder, experiment.start(run, folder, quiet=args.json)


def described(args: argparse.Namespace) -> "RunConfig":
    """The run that the words tell of; where they tell nothing, cloning is trained beside it."""
    default = args.task is None and args.agent is None
    baselines = _names(args.baseline) or (["bc"] if default else [])
    return composed(args, assignments(args.set), baselines, stop_on_divergence=not args.keep_going)


def _names(words: list[str] | None) -> list[str]:
    """`--baseline iql,bc` and `--baseline iql --baseline bc` are the same."""
    return [name for word in words or [] for name in word.split(",") if name]


def composed(
    args: argparse.Namespace,
    values: dict[str, list[Any]],
    baselines: Sequence[str] = (),
    stop_on_divergence: bool = False,
) -> "RunConfig":
    """The run that the words of `add_description` tell of, with these hyperparameters."""
    from bfq.agents.registry import get_agent
    from bfq.settings import EVALUATION_FLAGS, compose

    asked: dict[str, Any] = {
        "task": args.task,
        "agent": args.agent,
        "steps": args.steps,
        "seeds": args.seeds,
        "evaluations": args.evaluations,
        "simulator": args.simulator,
        "episode_steps": args.episode_steps,
        "precision": args.precision,
    }
    own = dataclasses.asdict(get_agent(args.agent or "bfq").config())
    for flag, name in EVALUATION_FLAGS.items():
        if name in values and name not in own:
            raise BadInput(f"{name} is part of the evaluation, not of the agent: use {flag}.")
    return compose(
        **{name: value for name, value in asked.items() if value is not None},
        values=values,
        data=mapping(args.data, "--data"),
        evaluation={name: getattr(args, dest(flag)) for flag, name in EVALUATION_FLAGS.items()},
        stop_on_divergence=stop_on_divergence,
        baselines=baselines,
    )


def _given(args: argparse.Namespace) -> list[str]:
    """The options that describe a run, as far as they were used."""
    values = {name: getattr(args, name) for name in DESCRIBES_A_RUN}
    used = [name for name, value in values.items() if value is not None and value is not False]
    return [
        f"--{name.replace('_', '-')}"
        for name in used
        if name not in ("set", "data") or values[name]
    ]


def _only_resume(args: argparse.Namespace) -> None:
    if _given(args) or args.config:
        other = (_given(args) or ["--config"])[0]
        raise BadInput(
            f"--resume continues a run as it was begun, so {other} cannot be given with it."
        )


def _only_config(args: argparse.Namespace) -> None:
    if _given(args):
        raise BadInput(
            f"--config repeats a run as it was, so {_given(args)[0]} cannot be given with it."
        )


def _show(folder: Path) -> None:
    from rich.console import Console

    from bfq.reports.runs import read_run
    from bfq.reports.tables import rich_table

    Console().print(rich_table(read_run(folder)))
    print(f"run folder      {folder}")
    for words, name in (("learning curves", "learning_curves.png"), ("at work", "frames.png")):
        if (folder / name).exists():  # a run without a simulator has none
            print(f"{words:15} {folder / name}")
    print(f"report          {folder / 'report.html'}")
