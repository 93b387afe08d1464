"""Values of spaces: their primitive parts, and actions from and to the bounds."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from gymnasium import spaces

from skate.rllib.env.nested import map_nested, sorted_leaves


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


class FlexDict(spaces.Dict):
    """A Dict space that takes further spaces later: ``space["key"] = Discrete(2)``.

    Args:
        spaces: The spaces by key.
        **spaces_kwargs: The same as keyword arguments.
    """

    def __setitem__(self, key: str, value: spaces.Space[Any]) -> None:
        if not isinstance(value, spaces.Space):
            raise AssertionError(f"values of a FlexDict are spaces; {key!r} got {value!r}")
        self.spaces[key] = value

    def __repr__(self) -> str:
        return f"FlexDict({', '.join(f'{key}:{space}' for key, space in self.spaces.items())})"


class Simplex(spaces.Space[np.ndarray[Any, Any]]):
    """Numbers of at least 0 that add up to 1 along the last dimension.

    Args:
        shape: Shape of a value.
        concentration: The parameters of the Dirichlet distribution that values are drawn from, one for each number. Default:
            all 1, so that each value is as likely as any other.
        dtype: Type of the numbers.

    Raises:
        ValueError: There are more or fewer parameters than numbers.
    """

    def __init__(
        self, shape: tuple[int, ...] | list[int], concentration: Any = None, dtype: Any = np.float32
    ) -> None:
        super().__init__(tuple(shape), dtype)
        self.dim = int(shape[-1])
        self.concentration = np.ones(self.dim) if concentration is None else np.asarray(concentration)
        if self.concentration.shape != (self.dim,):
            raise ValueError(
                f"a simplex of shape {tuple(shape)} needs {self.dim} parameters, got concentration={concentration}"
            )

    def sample(self, mask: Any = None, probability: Any = None) -> np.ndarray[Any, Any]:
        """Return a value drawn from the Dirichlet distribution."""
        drawn = self.np_random.dirichlet(self.concentration, size=(self.shape or ())[:-1])
        return drawn.astype(self.dtype)

    def contains(self, x: Any) -> bool:
        """True for numbers of the shape that add up to 1."""
        return (
            isinstance(x, np.ndarray)
            and x.shape == self.shape
            and bool((x >= 0).all())
            and np.allclose(x.sum(-1), 1.0)
        )

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Simplex)
            and self.shape == other.shape
            and np.allclose(self.concentration, other.concentration)
        )

    def __repr__(self) -> str:
        return f"Simplex({self.shape}, {self.concentration})"


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
    """Return nested arrays as one array of one dimension, those of a dict in the order of its keys; a plain array as it is.

    Args:
        input_: Arrays in dicts, tuples or lists.
    """
    if not isinstance(input_, list | tuple | dict):
        return input_
    return np.concatenate([np.ravel(leaf) for leaf in sorted_leaves(input_)])


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


def get_original_space(space: Any) -> Any:
    """Return the space that a space was made from, if it says so in ``original_space``, or itself.

    Args:
        space: The space.
    """
    while hasattr(space, "original_space"):
        space = space.original_space
    return space


def get_dummy_batch_for_space(
    space: Any,
    batch_size: int = 32,
    *,
    fill_value: float | str = 0.0,
    time_size: int | None = None,
    time_major: bool = False,
    one_hot_discrete: bool = False,
) -> Any:
    """Return a batch of equal or random values of a space.

    Args:
        space: The space, or dicts and tuples of spaces.
        batch_size: Number of rows; 0 for one value without a batch dimension.
        fill_value: The number that fills the arrays; ``"random"`` to sample values of the space.
        time_size: Length of the time dimension; None for none.
        time_major: True for the shape (time, rows), False for (rows, time).
        one_hot_discrete: True for one-hot vectors in the place of whole numbers.

    Raises:
        ValueError: A time dimension is wanted, but no rows or no steps.
    """
    if time_size is not None and not (batch_size > 0 and time_size > 0):
        raise ValueError(
            f"a batch with a time dimension needs rows and steps, got batch_size={batch_size}, time_size={time_size}"
        )
    sizes = [batch_size] if batch_size else []
    if time_size is not None:
        sizes = [time_size, batch_size] if time_major else [batch_size, time_size]

    def fill(part: Any) -> Any:
        if one_hot_discrete and isinstance(part, spaces.Discrete | spaces.MultiDiscrete):
            size = int(part.n if isinstance(part, spaces.Discrete) else np.sum(part.nvec))
            part = spaces.Box(0.0, 1.0, (size,), np.float32)
        if fill_value != "random":
            return np.full([*sizes, *part.shape], fill_value, part.dtype)
        sampled = [part.sample() for _ in range(math.prod(sizes))]
        return np.array(sampled, part.dtype).reshape(*sizes, *part.shape)

    return map_nested(fill, get_base_struct_from_space(space))


def convert_element_to_space_type(element: Any, sampled_element: Any) -> Any:
    """Return a value with the types of numbers that a sampled value of its space has.

    Args:
        element: The value.
        sampled_element: Any value of the space.

    Raises:
        ValueError: An array of the space stands where the value has something else.
    """

    def convert(part: Any, like: Any) -> Any:
        if isinstance(like, np.ndarray):
            if not isinstance(part, np.ndarray) and (np.ndim(part) or like.ndim):
                raise ValueError(f"the space has an array of shape {like.shape} where the value has {part!r}")
            return np.asarray(part, like.dtype)
        if isinstance(like, int | np.integer):
            if isinstance(part, np.floating):
                return np.int64(part)
            return int(part) if isinstance(part, float) and part.is_integer() else part
        return part

    return map_nested(convert, element, sampled_element)
