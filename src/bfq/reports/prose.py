"""A run in words: how it was evaluated, what it learned from, with which settings."""

from collections.abc import Iterable, Iterator
from typing import Any

from bfq.errors import counted
from bfq.reports.runs import Run
from bfq.reports.statistics import Estimate, Summary, wilson

CHOICES = {
    "argmax": "the one the critics value most",
    "softmax": "one drawn by a softmax of their values",
}
POLICIES = {"ema": "the moving average of the policy", "online": "the policy itself"}
OBSERVATIONS = {
    "none": "as they are",
    "standardize": "standardized",
    "standardize_padded": "standardized, with 0.001 added to the deviation",
}
REWARDS = {  # why they are changed, where the numbers do not say it
    "return_range": "so that returns of the data span 1,000",
    "standardize": "standardized",
    "min_max": "so that those of the data span −1 to 1",
}
USUAL = {"policy": "ema", "temperature": 1}  # what needs no word
ABSENT = "–"
SUCCESS = "success in %"
UNITS = {"normalized": "normalized score", "return": "return"}


def in_words(unit: str, runs: Iterable[Run]) -> str:
    """What a score is: where all runs count successes, a normalized one is their share."""
    counted = unit == "normalized" and all(run.counts_successes for run in runs)
    return SUCCESS if counted else UNITS[unit]


def mean_text(summary: Summary | None, unit: str) -> str:
    """Mean ± std; one seed has no std to tell."""
    if summary is None:
        return ABSENT
    digits = decimals(summary.mean, unit)
    mean = number_text(summary.mean, digits)
    return mean if summary.interval is None else f"{mean} ± {number_text(summary.std, digits)}"


def interval_text(summary: Summary | None, unit: str) -> str:
    """The interval with the digits of its mean."""
    if summary is None or summary.interval is None:
        return ABSENT
    low, high = (number_text(end, decimals(summary.mean, unit)) for end in summary.interval)
    return f"[{low}, {high}]"


def estimate_text(estimate: Estimate, digits: int = 1) -> str:
    """A number over tasks, with its interval where there is one."""
    value, interval = estimate
    ends = [number_text(end, digits) for end in interval or ()]
    return number_text(value, digits) + (f" [{', '.join(ends)}]" if ends else "")


def decimals(size: float, unit: str = "return") -> int:
    """Digits after the point: one for a normalized score, as is the custom, else what the size deserves."""
    if unit == "normalized":
        return 1
    return next(
        (digits for digits, least in ((0, 10_000), (1, 10), (2, 1)) if abs(size) >= least), 3
    )


def number_text(value: float, digits: int) -> str:
    """A number with thousands set apart and a true minus."""
    text = f"{value:,.{digits}f}".replace("-", "−")
    return text if any(c in "123456789" for c in text) else text.removeprefix("−")


def ranged(counts: Iterable[int], noun: str) -> str:
    """One number of things, or from the least to the most of them."""
    least, *_, most = sorted((*counts,) * 2)
    number = f"{most:,}" if least == most else f"{least:,} to {most:,}"
    return f"{number} {noun}{'' if most == 1 else 's'}"


def about(run: Run) -> str:
    """The size and the cost of a run."""
    seeds = len(run.groups[0].places)
    settings = (
        f"{len(run.groups)} settings of {counted(seeds, 'seed')}" if len(run.groups) > 1 else ""
    )
    return (
        f"{settings or counted(seeds, 'seed')}, {counted(run.steps, 'update')} each, trained together in "
        f"{number_text(run.train_seconds, 1)} s ({number_text(run.microseconds_per_step, 1)} µs an update)."
    )


def protocol(run: Run) -> str:
    """The evaluation protocol, in sentences."""
    return " ".join((evaluated(run), *([scale(run)] if run.scores else []), *_successes(run)))


def _successes(run: Run) -> Iterator[str]:
    """Successes as what they are, of each group: an interval over few seeds says little of a rate."""
    episodes = run.protocol["episodes"]
    for group in run.groups if run.counts_successes and episodes > 0 else ():
        shares = [min(max(share / 100, 0.0), 1.0) for share in run.scored("normalized", group)]
        if shares:
            reached, n = sum(round(share * episodes) for share in shares), episodes * len(shares)
            low, high = (number_text(100 * end, 1) for end in wilson(reached, n))
            whose = f"With {group.label}, " if group.label else ""
            told = f"{whose}{reached:,} of {counted(n, 'episode')} succeeded"
            yield f"{told} (Wilson's 95% interval: {low} to {high}%)."


def evaluated(run: Run) -> str:
    """How episodes were run and actions chosen, in sentences; what a score is of depends on the task."""
    if not run.scores:
        return "This task has no simulator here, so nothing was evaluated."
    told = run.protocol
    first, episodes = told["seed"], told["episodes"]
    ran = f"{counted(episodes, 'episode')}{_world(run)}"
    return " ".join(
        (
            f"Each seed ran {ran} with the {told['checkpoint']} checkpoint.",
            f"Episodes began from simulator seeds {first} to {first + episodes - 1}, the same for all seeds.",
            f"Actions came from {_source(run)}; {_choice(run)}.",
            *_sampling(told),
        )
    )


def _world(run: Run) -> str:
    """Where, and for how long at most, as far as the run tells it."""
    limit = f" of up to {counted(run.episode_steps, 'step')}" if run.episode_steps else ""
    return limit + (f" in {run.simulator}" if run.simulator else "")


def acting(run: Run) -> str:
    """How actions were chosen, in few words; what is not said is as usual."""
    told = {**run.protocol, **{name: USUAL[name] for name in run.ignores if name in USUAL}}
    words = [counted(told["candidates"], "candidate")]
    if told["candidates"] > 1 and told["selection"] != "argmax":
        weight = (
            f" of weight {plain(told['softmax_weight'])}" if told["selection"] == "softmax" else ""
        )
        words.append(f"{told['selection']}{weight}")
    words += [f"noise × {told['temperature']:g}"] if told["temperature"] != 1 else []
    words += [f"{told['policy']} policy"] if told["policy"] != "ema" else []
    words += [counted(told["sampling_steps"], "network call")] if told.get("sampling_steps") else []
    words += [f"{told['sampler']} sampler"] if told.get("sampler", "trained") != "trained" else []
    return ", ".join(words)


def data(run: Run) -> dict[str, str]:
    """Where the data come from and how they were changed."""
    told = run.data
    mean, std = told["return_mean"], told["return_std"]
    episodes = "" if told["episodes"] is None else f", {counted(told['episodes'], 'episode')}"
    spread = "" if std is None else f" ± {quantity(std)} over episodes"
    return {
        "name": told["name"],
        "source": told["source"],
        "SHA-256": told["sha256"] or ABSENT,
        "size": f"{counted(told['transitions'], 'transition')}{episodes}",
        "return": ABSENT
        if mean is None
        else f"{quantity(mean)}{spread}, at most {quantity(told['return_max'])}",
        **{f"{name} for learning": transform(value) for name, value in run.transforms.items()},
    }


def transform(told: Any) -> str:
    """How observations or rewards were changed before learning, in words."""
    if not isinstance(told, dict):
        return OBSERVATIONS.get(told, plain(told)) if isinstance(told, str) else plain(told)
    name, factor, shift = (told.get(key) for key in ("name", "scale", "shift"))
    if not isinstance(factor, int | float) or not isinstance(shift, int | float):
        return plain(told)
    times = f"{plain(factor)} × r" if factor != 1 else "r"
    plus = f" {'−' if shift < 0 else '+'} {plain(abs(shift))}" if shift else ""
    why = f", {REWARDS[name]}" if isinstance(name, str) and name in REWARDS else ""
    return f"r ← {times}{plus}{why}" if factor != 1 or shift else "as it is"


def hyperparameters(run: Run) -> dict[str, str]:
    """Each hyperparameter, with all its values where the groups differ in it."""
    told = {name: plain(value) for name, value in run.config.items()}
    for name in dict.fromkeys(name for group in run.groups for name in group.overrides):
        values = dict.fromkeys(
            plain(group.overrides.get(name, run.config.get(name))) for group in run.groups
        )
        told[name] = ", ".join(values)
    return told


def quantity(value: float | None) -> str:
    """A number with the digits it deserves."""
    return ABSENT if value is None else number_text(value, decimals(value))


def plain(value: Any) -> str:
    """A value from JSON as one would write it, with a true minus."""
    if isinstance(value, dict):
        return ", ".join(f"{name} {plain(inner)}" for name, inner in value.items())
    if isinstance(value, float):
        return f"{value:.6g}".replace("-", "−")
    if isinstance(value, int):
        return str(value).replace("-", "−")
    return ABSENT if value is None else str(value)


def _source(run: Run) -> str:
    told = run.protocol
    policy = "online" if "policy" in run.ignores else told["policy"]
    noise = (
        "without noise"
        if "temperature" in run.ignores
        else f"with noise at temperature {told['temperature']:g}"
    )
    return f"{POLICIES.get(policy, policy)}, {noise}"


def _choice(run: Run) -> str:
    told = run.protocol
    if "temperature" in run.ignores:
        return "it gives one for a state"
    if told["candidates"] == 1:
        return "one action was drawn and taken"
    words = CHOICES.get(told["selection"], told["selection"])
    weight = f" (weight {plain(told['softmax_weight'])})" if told["selection"] == "softmax" else ""
    return f"of {told['candidates']} candidates, {words}{weight} was taken"


def _sampling(told: dict[str, Any]) -> list[str]:
    """How an action was sampled, where that differs from training; runs of old do not say."""
    steps, sampler = told.get("sampling_steps", 0), told.get("sampler", "trained")
    words = [f"in {counted(steps, 'network call')}"] if steps else []
    words += [f"by the sampler {sampler}"] if sampler != "trained" else []
    return (
        [f"An action was made {' and '.join(words)}, otherwise than in training."] if words else []
    )


def scale(run: Run) -> str:
    """What the scores of a task are."""
    if run.reference is None:
        return "There is no reference score for this task, so returns are not normalized."
    if run.counts_successes:
        return "The score is the share of episodes that succeed, in %."
    low, high, source = (run.reference.get(name) for name in ("low", "high", "source"))
    return f"A normalized score of 0 is a return of {plain(low)}, 100 is {plain(high)} ({plain(source)})."
