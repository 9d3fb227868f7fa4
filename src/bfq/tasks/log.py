"""What a simulator run leaves behind: rows in the order they happened."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Log:
    """Whole episodes, one after the other; every column has one row a step."""

    observations: Floats
    actions: Floats
    rewards: Floats
    next_observations: Floats
    terminals: Flags  # the world ended the episode: nothing follows
    timeouts: Flags  # the episode was merely cut off
    infos: dict[str, npt.NDArray[np.float64]] = field(
        default_factory=dict
    )  # qpos, qvel, … before the action
    masks: Floats | None = (
        None  # where they are not 1 − terminals: a goal may be passed without stopping
    )

    def __len__(self) -> int:
        return len(self.rewards)

    def head(self, size: int) -> "Log":
        """The first rows; an episode that is cut by this ends in a time-out."""
        if size >= len(self):
            return self
        timeouts = self.timeouts[:size].copy()
        timeouts[-1] |= ~self.terminals[size - 1]
        return Log(
            self.observations[:size],
            self.actions[:size],
            self.rewards[:size],
            self.next_observations[:size],
            self.terminals[:size],
            timeouts,
            {name: column[:size] for name, column in self.infos.items()},
            None if self.masks is None else self.masks[:size],
        )


# A block of episodes is a function of (seed, index) alone: any number of processes makes the same data.
Block = Callable[[int, int], Log]
