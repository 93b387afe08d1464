"""Nested values, dicts and tuples of arrays: mapping, putting together and taking apart."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np


def map_nested(function: Callable[..., Any], first: Any, *others: Any) -> Any:
    """Return nested values of the same form, each leaf made by a function of the leaves.

    Args:
        function: Takes one leaf of each value.
        first: Gives the form.
        others: Values of the same form.
    """
    if isinstance(first, dict):
        return {
            key: map_nested(function, value, *(other[key] for other in others))
            for key, value in first.items()
        }
    if isinstance(first, tuple):
        return tuple(map_nested(function, *parts) for parts in zip(first, *others, strict=True))
    return function(first, *others)


def leaves(value: Any) -> Iterator[Any]:
    """Yield the leaves of a nested value."""
    if isinstance(value, dict):
        for inner in value.values():
            yield from leaves(inner)
    elif isinstance(value, tuple):
        for inner in value:
            yield from leaves(inner)
    else:
        yield value


def sorted_leaves(value: Any) -> Iterator[Any]:
    """Yield the leaves of a nested value, those of a dict in the order of its keys, and of lists too."""
    if isinstance(value, dict):
        for key in sorted(value):
            yield from sorted_leaves(value[key])
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from sorted_leaves(inner)
    else:
        yield value


def batch(items: Sequence[Any], *, individual_items_already_have_batch_dim: bool | str = False) -> Any:
    """Put nested values together along a new first axis.

    Args:
        items: Values of the same form; an empty list gives an empty array.
        individual_items_already_have_batch_dim: True to join along the axis that is there already; ``"auto"`` does
            so where a leaf is tagged as a batch.
    """
    if not len(items):
        return np.array([])
    joins = individual_items_already_have_batch_dim

    def join(*parts: Any) -> Any:
        if joins is True or (joins == "auto" and isinstance(parts[0], BatchedNdArray)):
            return np.concatenate([np.asarray(part) for part in parts], axis=0)
        return np.array(parts) if np.ndim(parts[0]) == 0 else np.stack(parts)

    return map_nested(join, items[0], *items[1:])


def unbatch(batches: Any) -> list[Any]:
    """Take a nested value apart along its first axis.

    Args:
        batches: Nested arrays of equal length.

    Returns:
        One nested value per row.
    """
    if isinstance(batches, np.ndarray):
        return list(batches)
    if isinstance(batches, list):
        return batches
    size = len(next(leaves(batches)))
    return [map_nested(lambda leaf, index=index: leaf[index], batches) for index in range(size)]


class BatchedNdArray(np.ndarray[Any, Any]):
    """An array that is a batch of items already, in the place of one item.

    Args:
        input_array: The batch.
    """

    def __new__(cls, input_array: Any) -> BatchedNdArray:
        return np.asarray(input_array).view(cls)
