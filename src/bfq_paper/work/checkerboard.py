"""The checkerboard trained, measured and drawn: what `bfq toy` and `bfq reproduce toy` both do."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jaxtyping import Array, Float

from bfq.provenance import versions
from bfq.training.compiled import remember_compilations
from bfq.training.progress import reporting
from bfq_paper.distributions import compare
from bfq_paper.toy_methods import METHODS, Settings
from bfq_paper.toy_training import ARCHITECTURE, Clouds, experiment

if TYPE_CHECKING:
    from bfq_paper.toy_figure import Panel


def checkerboard(
    seeds: Sequence[int],
    settings: Settings,
    names: Sequence[str],
    note: str = "",
    quiet: bool = False,
) -> tuple[dict[str, Any], bytes]:
    """What `measure` tells of these methods, and the picture, with a note under the truth if one is given."""
    from bfq_paper.toy_figure import (
        toy_figure,  # it draws: seconds of imports that others need not await
    )

    remember_compilations()
    with reporting("toy", len(names) * settings.epochs * settings.batches, 0, quiet) as reporter:
        reporter.waiting("compiling")
        clouds = experiment(seeds, settings, reporter.show, names)
    record = measure(clouds, seeds, settings)
    return record, toy_figure(_panels(clouds, record, note))


def measure(clouds: Clouds, seeds: Sequence[int], settings: Settings) -> dict[str, Any]:
    """The content of toy.json."""
    measured = {
        name: {
            str(steps): _over_seeds(points, clouds.truth, seeds)
            for steps, points in by_steps.items()
        }
        for name, by_steps in clouds.samples.items()
    }
    return {
        **measured,
        "settings": {**settings._asdict(), "architecture": ARCHITECTURE, "seeds": list(seeds)},
        "versions": versions(),
        "train_seconds": clouds.train_seconds,
    }


def _over_seeds(
    samples: Float[Array, "s n 2"], truth: Float[Array, "s n 2"], seeds: Sequence[int]
) -> dict[str, Any]:
    """Each seed's metrics with their means; of the squares covered, the least."""
    rows = [
        {"seed": seed, **compare(samples[k], truth[k], jax.random.key(seed))}
        for k, seed in enumerate(seeds)
    ]
    names = ("energy_distance", "sliced_wasserstein2", "share_on_filled")
    means = {name: sum(row[name] for row in rows) / len(rows) for name in names}
    return {**means, "squares_covered": min(row["squares_covered"] for row in rows), "seeds": rows}


def _panels(clouds: Clouds, record: dict[str, Any], note: str) -> "list[Panel]":
    """The truth and every method's samples, of the first seed."""
    from bfq_paper.toy_figure import Panel

    truth = np.asarray(clouds.truth[0])
    shown = [Panel("Ground truth", note or f"{len(truth):,} points", truth, "truth")]
    for name, by_steps in clouds.samples.items():
        for steps, points in by_steps.items():
            title = f"{METHODS[name].title}, {steps} step{'s' if steps > 1 else ''}"
            distance = record[name][str(steps)]["seeds"][0]["energy_distance"]
            shown.append(
                Panel(title, f"energy distance {distance:.4f}", np.asarray(points[0]), "generated")
            )
    return shown
