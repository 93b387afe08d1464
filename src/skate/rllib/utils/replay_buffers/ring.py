"""ColumnRing: steps in columns of fixed length, of which the newest stay."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from skate.rllib.core.columns import Columns
from skate.rllib.utils.replay_buffers.step_columns import DONE, StepColumns

#: What a module returned for its action; learners from old steps compute it anew.
_NOT_KEPT = (Columns.ACTION_DIST_INPUTS, Columns.ACTION_LOGP)


class ColumnRing(StepColumns):
    """The newest steps; a new one replaces the oldest.

    Args:
        capacity: Number of steps.
    """

    def __init__(self, capacity: int) -> None:
        super().__init__(capacity)
        self.capacity = capacity
        #: Steps that were ever added.
        self.added = 0
        # The last step of each lane, by position of its fragment and number of its lane, with its count of `added`.
        self._tails: dict[tuple[int | str, int], tuple[int, int]] = {}

    def add(self, rollouts: Sequence[Any], sources: Sequence[str] | None = None) -> np.ndarray:
        """Add the steps of fragments and return where they are.

        Args:
            rollouts: Fragments; those of one runner always at the same position.
            sources: The ids of the episodes that the fragments are of, in place of positions.
        """
        named: Sequence[int | str] = range(len(rollouts)) if sources is None else sources
        places = [
            self._add_fragment(source, rollout) for source, rollout in zip(named, rollouts, strict=True)
        ]
        return np.concatenate(places) if places else np.empty(0, np.int64)

    def _add_fragment(self, position: int | str, rollout: Any) -> np.ndarray:
        valid: np.ndarray = rollout.valid
        given = {
            name: column
            for name, column in rollout.columns.items()
            if name not in _NOT_KEPT and column.dtype.kind in "biuf"
        }
        given[Columns.NEXT_OBS] = rollout.next_obs
        whole = bool(valid.all())
        rows = {
            name: column.reshape(-1, *column.shape[2:]) if whole else column[valid]
            for name, column in given.items()
        }
        count = len(rows[Columns.REWARDS])
        if count > self.capacity:
            raise ValueError(
                f"a fragment of {count} steps is longer than the capacity {self.capacity} of the buffer"
            )
        self._allocate(rows)
        first = self.added % self.capacity
        if first + count <= self.capacity:
            places = np.arange(first, first + count)
            where: Any = slice(first, first + count)
        else:
            places = where = (self.added + np.arange(count)) % self.capacity
        for name, column in self.columns.items():
            column[where] = rows[name]
        self._next[where] = -1
        if whole and len(valid) == 1:
            self._link_step(position, places)
        else:
            self._link(position, valid, places)
        self.added += count
        self.size = min(self.capacity, self.size + count)
        return places

    def _allocate(self, rows: dict[str, np.ndarray]) -> None:
        if not self.columns:
            # Memory that no step was written to yet is not taken from the machine.
            self.columns = {n: np.empty((self.capacity, *c.shape[1:]), c.dtype) for n, c in rows.items()}
            return
        missing = set(self.columns) - set(rows)
        if missing:
            raise ValueError(
                f"the buffer has columns {sorted(self.columns)}, but the fragment has no {sorted(missing)}"
            )

    def _link_step(self, position: int | str, places: np.ndarray) -> None:
        """Do as `_link` for one step of all lanes, the usual case, in a small part of its time."""
        after, before = self.columns[Columns.NEXT_OBS], self.columns[Columns.OBS]
        for lane, here in enumerate(places.tolist()):
            tail = self._tails.get((position, lane))
            if tail is not None and self.added + len(places) - tail[1] <= self.capacity:
                last = tail[0]
                if not self._is_end(last) and is_same(after[last], before[here]):
                    self._next[last] = here
            self._tails[position, lane] = (here, self.added + lane)
            if isinstance(position, str) and self._is_end(here):
                del self._tails[position, lane]

    def _is_end(self, place: int) -> bool:
        return any(self.columns[name][place] for name in DONE)

    def _link(self, position: int | str, valid: np.ndarray, places: np.ndarray) -> None:
        """Link the steps of each lane, within the fragment and to the lane's last step of the one before."""
        steps, lanes = np.nonzero(valid)
        for lane in range(valid.shape[1]):
            mine = lanes == lane
            here = places[mine]
            if not len(here):
                continue
            consecutive = np.diff(steps[mine]) == 1
            self._next[here[:-1][consecutive]] = here[1:][consecutive]
            tail = self._tails.get((position, lane))
            if (
                tail is not None
                and self.added + len(places) - tail[1] <= self.capacity
                and steps[mine][0] == 0
            ):
                # A runner that was replaced, or a lane that started afresh, continues with another observation.
                before = self.columns[Columns.NEXT_OBS][tail[0]]
                if not self._is_end(tail[0]) and is_same(before, self.columns[Columns.OBS][here[0]]):
                    self._next[tail[0]] = here[0]
            order = np.flatnonzero(mine)[-1]
            self._tails[position, lane] = (int(here[-1]), self.added + int(order))
            if isinstance(position, str) and self._is_end(here[-1]):
                del self._tails[position, lane]  # nothing continues an episode that has ended
        ended = places[np.logical_or(*(self.columns[name][places] for name in DONE))]
        self._next[ended] = -1

    def get_state(self) -> dict[str, Any]:
        return {
            "size": self.size,
            "added": self.added,
            "columns": {name: column[: self.size].copy() for name, column in self.columns.items()},
            "next": self._next[: self.size].copy(),
            "tails": dict(self._tails),
        }

    def set_state(self, state: dict[str, Any]) -> None:
        self.size, self.added, self._tails = state["size"], state["added"], dict(state["tails"])
        self._next[:] = -1
        self._next[: self.size] = state["next"]
        self.columns = {}
        kept = {name: column for name, column in state["columns"].items() if name not in _NOT_KEPT}
        self._allocate(kept)
        for name, column in kept.items():
            self.columns[name][: self.size] = column


def is_same(first: np.ndarray, second: np.ndarray) -> bool:
    """True if two observations have the same bits; for small ones this takes less than comparing numbers."""
    return first.tobytes() == second.tobytes()
