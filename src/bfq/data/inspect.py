"""A word on D4RL's Hopper, which was lighter than today's: docs/data.md, "D4RL's robots were lighter".

A dataset in numbers: what is in it, how it ends, what it covers, and what looks wrong with it.
"""

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from bfq.data.coverage import coverage, repeats
from bfq.data.dataset import Dataset
from bfq.data.statistics import (
    ColumnStatistics,
    at_bounds,
    chunks,
    column_statistics,
    histograms,
    parts,
    widened,
    zeros,
)

FACT = (
    "D4RL's Hopper was lighter than today's: the policy that collected hopper-medium returns 12 % less with "
    "today's masses, 1253 and not 1430 (docs/data.md)"
)
ROLLED, PUBLISHED = "re-rolled in Hopper-v4 ", " in D4RL's layout"  # how sources begin and end


def masses_hint(source: str) -> str:
    """What a user should know of data from this source; empty where it is not of D4RL's Hopper."""
    if not re.search("hopper[-_]medium", source.lower()):
        return ""
    if source.startswith(ROLLED):
        return f"{FACT}; `bfq data reroll FILE --old-masses` rolls it out with those of its time."
    return f"{FACT}." if source.endswith(PUBLISHED) else ""


BINS = 40  # of a histogram, at most
FEW = 20  # distinct rewards worth listing, and fewer episodes than a correlation takes
SLACK = 1e-3  # of the action range: nearer to a bound than this is at the bound


def inspect(dataset: Dataset) -> dict[str, Any]:
    """All facts about a dataset, ready for JSON; no array is ever in memory as a whole."""
    seen = column_statistics("observations", dataset.observations)
    facts = {
        "name": dataset.name,
        "source": dataset.source,
        "sha256": dataset.sha256,
        "notes": list(dataset.notes),
        "counts": _counts(dataset),
        "episodes": episodes(dataset),
        "rewards": rewards(dataset.rewards),
        "observations": seen.tell(),
        "actions": actions(dataset),
        "duplicates": duplicates(dataset),
        "coverage": coverage(dataset.observations, seen),
        "consistency": consistency(dataset),
    }
    return facts | {"errands": errands(dataset), "remarks": list(remarks(facts))}


def errands(dataset: Dataset) -> dict[str, int] | None:
    """How many errands of a planner ended, and how many of them in success, where a log tells."""
    if "errand" not in dataset.infos:
        return None
    column = np.asarray(dataset.infos["errand"])
    return {"ended": int((column > 0).sum()), "successful": int((column == 2).sum())}


def told(facts: dict[str, Any]) -> list[tuple[str, str]]:
    """The facts a terminal has room for: labels and values."""
    counts, ends, got = facts["counts"], facts["episodes"], facts["rewards"]
    few = got["values"]
    rows = [
        ("source", facts["source"]),
        ("size", f"{counts['transitions']:,} transitions, {_size(counts['bytes'])}"),
        ("observations, actions", f"{counts['observation_dim']}, {counts['action_dim']}"),
        ("episodes", f"{counts['episodes']:,}: {_ends(ends)}"),
        ("return", _range(ends["return"])),
        ("length", _range(ends["length"])),
        (
            "reward",
            f"{got['low']:.4g} to {got['high']:.4g}, mean {got['mean']:.4g}, {got['zeros']:.1%} zero",
        ),
        ("actions at a bound", f"{facts['actions']['saturation']:.1%}"),
        ("repeated transitions", f"{facts['duplicates']['transitions']:,}"),
        ("coverage", _reach(facts["coverage"])),
        ("sha256", facts["sha256"]),
    ]
    if few:
        listed = ", ".join(f"{value:g} ({share:.1%})" for value, share in few)
        rows.insert(7, ("distinct rewards", listed))
    if facts["errands"]:
        ended, well = facts["errands"]["ended"], facts["errands"]["successful"]
        rows.append(("errands of the oracle", f"{well:,} of {ended:,} ended in success"))
    return rows + [("worth knowing", sentence) for sentence in facts["remarks"]]


def episodes(dataset: Dataset) -> dict[str, Any]:
    """Lengths, returns and ends of the episodes."""
    last = _last_rows(dataset)
    lengths = np.diff(last, prepend=-1)
    returns = dataset.episode_returns
    terminal = np.asarray(dataset.masks[last]) == 0
    varied = len(lengths) >= FEW and min(lengths.std(), returns.std()) > 0
    return {
        "length": {**spread(lengths), "histogram": whole_histogram(lengths)},
        "return": {**spread(returns), "histogram": histogram(returns)},
        "length_return_correlation": float(np.corrcoef(lengths, returns)[0, 1]) if varied else None,
        "terminated": int(terminal.sum()),
        "timed_out": int((~terminal).sum()),
        "masked_inside": zeros(dataset.masks) - int(terminal.sum()),
    }


def rewards(values: npt.NDArray[Any]) -> dict[str, Any]:
    """Range, histogram, zeros and, where they are few, all distinct rewards with their shares."""
    stats = column_statistics("rewards", values)
    low, high = widened(float(stats.low[0]), float(stats.high[0]))
    counts = histograms(values, np.array([low]), np.array([high]), BINS)[0]
    return {
        **{name: of[0] for name, of in stats.tell().items()},
        "zeros": zeros(values) / len(values),
        "farthest": _farthest(stats),
        "values": few_values(values),
        "histogram": {
            "counts": counts.tolist(),
            "edges": np.linspace(low, high, BINS + 1).tolist(),
        },
    }


def actions(dataset: Dataset) -> dict[str, Any]:
    """Ranges and histograms of each action dimension, and how often it is at a bound."""
    low, high = dataset.action_low.astype(np.float64), dataset.action_high.astype(np.float64)
    share = at_bounds(dataset.actions, low, high, SLACK)
    return {
        **column_statistics("actions", dataset.actions).tell(),
        "bound_low": low.tolist(),
        "bound_high": high.tolist(),
        "at_bound": share.tolist(),
        "saturation": float(share.mean()),
        "histograms": histograms(dataset.actions, low, high, BINS).tolist(),
    }


def duplicates(dataset: Dataset) -> dict[str, int]:
    """Rows that are exact copies of earlier ones: whole transitions, and observations alone."""
    whole = (
        dataset.observations,
        dataset.actions,
        dataset.rewards,
        dataset.next_observations,
        dataset.masks,
    )
    return {"transitions": repeats(whole), "observations": repeats([dataset.observations])}


def consistency(dataset: Dataset) -> dict[str, Any]:
    """Whether, inside an episode, the next observation of a row is the observation of the next row."""
    compared, equal, worst = 0, 0, 0.0
    pairs = {
        "ends": dataset.episode_ends[:-1],
        "promised": dataset.next_observations[:-1],
        "found": dataset.observations[1:],
    }
    for chunk in chunks(pairs):
        inside = ~chunk["ends"]
        away = np.abs(chunk["found"].astype(np.float64) - chunk["promised"])[inside].max(
            1, initial=0.0
        )
        compared, equal = compared + len(away), equal + int((away == 0).sum())
        worst = max(worst, float(away.max(initial=0.0)))
    return {
        "compared": compared,
        "equal": equal / compared if compared else None,
        "max_deviation": worst,
    }


def remarks(facts: dict[str, Any]) -> Iterator[str]:
    """What the numbers show that a user should hear."""
    counts, ends, got, acts = (facts[name] for name in ("counts", "episodes", "rewards", "actions"))
    copies, joined = facts["duplicates"]["transitions"], facts["consistency"]
    if copies:
        yield f"{copies / counts['transitions']:.2%} of the transitions are exact copies of earlier ones."
    if joined["equal"] is not None and joined["equal"] < 1:
        yield (
            f"In {1 - joined['equal']:.2%} of the rows inside episodes the next observation is not the "
            f"next row's observation (off by up to {joined['max_deviation']:.3g})."
        )
    if ends["masked_inside"]:
        yield (
            f"{ends['masked_inside']:,} rows inside episodes are terminal (mask 0): the log went on after "
            "success or failure, as OGBench's does."
        )
    if got["farthest"] > 100:
        yield f"A reward lies {got['farthest']:.0f} standard deviations from the mean reward."
    unused = [str(k) for k, std in enumerate(acts["std"]) if std == 0]
    if unused:
        yield f"Actions that never change: {', '.join(unused)}."
    pushed = [str(k) for k, share in enumerate(acts["at_bound"]) if share > 0.5]
    if pushed:
        yield f"Actions at a bound in more than half of the rows: {', '.join(pushed)}."
    if hint := masses_hint(facts["source"]):
        yield hint


def spread(values: npt.NDArray[Any]) -> dict[str, float]:
    """Extremes, quartiles, mean and standard deviation."""
    low, q25, median, q75, high = np.quantile(values, (0, 0.25, 0.5, 0.75, 1)).tolist()
    mean, std = float(np.mean(values)), float(np.std(values))
    return {
        "min": low,
        "q25": q25,
        "median": median,
        "q75": q75,
        "max": high,
        "mean": mean,
        "std": std,
    }


def histogram(values: npt.NDArray[Any]) -> dict[str, list[float]]:
    """Equal bins from the smallest to the largest value, more of them where there are more values."""
    bins = int(np.clip(2 * np.sqrt(len(values)), 5, BINS))
    counts, edges = np.histogram(values, bins, widened(float(values.min()), float(values.max())))
    return {"counts": counts.tolist(), "edges": edges.tolist()}


def whole_histogram(values: npt.NDArray[np.int64]) -> dict[str, list[float]]:
    """Bins that hold the same number of whole numbers each, so that none is favored."""
    low, high = int(values.min()), int(values.max())
    if high - low < 4:  # a bar or two need some room beside them
        low, high = max(low - 2, 0), high + 2
    step = -(-(high - low + 1) // BINS)
    edges = np.arange(low, high + step + 1, step) - 0.5
    return {"counts": np.histogram(values, edges)[0].tolist(), "edges": edges.tolist()}


def few_values(values: npt.NDArray[Any]) -> list[tuple[float, float]] | None:
    """Each distinct value with its share, or None where there are more than a few."""
    counts: dict[float, int] = {}
    for part in parts(values):
        found, many = np.unique(part + 0, return_counts=True)
        if len(counts.keys() | set(found[: FEW + 1].tolist())) > FEW:
            return None
        for value, count in zip(found.tolist(), many.tolist(), strict=True):
            counts[value] = counts.get(value, 0) + count
    return [(value, counts[value] / len(values)) for value in sorted(counts)]


def _counts(dataset: Dataset) -> dict[str, int]:
    arrays = (
        dataset.observations, dataset.actions, dataset.rewards, dataset.next_observations, dataset.masks,
        dataset.episode_ends, *dataset.infos.values(),
    )  # fmt: skip
    return {
        "transitions": len(dataset),
        "episodes": len(_last_rows(dataset)),
        "observation_dim": dataset.observation_dim,
        "action_dim": dataset.action_dim,
        "bytes": sum(int(array.nbytes) for array in arrays),
    }


def _last_rows(dataset: Dataset) -> npt.NDArray[np.int64]:
    """The last row of every episode; the last of all ends one even if nothing marks it."""
    marked = np.flatnonzero(dataset.episode_ends[:-1])
    return np.append(marked, len(dataset) - 1)


def _farthest(stats: ColumnStatistics) -> float:
    away = max(float(stats.high[0] - stats.mean[0]), float(stats.mean[0] - stats.low[0]))
    return away / float(stats.std[0]) if stats.std[0] > 0 else 0.0


def _range(of: dict[str, float]) -> str:
    return f"mean {of['mean']:,.4g} ± {of['std']:,.4g}, {of['min']:,.4g} to {of['max']:,.4g}"


def _ends(ends: dict[str, Any]) -> str:
    inside = (
        f", and {ends['masked_inside']:,} terminal rows inside" if ends["masked_inside"] else ""
    )
    return f"{ends['terminated']:,} terminated, {ends['timed_out']:,} timed out{inside}"


def _reach(reached: dict[str, Any]) -> str:
    dimension = f"effective dimension {reached['effective_dimension']:.1f} of {reached['varying']}"
    return f"{dimension}, {reached['cells']:,} cells of one standard deviation"


def _size(count: float) -> str:
    for unit in ("B", "KB", "MB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} GB"
