"""A list of steps that remembers some before its beginning: the column of one episode.

Index 0 is the first step of this chunk; steps before it are its lookback. Positions count from the beginning of the
lookback.
"""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from skate.rllib.env.nested import batch, leaves, map_nested

Indices = int | slice | list[int] | None


class InfiniteLookbackBuffer:
    """Steps of one column, as a list of items or, once finalized, as nested arrays.

    Args:
        data: Items, or nested arrays; the first ``lookback`` of them are the lookback.
        lookback: Number of items before index 0.
        space: The space of one item; needed for one-hot vectors, and for fills of the right shape.
    """

    def __init__(self, data: Any = None, lookback: int = 0, space: gym.Space[Any] | None = None) -> None:
        self.data: Any = [] if data is None else data
        self.finalized = not isinstance(self.data, list)
        self.lookback = min(lookback, self.len_incl_lookback())
        self.space = space

    def __len__(self) -> int:
        return max(self.len_incl_lookback() - self.lookback, 0)

    def len_incl_lookback(self) -> int:
        """Return the number of items with the lookback."""
        return len(next(leaves(self.data))) if self.finalized else len(self.data)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, InfiniteLookbackBuffer):
            return False
        same = (self.lookback, self.finalized, self.space) == (other.lookback, other.finalized, other.space)
        return same and self.len_incl_lookback() == other.len_incl_lookback() and equal(self.data, other.data)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"InfiniteLookbackBuffer({self.data}, lookback={self.lookback}, space={self.space})"

    def append(self, item: Any) -> None:
        """Add one item at the end."""
        if self.finalized:
            self.data = map_nested(
                lambda held, new: np.concatenate([held, np.asarray(new)[None]]), self.data, item
            )
        else:
            self.data.append(item)

    def extend(self, items: Any) -> None:
        """Add items at the end: a list of items, or nested arrays."""
        if self.finalized:
            if isinstance(items, list):
                if not items:
                    return
                items = batch(items)
            self.data = map_nested(lambda held, new: np.concatenate([held, new]), self.data, items)
        else:
            self.data.extend(items if isinstance(items, list) else rows_of(items))

    def concat(self, other: InfiniteLookbackBuffer) -> None:
        """Add another buffer's items, without its lookback."""
        self.extend(other.get())

    def pop(self, index: int = -1) -> None:
        """Remove the item at a position."""
        if self.finalized:
            self.data = map_nested(lambda held: np.delete(held, index, axis=0), self.data)
        else:
            self.data.pop(index)

    def finalize(self) -> None:
        """Turn the list of items into nested arrays."""
        if not self.finalized:
            self.data = batch(self.data)
            self.finalized = True

    def _position(self, index: int, neg_index_as_lookback: bool) -> int:
        if index >= 0 or neg_index_as_lookback:
            return self.lookback + index
        return self.len_incl_lookback() + index

    def _range(self, indices: slice, neg_index_as_lookback: bool) -> range:
        start = (
            self.lookback if indices.start is None else self._position(indices.start, neg_index_as_lookback)
        )
        stop = (
            self.len_incl_lookback()
            if indices.stop is None
            else self._position(indices.stop, neg_index_as_lookback)
        )
        return range(start, stop, 1 if indices.step is None else indices.step)

    def get(
        self,
        indices: Indices = None,
        *,
        neg_index_as_lookback: bool = False,
        fill: Any = None,
        one_hot_discrete: bool = False,
    ) -> Any:
        """Return items.

        Args:
            indices: An int gives one item; a list of ints or a slice gives several; None gives all but the lookback.
            neg_index_as_lookback: True if negative indices count back from index 0, not from the end.
            fill: Value for indices that are out of range; an int or list then never raises.
            one_hot_discrete: True for one-hot vectors in the place of choices.

        Raises:
            IndexError: An index is out of range, and no fill is given.
        """
        if indices is None:
            return self._slice(range(self.lookback, self.len_incl_lookback()), None, one_hot_discrete)
        if isinstance(indices, slice):
            positions = self._range(indices, neg_index_as_lookback)
            low, high = sorted((positions.start, positions.stop))
            if fill is not None and (high < 0 or low >= self.len_incl_lookback()):
                # There is nothing but fills, in whichever direction the slice goes.
                return self._fills(high - low, fill, one_hot_discrete)
            return self._slice(positions, fill, one_hot_discrete)
        if isinstance(indices, list):
            items = [self._item(index, neg_index_as_lookback, fill, one_hot_discrete) for index in indices]
            return batch(items) if self.finalized else items
        return self._item(int(indices), neg_index_as_lookback, fill, one_hot_discrete)

    __getitem__ = get

    def _item(self, index: int, neg_index_as_lookback: bool, fill: Any, one_hot: bool) -> Any:
        position = self._position(index, neg_index_as_lookback)
        size = self.len_incl_lookback()
        if not 0 <= position < size:
            if fill is None:
                raise IndexError(
                    f"index {index} is out of range: this chunk has {len(self)} items after a lookback of "
                    f"{self.lookback}; pass fill= for a value in the place of those missing"
                )
            return fill if self.space is None else filled(self.space, fill, None, one_hot)
        item = map_nested(lambda held: held[position], self.data) if self.finalized else self.data[position]
        return self._one_hot(item) if one_hot else item

    def _slice(self, positions: range, fill: Any, one_hot: bool) -> Any:
        size = self.len_incl_lookback()
        inside = (
            [each for each in (positions[0], positions[-1]) if 0 <= each < size] if len(positions) else []
        )
        present = positions if len(inside) == 2 else range(*_within(positions, size))
        stop: int | None = present.stop if present.step > 0 or present.stop >= 0 else None
        part = slice(present.start, stop, present.step) if len(present) else slice(0, 0)
        items = map_nested(lambda held: held[part], self.data) if self.finalized else self.data[part]
        if one_hot and len(present):
            items = self._one_hot(items) if self.finalized else [self._one_hot(item) for item in items]
        if fill is None or len(present) == len(positions):
            return items
        ahead = (present.start - positions.start) // positions.step if len(present) else len(positions)
        if not len(present) and not (positions.start < 0):
            ahead = 0
        behind = len(positions) - len(present) - ahead
        if self.finalized:
            return self._padded(items, ahead, behind, fill, one_hot)
        return self._fills(ahead, fill, one_hot) + items + self._fills(behind, fill, one_hot)

    def _padded(self, items: Any, ahead: int, behind: int, fill: Any, one_hot: bool) -> Any:
        parts = [items] if len(next(leaves(items))) else []
        for count, place in ((ahead, 0), (behind, len(parts))):
            if count:
                parts.insert(place if place == 0 else len(parts), self._fills(count, fill, one_hot))
        return map_nested(lambda *each: np.concatenate(each), *parts)

    def _fills(self, count: int, fill: Any, one_hot: bool) -> Any:
        if not self.finalized:
            one = fill if self.space is None else filled(self.space, fill, None, one_hot)
            return [one] * count
        if self.space is None:
            return np.array([fill] * count)
        return filled(self.space, fill, count, one_hot)

    def _one_hot(self, value: Any) -> Any:
        if self.space is None:
            raise ValueError(
                "one_hot_discrete=True needs a space, and this column has none; pass one to the episode"
            )
        return one_hot(value, self.space)

    def set(self, new_data: Any, *, at_indices: Indices = None, neg_index_as_lookback: bool = False) -> None:
        """Overwrite items.

        Args:
            new_data: As many items as the indices name; nested arrays if finalized.
            at_indices: See `get`; None overwrites all but the lookback.
            neg_index_as_lookback: See `get`.

        Raises:
            IndexError: An index is out of range, or the number of items differs.
        """
        if isinstance(at_indices, list):
            for place, index in enumerate(at_indices):
                self._set_item(map_nested(lambda new: new[place], new_data), index, neg_index_as_lookback)  # noqa: B023
        elif at_indices is None or isinstance(at_indices, slice):
            self._set_slice(new_data, at_indices or slice(0, None), neg_index_as_lookback)
        else:
            self._set_item(new_data, at_indices, neg_index_as_lookback)

    def __setitem__(self, key: Indices, value: Any) -> None:
        self.set(value, at_indices=key)

    def _set_item(self, item: Any, index: int, neg_index_as_lookback: bool) -> None:
        position = self._position(index, neg_index_as_lookback)
        if not 0 <= position < self.len_incl_lookback():
            raise IndexError(
                f"index {index} cannot be set: this chunk has {len(self)} items after a lookback of {self.lookback}"
            )
        if not self.finalized:
            self.data[position] = item
            return

        def put(held: np.ndarray, new: Any) -> None:
            held[position] = new

        map_nested(put, self.data, item)

    def _set_slice(self, items: Any, indices: slice, neg_index_as_lookback: bool) -> None:
        positions = list(self._range(indices, neg_index_as_lookback))
        positions = [each for each in positions if 0 <= each < self.len_incl_lookback()]
        count = len(items) if isinstance(items, list) else len(next(leaves(items)))
        if count != len(positions):
            raise IndexError(
                f"{count} items cannot be set at {indices}, which names {len(positions)}; the sizes have to agree"
            )
        if not self.finalized:
            for position, item in zip(positions, items, strict=True):
                self.data[position] = item
            return

        def put(held: np.ndarray, new: Any) -> None:
            held[positions] = new

        map_nested(put, self.data, batch(items) if isinstance(items, list) else items)

    def get_state(self) -> dict[str, Any]:
        """Return this buffer as a picklable dict."""
        return {
            "data": self.data,
            "lookback": self.lookback,
            "finalized": self.finalized,
            "space": self.space,
        }

    @staticmethod
    def from_state(state: dict[str, Any]) -> InfiniteLookbackBuffer:
        """Return the buffer that `get_state` described."""
        made = InfiniteLookbackBuffer(space=state["space"])
        made.data, made.lookback, made.finalized = state["data"], state["lookback"], state["finalized"]
        return made


def _within(positions: range, size: int) -> tuple[int, int, int]:
    """Return the part of a range that lies in [0, size), as arguments of `range`."""
    inside = [each for each in positions if 0 <= each < size]
    if not inside:
        return 0, 0, positions.step
    return inside[0], inside[-1] + (1 if positions.step > 0 else -1), positions.step


def rows_of(items: Any) -> list[Any]:
    """Return nested arrays as a list of nested rows."""
    return [map_nested(lambda leaf, at=at: leaf[at], items) for at in range(len(next(leaves(items))))]


def equal(first: Any, second: Any) -> bool:
    """True if two nested values, or lists of them, are equal."""
    if isinstance(first, list) and isinstance(second, list):
        return len(first) == len(second) and all(equal(*pair) for pair in zip(first, second, strict=True))
    if isinstance(first, dict) and isinstance(second, dict):
        return first.keys() == second.keys() and all(equal(first[key], second[key]) for key in first)
    if isinstance(first, tuple) and isinstance(second, tuple):
        return len(first) == len(second) and all(equal(*pair) for pair in zip(first, second, strict=True))
    return bool(np.array_equal(first, second))


def filled(space: gym.Space[Any], fill: Any, count: int | None, one_hot_discrete: bool = False) -> Any:
    """Return values of a space that consist of one number.

    Args:
        space: The space.
        fill: The number.
        count: Number of values, as a batch; None for a single one without a batch dimension.
        one_hot_discrete: True for vectors in the place of choices.
    """
    if isinstance(space, spaces.Dict):
        return {key: filled(inner, fill, count, one_hot_discrete) for key, inner in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(filled(inner, fill, count, one_hot_discrete) for inner in space.spaces)
    shape: tuple[int, ...] = space.shape or ()
    dtype: Any = space.dtype
    if one_hot_discrete and isinstance(space, spaces.Discrete):
        shape, dtype = (int(space.n),), np.float32
    elif one_hot_discrete and isinstance(space, spaces.MultiDiscrete):
        shape, dtype = (int(np.sum(space.nvec)),), np.float32
    return np.full(shape if count is None else (count, *shape), fill, dtype)


def one_hot(value: Any, space: gym.Space[Any]) -> Any:
    """Return a value, or a batch, with choices as one-hot vectors of float32."""
    if isinstance(space, spaces.Dict):
        return {key: one_hot(value[key], inner) for key, inner in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(one_hot(part, inner) for part, inner in zip(value, space.spaces, strict=True))
    if isinstance(space, spaces.Discrete):
        return np.eye(int(space.n), dtype=np.float32)[np.asarray(value, np.int64) - int(space.start)]
    if isinstance(space, spaces.MultiDiscrete):
        numbers = np.asarray(value, np.int64)
        return np.concatenate(
            [np.eye(int(count), dtype=np.float32)[numbers[..., at]] for at, count in enumerate(space.nvec)],
            axis=-1,
        )
    return value
