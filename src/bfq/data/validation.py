"""What can be wrong with logged arrays, each said in a sentence with the row and the remedy."""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from bfq.errors import BadInput

Columns = dict[str, npt.NDArray[np.generic]]
Checked = dict[str, npt.NDArray[np.float32]]
NEEDED = ("observations", "actions", "rewards")
MATRICES = ("observations", "actions", "next_observations")
FLAGS = ("terminals", "timeouts")
TOLERANCE = 1e-4  # of the action range: what rounding may add beyond a bound


def check_columns(columns: Columns, low: npt.NDArray[np.float32], high: npt.NDArray[np.float32]) -> Checked:
    """The columns as float32 arrays of the right shapes, or a sentence about the first defect."""
    for name in NEEDED:
        if name not in columns:
            raise BadInput(f"{name} are missing: a transition needs {', '.join(NEEDED)}.")
    checked = {name: _shaped(name, _numbers(name, column)) for name, column in columns.items()}
    _same_lengths(checked)
    for name, column in checked.items():
        _finite(name, column)
    for name in FLAGS:
        _flags(name, checked)
    if "next_observations" in checked:
        _same_widths(checked)
    elif not any(name in checked for name in FLAGS):
        raise BadInput(
            "no episode end is given: add terminals or timeouts (one flag a row), or next_observations, "
            "so that rows of different episodes are not joined."
        )
    _inside(checked["actions"], low, high)
    return {**checked, "actions": np.clip(checked["actions"], low, high)}


def _numbers(name: str, column: npt.NDArray[np.generic]) -> npt.NDArray[np.float32]:
    if column.dtype.kind not in "fiub":
        raise BadInput(
            f"{name} hold values of type {column.dtype}, not numbers: convert them to float32 first."
        )
    with np.errstate(over="ignore"):
        return column.astype(np.float32)


def _shaped(name: str, column: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    if name in MATRICES:
        if column.ndim == 1 and name == "actions":
            return column[:, None]
        if column.ndim != 2 or column.shape[1] == 0:
            raise BadInput(
                f"{name} have shape {column.shape}, but one row a transition is needed, (N, dimension): "
                "flatten each row first."
            )
        return column
    if column.ndim == 2 and column.shape[1] == 1:
        return column[:, 0]
    if column.ndim != 1:
        raise BadInput(f"{name} have shape {column.shape}, but one number a transition is needed, (N,).")
    return column


def _same_lengths(checked: Checked) -> None:
    lengths = {name: len(column) for name, column in checked.items()}
    if len(set(lengths.values())) > 1:
        told = ", ".join(f"{name} {length}" for name, length in lengths.items())
        raise BadInput(f"the columns differ in length ({told}): every transition needs one row in each.")
    if lengths["rewards"] == 0:
        raise BadInput("there is no transition in it: at least one row is needed.")


def _finite(name: str, column: npt.NDArray[np.float32]) -> None:
    bad = ~np.isfinite(column.reshape(len(column), -1)).all(1)
    if bad.any():
        row = int(bad.argmax())
        raise BadInput(
            f"{name} hold NaN or an infinite value in row {row} ({_rows(bad)} in all): "
            "remove or repair these transitions."
        )


def _flags(name: str, checked: Checked) -> None:
    if name in checked and not np.isin(checked[name], (0.0, 1.0)).all():
        row = int((~np.isin(checked[name], (0.0, 1.0))).argmax())
        raise BadInput(
            f"{name} must be 0 or 1, but row {row} holds {checked[name][row]:g}: make it 1 where an episode "
            "ends and 0 elsewhere."
        )


def _rows(which: npt.ArrayLike) -> str:
    count = int(np.sum(which))
    return f"{count} row{'s' if count > 1 else ''}"


def _same_widths(checked: Checked) -> None:
    now, then = checked["observations"].shape[1], checked["next_observations"].shape[1]
    if now != then:
        raise BadInput(f"observations have {now} numbers a row but next_observations have {then}.")


def _inside(
    actions: npt.NDArray[np.float32], low: npt.NDArray[np.float32], high: npt.NDArray[np.float32]
) -> None:
    slack = TOLERANCE * (high - low)
    outside = ((actions < low - slack) | (actions > high + slack)).any(1)
    if outside.any():
        row = int(outside.argmax())
        raise BadInput(
            f"actions leave their range in row {row} ({_rows(outside)} in all): they span "
            f"{actions.min():.4g} to {actions.max():.4g}, the range is {low.min():.4g} to {high.max():.4g}; "
            "give the true range as action_low and action_high, or clip them."
        )


def notes_on(checked: Checked, terminal: npt.NDArray[np.bool_], left_out: int) -> Iterator[str]:
    """What is allowed but deserves a word."""
    if left_out:
        yield (
            f"{left_out} of {len(terminal)} rows were left out: they end an episode by time-out, and the "
            "observation after them was not logged."
        )
    if not terminal.any() and not checked.get("timeouts", terminal).any():
        yield "No episode end is marked: all rows are taken as one episode that was cut off at its end."
    for name in ("observations", "actions"):
        constant = np.flatnonzero(np.ptp(checked[name], axis=0) == 0)
        if len(constant):
            yield f"Constant {name} columns, which carry no information: {', '.join(map(str, constant))}."
    if np.ptp(checked["rewards"]) == 0:
        yield f"All rewards are {checked['rewards'][0]:g}: only imitation can be learnt from them."
