"""StepColumns: steps in columns, each with a link to the next one of its episode."""

from __future__ import annotations

from typing import Any

import numpy as np

from skate.rllib.core.columns import Columns

DONE = (Columns.TERMINATEDS, Columns.TRUNCATEDS)
#: The column of infos after the steps, beside that of infos before them.
NEXT_INFOS = "next_infos"
_OF_THE_LAST = (Columns.NEXT_OBS, *DONE, NEXT_INFOS)


class StepColumns:
    """Steps at places; subclasses say which place a step gets.

    Args:
        places: Number of places.
    """

    def __init__(self, places: int) -> None:
        self.size = 0
        self.columns: dict[str, np.ndarray] = {}
        self._next = np.full(places, -1, np.int64)

    def after(self, place: int) -> int:
        """Return the place of the step that follows; -1 if there is none."""
        return int(self._next[place])

    def reach(self, places: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        """Return how many steps the windows have that begin at places, up to their greatest lengths."""
        last, count = places.copy(), np.ones(len(places), np.int64)
        for step in range(1, int(lengths.max(initial=1))):
            after = self._next[last]
            going = (after >= 0) & (lengths > step) & (count == step)
            last = np.where(going, after, last)
            count = count + going
        return count

    def windows(self, places: np.ndarray, lengths: np.ndarray, gamma: float) -> dict[str, np.ndarray]:
        """Return steps with the discounted rewards and the last observation of the steps that follow them.

        Args:
            places: Where the windows begin.
            lengths: The most steps in each window; it ends earlier with its episode, or with the newest step.
            gamma: Discount per step.

        Returns:
            The columns of the first steps; of the last ones the next observation and the end of the episode. A column
            ``"n_step"`` has the lengths.
        """
        rows = {name: column.take(places, 0) for name, column in self.columns.items()}
        held = self.columns[Columns.REWARDS]
        rewards = rows[Columns.REWARDS]
        if rewards.dtype.kind != "f":
            rewards = rewards.astype(np.float32)
        longest = int(lengths.max(initial=1))
        if longest == 1:
            rows[Columns.REWARDS], rows["n_step"] = rewards, np.ones(len(places), np.float32)
            return rows
        last, count = places.copy(), np.ones(len(places), np.int64)
        for step in range(1, longest):
            after = self._next[last]
            going = (after >= 0) & (lengths > step) & (count == step)
            if not going.any():
                break
            last = np.where(going, after, last)
            rewards = rewards + np.where(going, gamma**step * held[last], 0.0).astype(rewards.dtype)
            count = count + going
        rows[Columns.REWARDS] = rewards
        for name in _OF_THE_LAST:
            if name in self.columns:
                rows[name] = self.columns[name][last]
        rows["n_step"] = count.astype(np.float32)
        return rows

    def get_state(self) -> dict[str, Any]:
        """Return everything that is stored."""
        raise NotImplementedError

    def set_state(self, state: dict[str, Any]) -> None:
        """Take what :meth:`get_state` returned."""
        raise NotImplementedError
