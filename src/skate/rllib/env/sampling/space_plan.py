"""A space compiled once to the columns of a flat array, so that no step walks a tree of spaces.

Box spaces of one dimension and images stay as they are; numbers of choices become one-hot vectors; dicts (by sorted
key) and tuples are laid end to end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from skate.rllib.env.env_checks import misfit

Writer = Callable[[np.ndarray, Any], None]


class SpacePlan:
    """How observations of a space become rows of one array.

    Args:
        space: The space of one observation.
        flat: True to make one float32 vector of everything but images; False keeps the space, which then has to be
            a Box.
        images: False to flatten images too.

    Attributes:
        space: The Box of one row.
        is_copy: True if observations are rows already, so that a list of them is written in one assignment.
    """

    def __init__(self, space: gym.Space[Any], flat: bool = True, images: bool = True) -> None:
        self.original = space
        vector_or_image = isinstance(space, spaces.Box) and len(space.shape) in ((1, 3) if images else (1,))
        self.is_copy = isinstance(space, spaces.Box) and (vector_or_image or not flat)
        if self.is_copy and isinstance(space, spaces.Box):
            bytes_of_image = space.dtype == np.uint8 and len(space.shape) == 3
            dtype = np.dtype(np.uint8 if bytes_of_image else np.float32)
            self.space = space if space.dtype == dtype else box_of(space, dtype)
            return
        if not flat:
            raise ValueError(f"observations of {space} are no array; flatten them with FlattenObservations()")
        self._writers: list[tuple[int, int, Writer, tuple[Any, ...]]] = []
        lows: list[np.ndarray] = []
        highs: list[np.ndarray] = []
        self._size = 0
        self._lay(space, (), lows, highs)
        self.space = spaces.Box(
            np.concatenate(lows).astype(np.float32),
            np.concatenate(highs).astype(np.float32),
            dtype=np.float32,
        )

    @property
    def keeps(self) -> bool:
        """True if a row is the observation as it is."""
        return self.is_copy and bool(self.original.dtype == self.dtype)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one row."""
        return self.space.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the numbers of a row: float32, or uint8 for images of bytes."""
        return np.dtype(self.space.dtype)

    def _lay(
        self, space: gym.Space[Any], path: tuple[Any, ...], lows: list[np.ndarray], highs: list[np.ndarray]
    ) -> None:
        if isinstance(space, spaces.Dict):
            for key in sorted(space.spaces, key=str):
                self._lay(space.spaces[key], (*path, key), lows, highs)
            return
        if isinstance(space, spaces.Tuple):
            for index, inner in enumerate(space.spaces):
                self._lay(inner, (*path, index), lows, highs)
            return
        size, write = writer_of(space)
        if isinstance(space, spaces.Box):
            lows.append(space.low.reshape(-1))
            highs.append(space.high.reshape(-1))
        else:
            lows.append(np.zeros(size))
            highs.append(np.ones(size))
        self._writers.append((self._size, self._size + size, write, path))
        self._size += size

    def write(self, rows: np.ndarray, observations: Sequence[Any]) -> None:
        """Write one observation into each row.

        Args:
            rows: Array of shape ``(N, ...)``.
            observations: N observations of the original space.
        """
        if self.is_copy:
            try:
                rows[:] = observations
            except ValueError as error:
                for each in observations:
                    if problem := misfit(self.space, each):
                        raise ValueError(
                            f"an observation does not fit the observation space: it {problem}"
                        ) from error
                raise
            return
        for row, observation in zip(rows, observations, strict=True):
            for start, stop, write, path in self._writers:
                part = observation
                for key in path:
                    part = part[key]
                write(row[start:stop], part)

    def row(self, observation: Any) -> np.ndarray:
        """Return one observation as a new row."""
        if self.is_copy:
            return np.array(observation, self.space.dtype)
        rows = np.zeros((1, *self.shape), self.dtype)
        self.write(rows, [observation])
        row: np.ndarray = rows[0]
        return row


def box_of(space: spaces.Box, dtype: np.dtype[Any]) -> spaces.Box:
    """Return the same Box with another type of numbers."""
    return spaces.Box(space.low.astype(dtype), space.high.astype(dtype), space.shape, dtype.type)


def writer_of(space: gym.Space[Any]) -> tuple[int, Writer]:
    """Return how many numbers a value of a simple space takes, and the function that writes them.

    Raises:
        ValueError: Values of the space have no fixed number of numbers.
    """
    if isinstance(space, spaces.Box):

        def write_box(out: np.ndarray, value: Any) -> None:
            out[:] = np.asarray(value).reshape(-1)

        return int(np.prod(space.shape)), write_box
    if isinstance(space, spaces.Discrete):
        start = int(space.start)

        def write_choice(out: np.ndarray, value: Any) -> None:
            out[:] = 0
            out[int(value) - start] = 1

        return int(space.n), write_choice
    if isinstance(space, spaces.MultiDiscrete):
        counts = space.nvec.reshape(-1)
        offsets = np.concatenate([[0], np.cumsum(counts)[:-1]]) - np.asarray(space.start).reshape(-1)

        def write_choices(out: np.ndarray, value: Any) -> None:
            out[:] = 0
            out[np.asarray(value).reshape(-1) + offsets] = 1

        return int(counts.sum()), write_choices
    if isinstance(space, spaces.MultiBinary):

        def write_bits(out: np.ndarray, value: Any) -> None:
            out[:] = np.asarray(value).reshape(-1)

        return int(np.prod(space.shape)), write_bits
    raise ValueError(
        f"observations of {space} have no fixed number of columns; write a connector that makes a Box of them, "
        "and pass it as config.env_runners(env_to_module_connector=...)"
    )
