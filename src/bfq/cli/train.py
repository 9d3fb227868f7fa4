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
        from bfq.experiment import run_to_end
        from bfq.hooks import Hooks
        from bfq.run import as_json
        from bfq.training.loop import Stopped
        from bfq.training.monitoring import Diverged, check_trackers

    check_trackers(args.track)
    folder, dataset = _folder(args)
    try:
        record = run_to_end(folder, dataset, Hooks(track=args.track), quiet=args.json)
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
    from bfq.run import new_folder
    from bfq.settings import compose, load_run

    options = read_options(args, OPTIONS)
    if "agent" in options:
        options["agent"] = load_agent(options["agent"])
    if args.resume:
        return _resumed(args, options), None
    if args.config:
        if options.keys() - {"agent"}:
            given = OPTIONS[next(iter(options.keys() - {"agent"}))].flag
            raise BadInput(f"--config takes the options of the stored run, without {given}.")
        run = load_run(args.config).planned
    else:
        if not {"task", "agent", "baselines", "start_from"} & options.keys():
            options["baselines"] = ["bc"]
        run = compose(**options)
        if run.baselines and "values" in options:
            names = ", ".join(run.baselines)
            say(f"note: --set applies to {run.agent} only; {names} use their presets.")
    folder = args.out or new_folder(run)
    return folder, start(run, folder, quiet=args.json)


def _resumed(args: argparse.Namespace, options: dict[str, Any]) -> Path:
    """The folder of the run to continue; options beside --resume must agree with it."""
    from bfq.experiment import is_finished
    from bfq.run import unfinished
    from bfq.settings import check_agrees, load_run

    if args.config:
        raise BadInput("--resume takes the options of the stored run, without --config.")
    folder: Path = args.out or unfinished()
    if not (folder / "config.json").exists():
        raise BadInput(f"there is no run to resume in {folder}.")
    run = load_run(folder)
    check_agrees(options, run, folder)
    if is_finished(folder, run):
        say(f"the run in {folder} is finished; this is its result.")
    return folder


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
