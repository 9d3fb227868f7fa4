"""A check between chunks that stops a diverging run with its cause."""

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.floating]
Chunk = Mapping[str, Floats]
LARGEST = 1e4  # noise and actions in [−1, 1] keep squared errors to the order of one
FRESH = 1000  # updates in which a network may still be far off, where observations are large


class Diverged(Exception):
    """Training went wrong; the message says which quantity, which member, which update."""


class Health:
    """Watches the metrics of every update of every member.

    No return can leave [r_min, r_max] / (1 − γ), 0 included for episodes that end. A mean Q further outside
    than the width of that interval, and than 10, which fresh networks do not reach, has lost touch with the
    rewards. A squared error between displacements beyond `LARGEST` is a policy that has lost touch with the
    actions: it can stay finite, and so unnoticed, for the rest of a run.
    """

    def __init__(
        self,
        rewards: Sequence[float],
        discounts: Floats,
        members: list[str],
        errors: Sequence[str] = (),
    ):
        """`rewards`: the smallest and the largest, or all; `errors`: metrics bounded by LARGEST."""
        horizon = 1.0 / np.maximum(1.0 - discounts, 1e-6)
        low = min(*rewards, 0.0) * horizon
        high = max(*rewards, 0.0) * horizon
        self._bounds = np.stack([low, high])
        slack = np.maximum(high - low, 10.0)
        self._low, self._high = low - slack, high + slack
        self._members = members
        self._errors = errors

    def check(self, chunk: Chunk, start: int) -> None:
        """Raises Diverged for the first defect in the metrics, (updates, members) each."""
        finite = {name: np.isfinite(values) for name, values in chunk.items()}
        broken = {name: ok for name, ok in finite.items() if not ok.all()}
        if broken:
            first = min(broken, key=lambda name: int(np.argwhere(~broken[name])[0][0]))
            step, member = np.argwhere(~broken[first])[0]
            value = chunk[first][step, member]
            raise Diverged(
                f"{first} became {value} at update {start + step + 1} of member {self._members[member]}: "
                "lower the learning rate or eta, or look for extreme values in the data."
            )
        if "q" in chunk:
            self._check_q(chunk["q"], start)
        for name in self._errors:
            if name in chunk:
                self._check_error(name, chunk[name], start)

    def _check_error(self, name: str, error: Floats, start: int) -> None:
        learned = start + np.arange(len(error)) >= FRESH
        outside = (error > LARGEST) & learned[:, None]
        if outside.any():
            step, member = np.argwhere(outside)[0]
            raise Diverged(
                f"{name} reached {error[step, member]:.4g} at update {start + step + 1} of member "
                f"{self._members[member]}, a squared error between actions of size one: the policy diverges; "
                "lower the learning rate, or use clip_norm or composition_bound where the agent has them."
            )

    def _check_q(self, q: Floats, start: int) -> None:
        outside = (q < self._low) | (q > self._high)
        if outside.any():
            step, member = np.argwhere(outside)[0]
            bound = self._bounds[int(q[step, member] > self._high[member]), member]
            raise Diverged(
                f"the mean Q reached {q[step, member]:.4g} at update {start + step + 1} of member "
                f"{self._members[member]}, while the rewards allow no value beyond {bound:.4g}: the critics "
                "diverge; lower the learning rate or eta, or use critics with layer norm."
            )
