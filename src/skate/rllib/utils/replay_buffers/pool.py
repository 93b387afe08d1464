"""ColumnPool: steps in columns that grow, whose places are given back when their episode goes."""

from __future__ import annotations

from typing import Any

import numpy as np

from skate.rllib.core.columns import Columns
from skate.rllib.utils.replay_buffers.step_columns import StepColumns

#: Columns of a pool's own: the lane that each step is of, and the number of the step in its agent's episode.
LANE = "lane"
TIME = "t"
_FEWEST = 64


class ColumnPool(StepColumns):
    """The steps of one module, of episodes that come and go as wholes."""

    def __init__(self) -> None:
        super().__init__(0)
        self._used = 0
        self._free: list[int] = []
        #: The places with a step, without gaps, and where in that list each place stands.
        self._live = np.empty(0, np.int64)
        self._position = np.empty(0, np.int64)

    @property
    def live(self) -> np.ndarray:
        """The places that have a step."""
        return self._live[: self.size]

    @property
    def num_places(self) -> int:
        """The number of places, with and without a step."""
        return len(self._next)

    def add(self, columns: dict[str, np.ndarray], tails: np.ndarray) -> np.ndarray:
        """Add consecutive steps of some lanes.

        Args:
            columns: Arrays of shape ``(T, N, ...)``. What is missing of the columns so far is zero in these steps.
            tails: The place of each lane's step before these; -1 if there is none.

        Returns:
            The places, ``(T, N)``.
        """
        steps, lanes = columns[Columns.REWARDS].shape[:2]
        count = steps * lanes
        places = self._take(count)
        for name, column in columns.items():
            if name not in self.columns:
                self.columns[name] = np.zeros((self.num_places, *column.shape[2:]), column.dtype)
        for name, held in self.columns.items():
            held[places] = (
                columns[name].reshape(count, *columns[name].shape[2:]) if name in columns else _zero(held)
            )
        grid = places.reshape(steps, lanes)
        self._next[places] = -1
        self._next[grid[:-1]] = grid[1:]
        continued = tails >= 0
        self._next[tails[continued]] = grid[0][continued]
        self._position[places] = np.arange(self.size, self.size + count)
        self._live[self.size : self.size + count] = places
        self.size += count
        return grid

    def _take(self, count: int) -> np.ndarray:
        again = min(count, len(self._free))
        fresh = count - again
        if self._used + fresh > self.num_places:
            self._grow(self._used + fresh)
        taken = self._free[len(self._free) - again :]
        del self._free[len(self._free) - again :]
        places = np.concatenate([np.array(taken, np.int64), np.arange(self._used, self._used + fresh)])
        self._used += fresh
        return places

    def _grow(self, needed: int) -> None:
        places = max(needed, 2 * self.num_places, _FEWEST)
        self._next = _longer(self._next, places)
        self._live, self._position = _longer(self._live, places), _longer(self._position, places)
        self.columns = {name: _longer(column, places) for name, column in self.columns.items()}

    def remove(self, places: np.ndarray) -> None:
        """Remove all steps of an episode."""
        gone = np.zeros(self.size, bool)
        gone[self._position[places]] = True
        left = self.size - len(places)
        # The last of the list move to where there would be gaps.
        gaps, moved = np.flatnonzero(gone[:left]), self._live[left : self.size][~gone[left:]]
        self._live[gaps] = moved
        self._position[moved] = gaps
        self.size = left
        self._free.extend(places.tolist())
        for column in self.columns.values():
            if column.dtype == object:
                column[places] = None

    def get_state(self) -> dict[str, Any]:
        return {
            "used": self._used,
            "free": list(self._free),
            "live": self.live.copy(),
            "next": self._next[: self._used].copy(),
            "columns": {name: column[: self._used].copy() for name, column in self.columns.items()},
        }

    def set_state(self, state: dict[str, Any]) -> None:
        self._next = self._live = self._position = np.empty(0, np.int64)
        self.columns = {}
        self._used, self._free, self.size = state["used"], list(state["free"]), len(state["live"])
        self._grow(self._used)
        self._live[: self.size] = state["live"]
        self._position[state["live"]] = np.arange(self.size)
        self._next[: self._used] = state["next"]
        self.columns = {
            name: _longer(np.asarray(column), self.num_places) for name, column in state["columns"].items()
        }


def _longer(column: np.ndarray, places: int) -> np.ndarray:
    made = np.zeros((places, *column.shape[1:]), column.dtype)
    made[: len(column)] = column
    return made


def _zero(column: np.ndarray) -> Any:
    return None if column.dtype == object else 0
