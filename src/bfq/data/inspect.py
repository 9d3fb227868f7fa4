"""A dataset in numbers: its content, how episodes end, what it covers, and what looks wrong."""

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from bfq.data.coverage import (
    at_bounds,
    column_statistics,
    count_repeats,
    count_zeros,
    coverage,
    histograms,
    parts,
    widened,
)
from bfq.data.dataset import Dataset, chunks

# See docs/data.md: D4RL's Hopper was lighter than today's.
FACT = (
    "D4RL's Hopper was lighter than today's: the policy that collected hopper-medium returns 12 % less with "
    "today's masses, 1253 and not 1430 (docs/data.md)"
)
ROLLED, PUBLISHED = "re-rolled in Hopper-v4 ", " in D4RL's layout"  # begins and ends sources


def masses_hint(source: str) -> str:
    """A hint about the masses of D4RL's Hopper; empty for data from other sources."""
    if not re.search("hopper[-_]medium", source.lower()):
        return ""
    if source.startswith(ROLLED):
        return f"{FACT}; `bfq data reroll FILE --old-masses` uses the old masses."
    return f"{FACT}." if source.endswith(PUBLISHED) else ""


PLAN_COLUMN = "subtask"  # of play data: 1 where a plan ends, 2 where it succeeds
BINS = 40  # of a histogram, at most
LABELED = ("observations", "actions")
FEW = 20  # distinct rewards that are listed, and the fewest episodes for a correlation
SLACK = 1e-3  # of the action range: values closer to a bound count as at the bound


def inspect(dataset: Dataset) -> dict[str, Any]:
    """All facts about a dataset, ready for JSON; no array is loaded as a whole."""
    seen = column_statistics("observations", dataset.observations)
    *whole, _ = dataset.columns.values()  # without episode_ends
    arrays = (*dataset.columns.values(), *dataset.infos.values())
    facts = {
        "name": dataset.name,
        "source": dataset.source,
        "sha256": dataset.sha256,
        "notes": list(dataset.notes),
        "counts": {
            "transitions": len(dataset),
            "episodes": len(dataset.last_rows),
            "observation_dim": dataset.observation_dim,
            "action_dim": dataset.action_dim,
            "bytes": sum(int(array.nbytes) for array in arrays),
        },
        "episodes": episodes(dataset),
        "rewards": rewards(dataset.rewards),
        "observations": seen.as_lists(),
        "actions": actions(dataset),
        "labels": label_texts(dataset),
        "duplicates": {
            "transitions": count_repeats(whole),
            "observations": count_repeats([dataset.observations]),
        },
        "coverage": coverage(dataset.observations, seen),
        "consistency": compare_next_observations(dataset),
    }
    return facts | {"plans": count_plans(dataset), "remarks": list(remarks(facts))}


def label_texts(dataset: Dataset) -> dict[str, list[str]]:
    """Names with units of the observations and of the actions, if they are known."""
    return {word: [str(one) for one in getattr(dataset.labels, word, ())] for word in LABELED}


def spell_labels(names: list[str], count: int) -> str:
    """How many there are, with their names if they are known."""
    return f"{count}: {', '.join(names)}" if names else str(count)


def count_plans(dataset: Dataset) -> dict[str, int] | None:
    """How many plans of a planner ended, and how many succeeded, if the log records it."""
    if PLAN_COLUMN not in dataset.infos:
        return None
    column = np.asarray(dataset.infos[PLAN_COLUMN])
    return {"ended": int((column > 0).sum()), "successful": int((column == 2).sum())}


def fact_rows(facts: dict[str, Any]) -> list[tuple[str, str]]:
    """The facts that are printed: labels and values."""
    counts, ends, got = facts["counts"], facts["episodes"], facts["rewards"]
    few, span = got["values"], f"{got['low']:.4g} to {got['high']:.4g}"
    kinds = f"{ends['terminated']:,} terminated, {ends['timed_out']:,} timed out"
    if ends["masked_inside"]:
        kinds += f", and {ends['masked_inside']:,} terminal rows inside"
    seen = facts["coverage"]
    dimension = f"effective dimension {seen['effective_dimension']:.1f} of {seen['varying']}"
    rows = [
        ("source", facts["source"]),
        ("size", f"{counts['transitions']:,} transitions, {_size(counts['bytes'])}"),
        *(
            (word, spell_labels(facts["labels"][word], counts[f"{word[:-1]}_dim"]))
            for word in LABELED
        ),
        ("episodes", f"{counts['episodes']:,}: {kinds}"),
        ("return", _range(ends["return"])),
        ("length", _range(ends["length"])),
        ("reward", f"{span}, mean {got['mean']:.4g}, {got['zeros']:.1%} zero"),
        ("actions at a bound", f"{facts['actions']['saturation']:.1%}"),
        ("repeated transitions", f"{facts['duplicates']['transitions']:,}"),
        ("coverage", f"{dimension}, {seen['cells']:,} cells of one standard deviation"),
        ("sha256", facts["sha256"]),
    ]
    if few:
        listed = ", ".join(f"{value:g} ({share:.1%})" for value, share in few)
        rows.insert(7, ("distinct rewards", listed))
    if facts["plans"]:
        ended, successful = facts["plans"]["ended"], facts["plans"]["successful"]
        rows.append(("plans", f"{successful:,} of {ended:,} succeeded"))
    return rows + [("note", sentence) for sentence in facts["remarks"]]


def episodes(dataset: Dataset) -> dict[str, Any]:
    """Lengths, returns and ends of the episodes."""
    last = dataset.last_rows
    lengths = np.diff(last, prepend=-1)
    returns = dataset.episode_returns
    terminal = np.asarray(dataset.masks[last]) == 0
    varied = len(lengths) >= FEW and min(lengths.std(), returns.std()) > 0
    return {
        "length": {**quantiles(lengths), "histogram": whole_histogram(lengths)},
        "return": {**quantiles(returns), "histogram": histogram(returns)},
        "length_return_correlation": float(np.corrcoef(lengths, returns)[0, 1]) if varied else None,
        "terminated": int(terminal.sum()),
        "timed_out": int((~terminal).sum()),
        "masked_inside": count_zeros(dataset.masks) - int(terminal.sum()),
    }


def rewards(values: npt.NDArray[Any]) -> dict[str, Any]:
    """Range, histogram, zeros and, if there are few, all distinct rewards with their shares."""
    stats = column_statistics("rewards", values)
    low, high = widened(float(stats.low[0]), float(stats.high[0]))
    counts = histograms(values, np.array([low]), np.array([high]), BINS)[0].tolist()
    distance = max(stats.high[0] - stats.mean[0], stats.mean[0] - stats.low[0])
    return {
        **{name: of[0] for name, of in stats.as_lists().items()},
        "zeros": count_zeros(values) / len(values),
        "farthest": float(distance / stats.std[0]) if stats.std[0] > 0 else 0.0,
        "values": few_values(values),
        "histogram": {"counts": counts, "edges": np.linspace(low, high, BINS + 1).tolist()},
    }


def actions(dataset: Dataset) -> dict[str, Any]:
    """Ranges and histograms of each action dimension, and how often it is at a bound."""
    low, high = dataset.action_low.astype(np.float64), dataset.action_high.astype(np.float64)
    share = at_bounds(dataset.actions, low, high, SLACK)
    return {
        **column_statistics("actions", dataset.actions).as_lists(),
        "bound_low": low.tolist(),
        "bound_high": high.tolist(),
        "at_bound": share.tolist(),
        "saturation": float(share.mean()),
        "histograms": histograms(dataset.actions, low, high, BINS).tolist(),
    }


def compare_next_observations(dataset: Dataset) -> dict[str, Any]:
    """How often, inside episodes, the next observation of a row is the observation of the next row."""
    compared, equal, worst = 0, 0, 0.0
    pairs = {
        "ends": dataset.episode_ends[:-1],
        "expected": dataset.next_observations[:-1],
        "found": dataset.observations[1:],
    }
    for chunk in chunks(pairs):
        difference = np.abs(chunk["found"].astype(np.float64) - chunk["expected"])
        error = difference[~chunk["ends"]].max(1, initial=0.0)
        compared, equal = compared + len(error), equal + int((error == 0).sum())
        worst = max(worst, float(error.max(initial=0.0)))
    share = equal / compared if compared else None
    return {"compared": compared, "equal": share, "max_deviation": worst}


def remarks(facts: dict[str, Any]) -> Iterator[str]:
    """What the numbers show that a user should know."""
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
            f"{ends['masked_inside']:,} rows inside episodes are terminal (mask 0): the log continued after "
            "success or failure, as in OGBench."
        )
    if got["farthest"] > 100:
        yield f"A reward lies {got['farthest']:.0f} standard deviations from the mean reward."
    names = facts["labels"]["actions"] or [str(k) for k in range(counts["action_dim"])]
    unused = [name for name, std in zip(names, acts["std"], strict=True) if std == 0]
    if unused:
        yield f"Actions that never change: {', '.join(unused)}."
    pushed = [name for name, share in zip(names, acts["at_bound"], strict=True) if share > 0.5]
    if pushed:
        yield f"Actions at a bound in more than half of the rows: {', '.join(pushed)}."
    if hint := masses_hint(facts["source"]):
        yield hint


def quantiles(values: npt.NDArray[Any]) -> dict[str, float]:
    """Extremes, quartiles, mean and standard deviation."""
    found = np.quantile(values, (0, 0.25, 0.5, 0.75, 1)).tolist()
    named = dict(zip(("min", "q25", "median", "q75", "max"), found, strict=True))
    return named | {"mean": float(np.mean(values)), "std": float(np.std(values))}


def histogram(values: npt.NDArray[Any]) -> dict[str, list[float]]:
    """Equal bins from the smallest to the largest value, more for more values."""
    bins = int(np.clip(2 * np.sqrt(len(values)), 5, BINS))
    counts, edges = np.histogram(values, bins, widened(float(values.min()), float(values.max())))
    return {"counts": counts.tolist(), "edges": edges.tolist()}


def whole_histogram(values: npt.NDArray[np.int64]) -> dict[str, list[float]]:
    """Bins that each cover the same number of integers, so that none is favored."""
    low, high = int(values.min()), int(values.max())
    if high - low < 4:  # leave space beside one or two bars
        low, high = max(low - 2, 0), high + 2
    step = -(-(high - low + 1) // BINS)
    edges = np.arange(low, high + step + 1, step) - 0.5
    return {"counts": np.histogram(values, edges)[0].tolist(), "edges": edges.tolist()}


def few_values(values: npt.NDArray[Any]) -> list[tuple[float, float]] | None:
    """Each distinct value with its share, or None if there are more than a few."""
    counts: dict[float, int] = {}
    for part in parts(values):
        found, many = np.unique(part + 0, return_counts=True)
        if len(counts.keys() | set(found[: FEW + 1].tolist())) > FEW:
            return None
        for value, count in zip(found.tolist(), many.tolist(), strict=True):
            counts[value] = counts.get(value, 0) + count
    return [(value, counts[value] / len(values)) for value in sorted(counts)]


def _range(of: dict[str, float]) -> str:
    return f"mean {of['mean']:,.4g} ± {of['std']:,.4g}, {of['min']:,.4g} to {of['max']:,.4g}"


def _size(count: float) -> str:
    for unit in ("B", "KB", "MB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} GB"
