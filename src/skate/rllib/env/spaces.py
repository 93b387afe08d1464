"""Values of spaces: their primitive parts, and actions from and to the bounds."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces

from skate.rllib.env.nested import leaves, map_nested


class Repeated(spaces.Space[list[Any]]):
    """Lists of values of one space, of different lengths.

    Args:
        child_space: The space of a value.
        max_len: The most values in a list.
    """

    def __init__(self, child_space: spaces.Space[Any], max_len: int) -> None:
        super().__init__()
        self.child_space, self.max_len = child_space, max_len

    def sample(self, mask: Any = None, probability: Any = None) -> list[Any]:
        """Return a list of at least one value."""
        return [self.child_space.sample() for _ in range(self.np_random.integers(1, self.max_len + 1))]

    def contains(self, x: Any) -> bool:
        """True for a list of so many values at most."""
        return (
            isinstance(x, list | np.ndarray)
            and len(x) <= self.max_len
            and all(map(self.child_space.contains, x))
        )

    def seed(self, seed: Any = None) -> Any:
        """Seed the lengths and the values."""
        self.child_space.seed(seed)
        return super().seed(seed)

    def __eq__(self, other: object) -> bool:
        mine = self.child_space, self.max_len
        return isinstance(other, Repeated) and mine == (other.child_space, other.max_len)

    def __repr__(self) -> str:
        return f"Repeated({self.child_space}, {self.max_len})"


def flatten_space(space: Any) -> list[Any]:
    """Return the primitive parts of a space, those of a Dict in the order of their keys.

    Args:
        space: The space.
    """
    if isinstance(space, spaces.Tuple):
        return [part for each in space.spaces for part in flatten_space(each)]
    if isinstance(space, spaces.Dict):
        return [part for key in sorted(space.spaces) for part in flatten_space(space[key])]
    return [space]


def get_base_struct_from_space(space: Any) -> Any:
    """Return a space as dicts and tuples of its primitive parts.

    Args:
        space: The space.
    """
    if isinstance(space, spaces.Tuple):
        return tuple(get_base_struct_from_space(each) for each in space.spaces)
    if isinstance(space, spaces.Dict):
        return {key: get_base_struct_from_space(each) for key, each in space.spaces.items()}
    return space


def is_composite_space(space: Any) -> bool:
    """True if a space is made of other spaces."""
    return isinstance(space, spaces.Dict | spaces.Tuple | spaces.Graph | spaces.Sequence)


def flatten_to_single_ndarray(input_: Any) -> Any:
    """Return nested arrays as one array of one dimension; a plain array as it is.

    Args:
        input_: Arrays in dicts, tuples or lists.
    """
    if isinstance(input_, list):
        input_ = tuple(input_)
    if not isinstance(input_, tuple | dict):
        return input_
    return np.concatenate([np.ravel(leaf) for leaf in leaves(input_)])


def _is_bounded(space: Any) -> bool:
    return isinstance(space, spaces.Box) and bool(space.bounded_below.all() and space.bounded_above.all())


def clip_action(action: Any, action_space: Any) -> Any:
    """Return an action within the bounds of its space.

    Args:
        action: The action.
        action_space: The space, or the dicts and tuples that `get_base_struct_from_space` returns.
    """

    def clip(part: Any, space: Any) -> Any:
        return np.clip(part, space.low, space.high) if isinstance(space, spaces.Box) else part

    return map_nested(clip, action, get_base_struct_from_space(action_space))


def unsquash_action(action: Any, action_space_struct: Any) -> Any:
    """Return an action of [-1, 1] scaled to the bounds of its space.

    Args:
        action: The action.
        action_space_struct: The space, or the dicts and tuples that `get_base_struct_from_space` returns.
    """

    def scale(part: Any, space: Any) -> Any:
        if not _is_bounded(space):
            return part
        if space.dtype.kind in "iu":
            # A whole number is one of the space from its least number on.
            return part + space.low
        return np.clip(space.low + (part + 1.0) * (space.high - space.low) / 2.0, space.low, space.high)

    return map_nested(scale, action, get_base_struct_from_space(action_space_struct))


def normalize_action(action: Any, action_space_struct: Any) -> Any:
    """Return an action within its space's bounds scaled to [-1, 1].

    Args:
        action: The action.
        action_space_struct: The space, or the dicts and tuples that `get_base_struct_from_space` returns.
    """

    def scale(part: Any, space: Any) -> Any:
        if not _is_bounded(space) or space.dtype.kind in "iu":
            return part
        return (np.asarray(part, np.float32) - space.low) * 2.0 / (space.high - space.low) - 1.0

    return map_nested(scale, action, get_base_struct_from_space(action_space_struct))
