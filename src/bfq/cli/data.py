"""`bfq data`: generate, import, inspect, re-roll and download datasets."""

import argparse
import re
from pathlib import Path
from typing import Any

from bfq.cli.words import add_options, read_options, show_json, show_table
from bfq.errors import BadInput, say
from bfq.files import make_folder, write_bytes, write_json
from bfq.options import IMPORT, parse_names

VERBS = {
    "make": "generate a dataset locally, from policies and planners that ship with bfq",
    "import": "import your own files, or published ones",
    "inspect": "statistics, warnings and a page of figures about a dataset",
    "reroll": "roll out the policy stored in a D4RL file or a weight file",
    "download": "download the published data of a task, or a Minari dataset",
}
GENERATES = "make reroll"
STORES = "make import reroll download"
BOUND = "action that the machine accepts, or one per dimension, separated by commas"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    verbs = parser.add_subparsers(dest="subcommand", metavar="VERB", required=True)
    for name, about in VERBS.items():
        verb = verbs.add_parser(name, help=about, description=f"{about[0].upper()}{about[1:]}.")
        # Take -40,-20 or -1e3 after a flag as a value and not as a flag.
        verb._negative_number_matcher = re.compile(r"-\.?\d")
        for users, flag, settings in ARGUMENTS:
            if name in users.split():
                verb.add_argument(flag, **settings)
        if name == "import":
            add_options(verb, IMPORT)
        verb.add_argument("--json", action="store_true", help="print the result as JSON")


def _bound(word: str) -> float | list[float]:
    """One number for all action dimensions, or a list with one per dimension."""
    try:
        found = [float(one) for one in word.split(",")]
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{word!r} is not a list of numbers") from error
    return found if len(found) > 1 else found[0]


ARGUMENTS: tuple[tuple[str, str, dict[str, Any]], ...] = (  # verbs, argument, settings
    ("make", "name", {"metavar": "TASK", "help": "such as local/halfcheetah-medium; see `bfq tasks`"}),
    ("inspect", "name", {"metavar": "NAME", "help": "a task, an imported dataset, or a file"}),
    ("download", "name",
     {"metavar": "NAME", "help": "a published task (see `bfq tasks`), or D4RL/pen/human-v2"}),
    ("import", "files", {"type": Path, "nargs": "+", "metavar": "FILE",
                         "help": ".npz, .csv, .parquet, .feather, .hdf5, .jsonl, or a folder of Minari or LeRobot"}),
    ("reroll", "files", {"type": Path, "nargs": "+", "metavar": "FILE",
                         "help": "several files share the transitions equally"}),
    ("import", "--as", {"dest": "name", "required": True, "metavar": "NAME",
                        "help": "a name of your own to train on, or a published task"}),
    ("reroll", "--as", {"dest": "name", "metavar": "NAME", "help": "default rerolled/FILE"}),
    ("make", "--out",
     {"type": Path, "metavar": "FILE", "help": "also write an HDF5 file in D4RL's layout"}),
    ("import", "--columns", {"action": "append", "default": [], "metavar": "NAME=COLUMN[,…]",
                         "help": "a column, a prefix (observations=obs_), several (a+b), or none"}),
    ("import", "--action-low", {"type": _bound, "metavar": "X[,…]", "help": f"the smallest {BOUND}"}),
    ("import", "--action-high", {"type": _bound, "metavar": "X[,…]", "help": f"the largest {BOUND}"}),
    ("import", "--reward-on", {"default": "state", "choices": ("state", "next_state"), "help":
     "OGBench files: which state earns the reward, the one before or after the action"}),
    ("inspect", "--replay",
     {"action": "store_true", "help": "step stored states in the simulator and compare"}),
    ("inspect", "--env",
     {"metavar": "ID", "dest": "simulator", "help": "environment of the replay; default the task's"}),
    ("inspect", "--out",
     {"type": Path, "metavar": "DIR", "help": "folder of the page; default runs/data-NAME"}),
    ("reroll", "--robot", {"metavar": "NAME",
                           "help": "halfcheetah, hopper, walker2d or ant; default from the name"}),
    ("reroll", "--old-masses",
     {"action": "store_true", "help": "the robots' masses at the time of D4RL"}),
    (GENERATES, "--size",
     {"type": int, "metavar": "N", "help": "transitions; default as in the published dataset"}),
    (GENERATES, "--seed", {"type": int, "default": 0, "metavar": "N",
                           "help": "the same seed gives the same bytes; default 0"}),
    (GENERATES, "--processes", {"type": int, "metavar": "N", "help": "default one per core"}),
    (STORES, "--replace", {"action": "store_true", "help": "replace the dataset of this name"}),
)  # fmt: skip


def run(args: argparse.Namespace) -> int:
    """Run the chosen verb."""
    verbs = {"make": _make, "import": _import, "inspect": _inspect, "reroll": _reroll,
             "download": _download}  # fmt: skip
    return verbs[args.subcommand](args)


def _make(args: argparse.Namespace) -> int:
    from bfq.tasks.recipes import recipe_for

    if args.out is not None and args.out.suffix not in (".hdf5", ".h5"):
        raise BadInput(f"--out writes an HDF5 file, whose name ends in .hdf5, not {args.out.name}.")
    if args.out is not None and not args.out.parent.is_dir():
        raise BadInput(f"there is no folder {args.out.parent} for {args.out.name}.")
    dataset = _generate(recipe_for(args.name, args.size, args.seed), args)
    if args.out is not None:
        from bfq.data.readers.d4rl import write_d4rl

        write_d4rl(dataset, args.out)
    return _show(dataset, args.json)


def _reroll(args: argparse.Namespace) -> int:
    from bfq.tasks.locomotion import reroll_recipe

    recipe = reroll_recipe(args.files, args.name, args.robot, args.size, args.seed, args.old_masses)
    return _show(_generate(recipe, args), args.json)


def _generate(recipe: Any, args: argparse.Namespace) -> Any:
    from bfq.progress import data_bar
    from bfq.tasks.sources import generate_and_store

    for name in ("size", "processes"):
        if getattr(args, name) is not None and getattr(args, name) < 1:
            raise BadInput(f"--{name} must be at least 1, not {getattr(args, name)}.")
    if args.seed < 0:
        raise BadInput(f"--seed must be 0 or more, not {args.seed}.")
    return generate_and_store(recipe, data_bar, args.processes, args.replace)


def _import(args: argparse.Namespace) -> int:
    from bfq.tasks.sources import import_files

    settings = {name: getattr(args, name) for name in ("action_low", "action_high", "reward_on")}
    settings |= read_options(args, IMPORT)
    dataset = import_files(
        args.files, args.name, parse_names(args.columns, "--columns"), args.replace, **settings
    )
    return _show(dataset, args.json)


def _download(args: argparse.Namespace) -> int:
    """Download the file of a task, or the folder of a Minari dataset, and import it."""
    from bfq.data.download import fetch
    from bfq.data.published import fetch_minari, remotes_for
    from bfq.data.store import downloads
    from bfq.progress import byte_bar
    from bfq.tasks.catalog import get_task
    from bfq.tasks.sources import RESERVED, import_files

    name = args.name
    with byte_bar(f"downloading {name}") as progress:
        if "/" in name and not name.startswith(RESERVED):
            path = fetch_minari(name, downloads() / "minari", progress=progress, say=say)
        else:
            training, *_ = remotes_for(get_task(name).name)  # the others are validation data
            path = fetch(training, progress=progress, say=say)
    return _show(import_files([path], name, replace=args.replace), args.json)


def _inspect(args: argparse.Namespace) -> int:
    from bfq.data.inspect import fact_rows, inspect
    from bfq.data.replay import replay, replay_rows
    from bfq.progress import data_bar
    from bfq.reports.report import data_page
    from bfq.tasks.catalog import TASKS
    from bfq.tasks.sources import load_dataset

    dataset = load_dataset(args.name, bar=data_bar)
    card = TASKS.get(args.name)
    if args.simulator:
        from bfq.envs.own import admit

        admit(args.simulator)
    simulator = args.simulator or (card.simulator if card else dataset.env)
    if args.replay and simulator is None:
        raise BadInput(f"{args.name} has no environment of its own: name one with --env.")
    facts = inspect(dataset)
    replayed = replay(dataset, simulator) if args.replay and simulator else None
    folder = args.out or Path("runs") / f"data-{dataset.name.replace('/', '-')}"
    make_folder(folder)
    write_json(folder / "data.json", {**facts, "replay": replayed})
    write_bytes(folder / "data.html", data_page(facts, replayed).encode())
    if args.json:
        show_json({**facts, "replay": replayed})
        return 0
    show_table(("", ""), fact_rows(facts), dataset.name)
    if replayed:
        rows = replay_rows(replayed)
        show_table(("", ""), rows, f"stored states stepped in {simulator}")
    for note in dataset.notes:
        print(f"note: {note}")
    print(f"page {folder / 'data.html'}")
    return 0


def _show(dataset: Any, as_json: bool) -> int:
    from bfq.data.inspect import count_plans, label_texts, masses_hint, spell_labels
    from bfq.tasks.catalog import TASKS

    facts, named = dataset.describe(), label_texts(dataset)
    if as_json:
        show_json({**facts, "env": dataset.env, "labels": named, "notes": list(dataset.notes)})
        return 0
    mean, std, most = (facts[f"return_{name}"] for name in ("mean", "std", "max"))
    rows = [
        ("transitions", f"{facts['transitions']:,}"),
        ("episodes", f"{facts['episodes']:,}"),
        ("episode return", f"{mean:.1f} ± {std:.1f}, at most {most:.1f}"),
        ("observations", spell_labels(named["observations"], dataset.observation_dim)),
        ("actions", spell_labels(named["actions"], dataset.action_dim)),
        ("source", facts["source"]),
        ("sha256", facts["sha256"]),
    ]
    if planned := count_plans(dataset):
        reached = f"{planned['successful']:,} of {planned['ended']:,} reached"
        rows.insert(3, ("goals of the planner", reached))
    show_table(("", ""), rows, dataset.name)
    for note in dataset.notes:
        print(f"note: {note}")
    if hint := masses_hint(dataset.source):
        print(f"hint: {hint}")
    own = dataset.env and dataset.name not in TASKS
    env = f" --env {dataset.env}" if own else ""
    print(f"train on it with: bfq train --task {dataset.name}{env}")
    return 0
