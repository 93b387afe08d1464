"""SameSteps: draws steps of the environment, with the steps of all agents that acted then."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Mapping
from itertools import accumulate

import numpy as np

from skate.rllib.utils.replay_buffers.episode_book import EpisodeBook
from skate.rllib.utils.replay_buffers.episode_steps import NEXT_ENV_TIME
from skate.rllib.utils.replay_buffers.pool import ColumnPool

#: How often a step is drawn again, for one that is wanted, until there seems to be none.
_TRIES = 1000


class SameSteps:
    """Draws from the episodes of a buffer.

    Args:
        book: The episodes.
        pools: The steps by module.
        rng: The source of the draws.
    """

    def __init__(self, book: EpisodeBook, pools: Mapping[str, ColumnPool], rng: np.random.Generator) -> None:
        self._pools = pools
        self._rng = rng
        self._episodes = [episode for episode in book if episode.at]
        if not self._episodes:
            raise ValueError(
                'replay_mode="synchronized" needs the steps of the environment, which only episodes have; add() those of '
                "sample() of a runner, not the fragments of columns that an algorithm adds"
            )
        self._ends = list(accumulate(len(episode.times) for episode in self._episodes))

    def draw(self, lengths: np.ndarray, wanted: Collection[str]) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """Draw steps of the environment.

        Args:
            lengths: For each of them, the number of steps whose rewards are summed.
            wanted: Ids of the modules.

        Returns:
            By module, the places of its agents' steps, and how many of its own each agent makes in these steps.

        Raises:
            ValueError: No agent has an observation that many steps after one that it acted on.
        """
        places: dict[str, list[int]] = {}
        own: dict[str, list[int]] = {}
        for length in lengths.tolist():
            for module_id, place, steps in self._one(length, wanted):
                places.setdefault(module_id, []).append(place)
                own.setdefault(module_id, []).append(steps)
        return {key: (np.array(places[key], np.int64), np.array(own[key])) for key in sorted(places)}

    def _one(self, length: int, wanted: Collection[str]) -> list[tuple[str, int, int]]:
        for _ in range(_TRIES):
            drawn = int(self._rng.integers(0, self._ends[-1]))
            which = bisect_right(self._ends, drawn)
            episode = self._episodes[which]
            time = episode.times[drawn - self._ends[which]]
            found = []
            for module_id, place in episode.at[time]:
                steps = self._own_steps(module_id, place, time + length) if module_id in wanted else 0
                if steps:
                    found.append((module_id, place, steps))
            if found:
                return found
        raise ValueError(
            f"n_step={length} is longer than what the agents of {sorted(wanted)} have: in {_TRIES} draws none had an "
            "observation that many steps of the environment after one that it acted on"
        )

    def _own_steps(self, module_id: str, place: int, end: int) -> int:
        """Return how many steps an agent makes up to a step of the environment; 0 if it has no observation there."""
        pool = self._pools[module_id]
        steps = 1
        while place >= 0:
            after = int(pool.columns[NEXT_ENV_TIME][place])
            if after >= end:
                return steps if after == end else 0
            place, steps = pool.after(place), steps + 1
        return 0
