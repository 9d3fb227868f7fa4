"""What an offline evaluation found: offline.json, and plain words about its numbers."""

import dataclasses
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

import msgspec

from bfq.files import write_json
from bfq.records import decode, read_text
from bfq.reports.statistics import ABSENT, decimal_places, number_text

FILE = "offline.json"
FEW = 10.0  # effective episodes below which importance weights are not to be trusted
FAR = 0.25  # share of states outside the support from which on values are extrapolated
HEADINGS = ("policy", "fitted Q", "model", "doubly robust", "episode", "outside", "verdict")
Number = float | None


@dataclasses.dataclass(frozen=True)
class OfflineEstimate:
    """A number with its 95% bootstrap interval; None where it is not finite."""

    value: Number
    low: Number
    high: Number


@dataclasses.dataclass(frozen=True)
class Judgment:
    """What the log says about one policy; values are discounted returns in the units of the log."""

    name: str
    values: dict[str, OfflineEstimate]  # by estimator: fqe, model, is, wis, dr
    gains: dict[str, OfflineEstimate]  # value minus the return that the log got from the same start
    bound: Number  # the log's value plus the lowest end of the gains
    verdict: Literal["better", "worse", "unclear", "diverged"]
    episode_return: OfflineEstimate  # undiscounted, in the model
    effective_episodes: Number
    action_distance: Number  # to the logged action, root mean square, in half action ranges
    outside_support: Number  # share of held-out states


@dataclasses.dataclass(frozen=True)
class LogRecord:
    """The log itself, on its held-out episodes."""

    name: str
    source: str
    sha256: str
    transitions: int
    episodes: int
    held_out: int  # episodes
    trained_on_held_out: bool  # whether a judged run saw these episodes in training
    value: OfflineEstimate  # discounted
    episode_return: OfflineEstimate  # undiscounted


@dataclasses.dataclass(frozen=True)
class Calibration:
    """Predictions against the returns that followed in the log."""

    correlation: float
    slope: float  # of the returns over the predictions; 1 is right
    bias: float  # mean prediction − mean return
    spread: float  # standard deviation of the returns
    predicted: list[float]  # means of tenths of the rows, by prediction
    observed: list[float]


@dataclasses.dataclass(frozen=True, kw_only=True)
class OfflineRecord:
    """An offline evaluation."""

    policies: list[Judgment]
    log: LogRecord
    discount: float
    steps: int  # of an episode in the model
    density: str
    fitted_q: Calibration  # of the critic of the log's own policy
    model: Calibration  # of replayed actions
    settings: dict[str, float]
    versions: dict[str, str]
    device: str
    seconds: float

    @property
    def notes(self) -> list[str]:
        """How far to trust the numbers, in words."""
        return [*_about_log(self), *_about_estimators(self), *_about_policies(self)]

    def __str__(self) -> str:
        rows = [HEADINGS, *table_rows(self)]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
        return "\n".join([*lines, "", *self.notes])


def write_offline(folder: Path, record: OfflineRecord) -> None:
    """Write offline.json."""
    write_json(folder / FILE, msgspec.to_builtins(record))


def read_offline(folder: Path) -> OfflineRecord:
    """Read offline.json."""
    return decode(read_text(folder / FILE), OfflineRecord, str(folder / FILE))


def finite(number: float) -> Number:
    """A number for JSON."""
    return float(number) if math.isfinite(number) else None


def estimate(found: Iterable[float]) -> OfflineEstimate:
    """An estimate from (value, low, high)."""
    return OfflineEstimate(*map(finite, found))


def _words(found: OfflineEstimate, ends: bool = True) -> str:
    """`−104 [−120, −90]`."""
    if found.value is None or found.low is None or found.high is None:
        return ABSENT
    numbers, digits = (found.value, found.low, found.high), decimal_places(found.value)
    value, low, high = (number_text(one, digits) for one in numbers)
    return f"{value} [{low}, {high}]" if ends else value


def table_rows(record: OfflineRecord) -> list[tuple[str, ...]]:
    """A row for the log, and one for each policy."""
    value, received = _words(record.log.value), _words(record.log.episode_return, False)
    first = ("the log itself", value, value, "", received, "", "")
    return [first, *(_row(policy) for policy in record.policies)]


def _row(policy: Judgment) -> tuple[str, ...]:
    values = [_words(policy.values[name], name != "dr") for name in ("fqe", "model", "dr")]
    far = ABSENT if policy.outside_support is None else f"{policy.outside_support:.0%}"
    return (policy.name, *values, _words(policy.episode_return, False), far, policy.verdict)


def _about_log(record: OfflineRecord) -> list[str]:
    log = record.log
    seen = (
        "A judged run was trained on them as well, so it may look better here than it is: give "
        "episodes that training has not seen as data."
        if log.trained_on_held_out
        else "No judged run was trained on this log."
    )
    return [
        f"Values are discounted returns (γ = {record.discount:g}) from the start of an episode, in the units "
        "of the log, with 95% intervals. An episode that only timed out is taken to go on.",
        f"They are of {log.held_out:,} held-out episodes of {log.episodes:,}. {seen}",
    ]


def _about_estimators(record: OfflineRecord) -> list[str]:
    checks = {
        "Fitted Q, valuing the log's own actions": record.fitted_q,
        "The model, replaying the log's own actions": record.model,
    }
    return [f"{words}, {_grade(found)}" for words, found in checks.items()]


def _grade(found: Calibration) -> str:
    off = abs(found.bias) / max(found.spread, 1e-300)
    grade = "poor, do not rely on it"
    if found.correlation > 0.5 and off < 0.75:
        grade = "good" if found.correlation > 0.8 and off < 0.25 else "fair"
    bias = number_text(found.bias, decimal_places(found.bias))
    return (
        f"is off by {bias} on average and has correlation {found.correlation:.2f} with the returns that "
        f"followed: {grade}."
    )


def _about_policies(record: OfflineRecord) -> list[str]:
    lines, found = [], record.policies
    far = sum((policy.outside_support or 0.0) > FAR for policy in found)
    if far:
        lines.append(
            f"{far} of {len(found)} act outside the log in more than {FAR:.0%} of states: farther from the "
            "actions logged in similar states than 95% of logged actions are. Values there are guesses."
        )
    thin = sum((policy.effective_episodes or 0.0) < FEW for policy in found)
    if thin:
        lines.append(
            f"Importance weights ({record.density}) rest on fewer than {FEW:.0f} episodes for {thin} of "
            f"{len(found)}: do not use doubly robust numbers there."
        )
    lines.append(
        "Better: fitted Q and the model both put the gain over the log above 0, with their whole intervals; "
        "worse: both below; else unclear. Whatever the verdict, try a policy in small steps."
    )
    return lines
