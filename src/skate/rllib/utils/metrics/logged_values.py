"""Values as they are logged: numbers, tensors, and figures that are computed when they are read."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from typing import Any

import numpy as np


def plain(value: Any) -> Any:
    """Return a number for a tensor or an array of one element; other values as they are."""
    if hasattr(value, "item") and getattr(value, "ndim", 0) == 0:
        return value.item()
    return value


def detached(value: Any) -> Any:
    """Return a tensor without its graph; other values as they are."""
    return value.detach() if hasattr(value, "detach") else value


class Deferred:
    """A figure that is computed when it is read first, of values that do not change until then; pickled as the number."""

    __slots__ = ("_compute", "_found")

    ndim = 0

    def __init__(self, compute: Callable[[], Any]) -> None:
        self._compute: Callable[[], Any] | None = compute
        self._found: Any = None

    def item(self) -> Any:
        """Return the figure."""
        if self._compute is not None:
            self._found, self._compute = plain(self._compute()), None
        return self._found

    def __reduce__(self) -> tuple[Any, ...]:
        return plain, (self.item(),)


#: The types of numbers, which need no conversion, and the types of what a statistic may ship as it is.
NUMBERS = frozenset((int, float, bool))
SHIPPED = NUMBERS | {Deferred}


def plain_list(values: Collection[Any]) -> list[Any]:
    """Return each value as `plain` does; numbers, which most are, need no call."""
    if NUMBERS.issuperset(map(type, values)):
        return list(values)
    return [plain(value) for value in values]


def is_nan(value: Any) -> bool:
    """True if the value is a number and not one."""
    return isinstance(value, float) and math.isnan(value)


#: What returns the only one of a single value.
_OF_ONE = (np.mean, np.min, np.max, np.sum)


def reduced(combine: Callable[[Any], Any], values: Collection[Any]) -> Any:
    """Return what a function of numpy makes of values, without those that are not numbers; NaN if none is left.

    Args:
        combine: The function.
        values: Numbers, arrays, or figures that are numbers.
    """
    numbers = plain_list(values)
    if len(numbers) == 1 and combine in _OF_ONE and type(numbers[0]) in (float, int):
        # Most series of a training step, for which arrays take many times longer.
        return float(numbers[0]) if combine is np.mean else numbers[0]
    array = np.asarray(numbers)
    if array.dtype.kind == "f":
        array = array[~np.isnan(array)] if array.ndim == 1 else array
    return plain(combine(array)) if len(array) else math.nan
