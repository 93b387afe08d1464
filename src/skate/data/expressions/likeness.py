"""Equality of the values in expressions."""

from __future__ import annotations

from typing import Any

import numpy as np


def alike(one: Any, other: Any) -> bool:
    """Return True for equal values of one type; 1 and 1.0 are not alike."""
    if isinstance(one, (list, tuple)) and type(one) is type(other):
        return len(one) == len(other) and all(map(alike, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(alike(one[key], other[key]) for key in one)
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return one.dtype == other.dtype and np.array_equal(one, other)
    return one is other or (type(one) is type(other) and bool(one == other))
