"""`bfq train`: from data to a score, a picture and a policy."""

import argparse
from pathlib import Path
from typing import Any

from bfq.cli.words import add_options, read_options, show_json
from bfq.errors import BadInput, DiskTrouble, say
from bfq.options import OPTIONS


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of a run, and where it is kept."""
    add_options(parser, OPTIONS)
    add = parser.add_argument
    add("--out", type=Path, metavar="DIR", help="run folder; default runs/TASK-AGENT-NNN")
    about = "continue the run in --out, or the newest unfinished one in runs/"
    add("--resume", action="store_true", help=about)
    add("--config", type=Path, metavar="FILE", help="repeat the run of this config.json")
    add("--track", action="append", default=[], metavar="NAME", help="tensorboard | wandb")
    add("--json", action="store_true", help="print result.json and nothing else")


def run(args: argparse.Namespace) -> int:
    """Start or continue a run, and show its scores."""
    from bfq.progress import announced

    with announced("loading JAX", quiet=args.json):
        from bfq.experiment import complete
        from bfq.run import as_json
        from bfq.training.loop import Stopped
        from bfq.training.monitoring import Diverged, check_trackers

    check_trackers(args.track)
    folder, dataset = _folder(args)
    try:
        record = complete(folder, dataset, tuple(args.track), quiet=args.json)
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
        show_json(as_json(record))
    else:
        _show(folder)
    return 0


def _folder(args: argparse.Namespace) -> tuple[Path, Any]:
    """The folder to work in: the one to resume, or a new one."""
    from bfq.agents.registry import load_agent
    from bfq.experiment import start
    from bfq.run import new_folder, unfinished
    from bfq.settings import compose, load_run

    if args.resume or args.config:
        _check_alone(args)
        if args.agent:
            load_agent(args.agent)
    if args.resume:
        folder = args.out or unfinished()
        if not (folder / "config.json").exists():
            raise BadInput(f"there is no run to resume in {folder}.")
        if (folder / "result.json").exists():
            say(f"the run in {folder} is finished; this is its result.")
        return folder, None
    if args.config:
        run = load_run(args.config).planned
    else:
        options = read_options(args, OPTIONS)
        if not {"task", "agent", "baselines"} & options.keys():
            options["baselines"] = ["bc"]
        if "agent" in options:
            options["agent"] = load_agent(options["agent"])
        run = compose(**options)
        if run.baselines and "values" in options:
            names = ", ".join(run.baselines)
            say(f"note: --set applies to {run.agent} only; {names} use their presets.")
    folder = args.out or new_folder(run)
    return folder, start(run, folder, quiet=args.json)


def _check_alone(args: argparse.Namespace) -> None:
    """Refuse other options beside --resume or --config, except the file of the agent."""
    flag = "--resume" if args.resume else "--config"
    values = {option.flag: getattr(args, name) for name, option in OPTIONS.items()}
    given = [flag for flag, value in values.items() if value is not None and value is not False]
    others = [one for one in given if one != "--agent" or not args.agent.endswith(".py")]
    others += ["--config"] if args.resume and args.config else []
    if others:
        raise BadInput(f"{flag} takes the options of the stored run, without {others[0]}.")


def _show(folder: Path) -> None:
    from rich.console import Console

    from bfq.reports import read_finished
    from bfq.reports.tables import rich_table

    Console().print(rich_table(read_finished(folder)))
    print(f"run folder      {folder}")
    for words, name in (("learning curves", "learning_curves.png"), ("frames", "frames.png")):
        if (folder / name).exists():  # a run without a simulator has none
            print(f"{words:15} {folder / name}")
    print(f"report          {folder / 'report.html'}")
