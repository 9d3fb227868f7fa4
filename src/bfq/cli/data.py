"""`bfq data`: make data, bring it in, look at it, roll a stored policy, fetch published files."""

import argparse
import re
from pathlib import Path
from typing import Any

from bfq.cli.words import mapping, show_json
from bfq.errors import BadInput

MAKE = "make a dataset here, from policies and planners that ship with bfq"
IMPORT = "bring in files of your own, or published ones"
INSPECT = "what is in a dataset: numbers, warnings, and a page of pictures"
REROLL = "roll out the policy stored in a D4RL file or a weight file"
DOWNLOAD = "fetch the published data of a task, or a dataset of Minari's"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The words of the verb."""
    verbs = parser.add_subparsers(
        dest="deed", metavar="VERB", required=True, parser_class=type(parser)
    )
    make = verbs.add_parser("make", help=MAKE, description=f"{MAKE[0].upper()}{MAKE[1:]}.")
    make.add_argument(
        "name", metavar="TASK", help="such as local/halfcheetah-medium; see `bfq tasks`"
    )
    _making(make)
    make.add_argument(
        "--out", type=Path, metavar="FILE", help="also write it as an HDF5 file of D4RL's layout"
    )
    bring = verbs.add_parser("import", help=IMPORT, description=f"{IMPORT[0].upper()}{IMPORT[1:]}.")
    bring.add_argument(
        "files",
        type=Path,
        nargs="+",
        metavar="FILE",
        help=".npz, .csv, .parquet, .hdf5, or a Minari folder",
    )
    bring.add_argument(
        "--as",
        dest="name",
        required=True,
        metavar="NAME",
        help="the name to train on it by, or a published task's",
    )
    _columns(bring)
    look = verbs.add_parser(
        "inspect", help=INSPECT, description=f"{INSPECT[0].upper()}{INSPECT[1:]}."
    )
    look.add_argument("name", metavar="NAME", help="a task, an imported dataset, or a file")
    look.add_argument(
        "--replay", action="store_true", help="step stored states in the simulator and compare"
    )
    look.add_argument("--simulator", metavar="ID", help="where to replay; default the task's")
    look.add_argument(
        "--out", type=Path, metavar="DIR", help="folder of the page; default runs/data-NAME"
    )
    reroll = verbs.add_parser(
        "reroll", help=REROLL, description=f"{REROLL[0].upper()}{REROLL[1:]}."
    )
    reroll.add_argument(
        "files", type=Path, nargs="+", metavar="FILE", help="several share the transitions equally"
    )
    reroll.add_argument("--as", dest="name", metavar="NAME", help="default rerolled/FILE")
    reroll.add_argument(
        "--robot",
        metavar="NAME",
        help="halfcheetah, hopper, walker2d or ant; default from the name",
    )
    reroll.add_argument(
        "--old-masses", action="store_true", help="robots as heavy as when D4RL was made"
    )
    _making(reroll)
    fetch = verbs.add_parser(
        "download", help=DOWNLOAD, description=f"{DOWNLOAD[0].upper()}{DOWNLOAD[1:]}."
    )
    fetch.add_argument(
        "name", metavar="NAME", help="a published task (see `bfq tasks`), or D4RL/pen/human-v2"
    )
    for verb in (make, bring, reroll, fetch):
        verb.add_argument(
            "--replace", action="store_true", help="in place of the dataset that has this name"
        )
    for verb in (make, bring, look, reroll, fetch):
        verb.add_argument("--json", action="store_true", help="print what came of it as JSON")


def _making(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--size", type=int, metavar="N", help="transitions; default as the published dataset has")
    add(
        "--seed",
        type=int,
        default=0,
        metavar="N",
        help="the same seed gives the same bytes; default 0",
    )
    add("--processes", type=int, metavar="N", help="default one a core")


def _columns(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--map",
        action="append",
        default=[],
        metavar="OURS=THEIRS[,…]",
        help="a column, a prefix (observations=obs_), several (a+b), or none",
    )
    # So that -40,-20 or -1e3 after a flag is not taken for a flag itself.
    parser._negative_number_matcher = re.compile(r"-\.?\d")
    one_each = "or one for each number of an action, joined by commas"
    add(
        "--action-low",
        type=_bound,
        metavar="X[,…]",
        help=f"the smallest the machine takes, {one_each}",
    )
    add(
        "--action-high",
        type=_bound,
        metavar="X[,…]",
        help=f"the largest the machine takes, {one_each}",
    )
    add(
        "--reward-on",
        default="state",
        choices=("state", "next_state"),
        help="OGBench files: whether the state before the action earns the reward, or the one after",
    )


def _bound(word: str) -> float | list[float]:
    """One number for the whole action, or a list, since the joints of a machine differ in strength."""
    try:
        found = [float(one) for one in word.split(",")]
    except ValueError as error:
        raise argparse.ArgumentTypeError(
            f"{word!r} is neither a number nor numbers with commas"
        ) from error
    return found if len(found) > 1 else found[0]


def run(args: argparse.Namespace) -> int:
    """Does the deed."""
    deeds = {
        "make": _make,
        "import": _import,
        "inspect": _inspect,
        "reroll": _reroll,
        "download": _download,
    }
    return deeds[args.deed](args)


def _make(args: argparse.Namespace) -> int:
    from bfq.tasks.recipes import recipe_for

    if args.out is not None:
        _check_out(args.out)
    dataset = _made(recipe_for(args.name, args.size, args.seed), args)
    if args.out is not None:
        from bfq.data.readers.d4rl import write

        write(dataset, args.out)
    return _tell(dataset, args.json)


def _reroll(args: argparse.Namespace) -> int:
    from bfq.tasks.reroll import recipe

    cooked = recipe(args.files, args.name, args.robot, args.size, args.seed, args.old_masses)
    return _tell(_made(cooked, args), args.json)


def _made(recipe: Any, args: argparse.Namespace) -> Any:
    from bfq.tasks.sources import make_here
    from bfq.training.progress import data_bar

    for name in ("size", "processes"):
        if getattr(args, name) is not None and getattr(args, name) < 1:
            raise BadInput(f"--{name} must be at least 1, not {getattr(args, name)}.")
    if args.seed < 0:
        raise BadInput(f"--seed must be 0 or more, not {args.seed}.")
    return make_here(recipe, data_bar, args.processes, args.replace)


def _import(args: argparse.Namespace) -> int:
    from bfq.tasks.importing import import_files

    settings = {name: getattr(args, name) for name in ("action_low", "action_high", "reward_on")}
    dataset = import_files(args.files, args.name, mapping(args.map), args.replace, **settings)
    return _tell(dataset, args.json)


def _download(args: argparse.Namespace) -> int:
    from bfq.tasks.importing import import_files

    return _tell(import_files([_fetched(args.name)], args.name, replace=args.replace), args.json)


def _fetched(name: str) -> Path:
    """The file of a task, or the folder of a Minari dataset: its names have folders, as those made here."""
    from bfq.data.download import fetch
    from bfq.data.published import fetch_minari, remotes_for
    from bfq.data.store import downloads
    from bfq.experiment import say
    from bfq.tasks.catalog import get_task
    from bfq.tasks.importing import OURS
    from bfq.training.progress import byte_bar

    with byte_bar(f"fetching {name}") as progress:
        if "/" in name and not name.startswith(OURS):
            return fetch_minari(name, downloads() / "minari", progress=progress, say=say)
        training = remotes_for(get_task(name).name)[
            0
        ]  # what follows is for validation, which no score uses
        return fetch(training, progress=progress, say=say)


def _inspect(args: argparse.Namespace) -> int:
    from bfq.data.inspect import inspect, told
    from bfq.data.replay import replay
    from bfq.data.replay import told as told_replay
    from bfq.files import make_folder, write_bytes, write_json
    from bfq.reports.data_page import data_page
    from bfq.tasks.catalog import TASKS
    from bfq.tasks.sources import load_dataset
    from bfq.training.progress import data_bar

    dataset = load_dataset(args.name, data_bar)
    card = TASKS.get(args.name)
    simulator = args.simulator or (card.simulator if card else None)
    if args.replay and simulator is None:
        raise BadInput(f"{args.name} has no simulator of its own: name one with --simulator.")
    facts = inspect(dataset)
    replayed = replay(dataset, simulator) if args.replay and simulator else None
    folder = args.out or Path("runs") / f"data-{dataset.name.replace('/', '-')}"
    make_folder(folder)
    write_json(folder / "data.json", {**facts, "replay": replayed})
    write_bytes(folder / "data.html", data_page(facts, replayed).encode())
    if args.json:
        show_json({**facts, "replay": replayed})
        return 0
    _table(dataset.name, told(facts))
    if replayed:
        _table(f"stored states stepped in {simulator}", told_replay(replayed))
    _notes(dataset)
    print(f"page {folder / 'data.html'}")
    return 0


def _check_out(path: Path) -> None:
    if path.suffix not in (".hdf5", ".h5"):
        raise BadInput(f"--out writes an HDF5 file, whose name ends in .hdf5, not {path.name}.")
    if not path.parent.is_dir():
        raise BadInput(f"there is no folder {path.parent} for {path.name}.")


def _tell(dataset: Any, as_json: bool) -> int:
    from bfq.data.inspect import errands, masses_hint

    facts = dataset.describe()
    if as_json:
        show_json({**facts, "notes": list(dataset.notes)})
        return 0
    rows = [
        ("transitions", f"{facts['transitions']:,}"),
        ("episodes", f"{facts['episodes']:,}"),
        (
            "return of an episode",
            f"{facts['return_mean']:.1f} ± {facts['return_std']:.1f}, at most {facts['return_max']:.1f}",
        ),
        ("observations, actions", f"{dataset.observation_dim}, {dataset.action_dim}"),
        ("source", facts["source"]),
        ("sha256", facts["sha256"]),
    ]
    planned = errands(dataset)
    if planned:
        rows.insert(
            3,
            (
                "errands of the oracle",
                f"{planned['successful']:,} of {planned['ended']:,} ended in success",
            ),
        )
    _table(dataset.name, rows)
    _notes(dataset)
    hint = masses_hint(dataset.source)
    if hint:
        print(f"hint: {hint}")
    print(f"train on it with: bfq train --task {dataset.name}")
    return 0


def _notes(dataset: Any) -> None:
    for note in dataset.notes:
        print(f"note: {note}")


def _table(title: str, rows: list[tuple[str, str]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text  # so that nothing in the data is read as markup

    table = Table(title=Text(title), show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for label, text in rows:
        table.add_row(Text(label), Text(text))
    Console().print(table)
