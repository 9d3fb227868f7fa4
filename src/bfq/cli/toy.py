"""`bfq toy`: the checkerboard figure with its numbers."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bfq.cli.words import show_json
from bfq.errors import BadInput

if TYPE_CHECKING:
    from rich.table import Table

    from bfq.training.toy import Clouds
    from bfq.training.toy_methods import Settings

Metrics = dict[str, Any]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The words of the verb."""
    parser.add_argument("--seeds", type=int, default=1, metavar="N", help="seeds 0 to N − 1; default 1")
    parser.add_argument(
        "--epochs", type=int, default=100, metavar="N", help="epochs of 40 batches; default 100"
    )
    parser.add_argument(
        "--all", action="store_true", help="also DDPM, consistency, shortcut and MeanFlow; thrice as long"
    )
    parser.add_argument(
        "--out", type=Path, default=Path("runs/toy"), metavar="DIR", help="where toy.json and toy.png go"
    )
    parser.add_argument("--json", action="store_true", help="print the content of toy.json")


def run(args: argparse.Namespace) -> int:
    """Trains the methods, then writes and shows the numbers and the figure."""
    for word in ("seeds", "epochs"):
        if getattr(args, word) < 1:
            raise BadInput(f"--{word} must be at least 1, not {getattr(args, word)}.")
    from bfq.files import make_folder, write_bytes, write_json
    from bfq.reporting.toy_figure import toy_figure
    from bfq.training.compiled import remember_compilations
    from bfq.training.progress import reporting
    from bfq.training.toy import experiment
    from bfq.training.toy_methods import METHODS, PAPER, Settings

    make_folder(args.out)
    remember_compilations()
    settings, seeds, names = Settings(epochs=args.epochs), range(args.seeds), METHODS if args.all else PAPER
    with reporting("toy", len(names) * settings.epochs * settings.batches, 0) as reporter:
        if not args.json:
            reporter.waiting("compiling")
        clouds = experiment(seeds, settings, reporter.show, tuple(names))
    result = measure(clouds, seeds, settings)
    write_json(args.out / "toy.json", result)
    write_bytes(args.out / "toy.png", toy_figure(panels(clouds, result)))
    if args.json:
        show_json(result)
    else:
        _show(result, args.out)
    return 0


def measure(clouds: "Clouds", seeds: Sequence[int], settings: "Settings") -> dict[str, Any]:
    """The content of toy.json."""
    from bfq.provenance import versions
    from bfq.training.toy import ARCHITECTURE

    measured = {
        name: {str(steps): over_seeds(points, clouds.truth, seeds) for steps, points in by_steps.items()}
        for name, by_steps in clouds.samples.items()
    }
    return {
        **measured,
        "settings": {**settings._asdict(), "architecture": ARCHITECTURE, "seeds": list(seeds)},
        "versions": versions(),
        "train_seconds": clouds.train_seconds,
    }


def over_seeds(samples: Any, truth: Any, seeds: Sequence[int]) -> Metrics:
    """Each seed's metrics with their means; of the squares covered, the least."""
    import jax

    from bfq.evaluation.distributions import compare

    rows = [
        {"seed": seed, **compare(samples[k], truth[k], jax.random.key(seed))} for k, seed in enumerate(seeds)
    ]
    names = ("energy_distance", "sliced_wasserstein2", "share_on_filled")
    means = {name: sum(row[name] for row in rows) / len(rows) for name in names}
    return {**means, "squares_covered": min(row["squares_covered"] for row in rows), "seeds": rows}


def panels(clouds: "Clouds", result: dict[str, Any]) -> list[Any]:
    """The truth and every method's samples, of the first seed."""
    import numpy as np

    from bfq.reporting.toy_figure import Panel
    from bfq.training.toy_methods import METHODS

    truth = np.asarray(clouds.truth[0])
    shown = [Panel("Ground truth", f"{len(truth):,} points", truth, "truth")]
    for name, by_steps in clouds.samples.items():
        for steps, points in by_steps.items():
            title = f"{METHODS[name].title}, {steps} step{'s' if steps > 1 else ''}"
            distance = result[name][str(steps)]["seeds"][0]["energy_distance"]
            shown.append(Panel(title, f"energy distance {distance:.4f}", np.asarray(points[0]), "generated"))
    return shown


def table(result: dict[str, Any]) -> "Table":
    """One row a method and number of steps, means over seeds."""
    from rich.table import Table

    from bfq.training.toy_methods import METHODS

    made = Table("method", box=None, header_style="bold", pad_edge=False)
    for name in ("steps", "energy distance", "sliced W2", "on filled squares", "squares covered"):
        made.add_column(name, justify="right")
    for name in (name for name in METHODS if name in result):
        for steps, row in result[name].items():
            made.add_row(
                METHODS[name].title,
                steps,
                f"{row['energy_distance']:.4f}",
                f"{row['sliced_wasserstein2']:.4f}",
                f"{row['share_on_filled']:.1%}",
                f"{row['squares_covered']} of 8",
            )
    return made


def _show(result: dict[str, Any], folder: Path) -> None:
    from rich.console import Console

    Console().print(table(result))
    print(f"numbers {folder / 'toy.json'}")
    print(f"figure  {folder / 'toy.png'}")
