"""Small functions on arrays of numpy, and from tensors to arrays."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

SMALL_NUMBER = 1e-6
#: Bounds of the logarithm of a standard deviation.
MIN_LOG_NN_OUTPUT, MAX_LOG_NN_OUTPUT = -5, 2
LARGE_INTEGER = 100000000


def map_values(function: Callable[[Any], Any], value: Any) -> Any:
    """Return nested dicts, tuples and lists of the same form, each leaf made by a function.

    Args:
        function: Takes a leaf.
        value: The nested value.
    """
    if isinstance(value, dict):
        return type(value)((key, map_values(function, inner)) for key, inner in value.items())
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(map_values(function, inner) for inner in value))
    if isinstance(value, list | tuple):
        return type(value)(map_values(function, inner) for inner in value)
    return function(value)


def convert_to_numpy(x: Any, reduce_type: bool = True) -> Any:
    """Return nested tensors as arrays in the memory of the CPU; a tensor without dimensions becomes a number.

    Args:
        x: Tensors, arrays or other values, in dicts, tuples and lists.
        reduce_type: True to make float64 to float32 and int64 to int32.
    """
    torch = sys.modules.get("torch")  # without it no value is a tensor

    def convert(leaf: Any) -> Any:
        if torch is not None and isinstance(leaf, torch.Tensor):
            leaf = leaf.detach().cpu()
            leaf = leaf.item() if leaf.dim() == 0 else leaf.numpy()
        if reduce_type and isinstance(leaf, np.ndarray):
            if np.issubdtype(leaf.dtype, np.floating):
                return leaf.astype(np.float32)
            if leaf.dtype == np.int64:
                return leaf.astype(np.int32)
        return leaf

    return map_values(convert, x)


def convert_numpy_to_python_primitives(obj: Any) -> Any:
    """Return nested values with numbers, texts and lists of Python in place of numpy's, as JSON needs them.

    Args:
        obj: Values in dicts, tuples and lists.
    """
    return map_values(lambda leaf: leaf.tolist() if isinstance(leaf, np.ndarray | np.generic) else leaf, obj)


def one_hot(
    x: Any, depth: int = 0, on_value: float = 1.0, off_value: float = 0.0, dtype: Any = np.float32
) -> np.ndarray[Any, Any]:
    """Return an array with one more dimension, in which the place that each number names is on.

    Args:
        x: Whole numbers or booleans, as a number, an array or a tensor.
        depth: Length of the new dimension; 0 for the largest number and one.
        on_value: Value of the named places.
        off_value: Value of the others.
        dtype: Type of the result.

    Raises:
        ValueError: A number is not below `depth`.
    """
    places = np.asarray(x)
    if places.dtype == np.bool_:
        places, depth = places.astype(np.int_), 2
    depth = depth or int(places.max()) + 1
    if places.size and places.max() >= depth:
        raise ValueError(f"one_hot has a number of {places.max()}, which needs a depth over {depth}")
    out = np.full((*places.shape, depth), off_value, dtype)
    np.put_along_axis(out, places[..., None], on_value, axis=-1)
    return out


def one_hot_multidiscrete(x: Any, depths: Sequence[int]) -> np.ndarray[Any, Any]:
    """Return the one-hot arrays of the columns of `x`, beside each other.

    Args:
        x: Whole numbers, one column per depth.
        depths: The lengths.
    """
    columns = np.asarray(x)
    return np.concatenate([one_hot(columns[..., i], int(n)) for i, n in enumerate(depths)], axis=-1)


def softmax(x: Any, axis: int = -1, epsilon: float | None = None) -> np.ndarray[Any, Any]:
    """Return probabilities from logits.

    Args:
        x: The logits.
        axis: The dimension that adds up to 1.
        epsilon: The least probability; 1e-6 if None.
    """
    logits = np.asarray(x)
    # Without the largest logit, which changes nothing but keeps the powers finite.
    powers = np.exp(logits - logits.max(axis, keepdims=True))
    shares: np.ndarray[Any, Any] = np.maximum(
        powers / powers.sum(axis, keepdims=True), epsilon or SMALL_NUMBER
    )
    return shares


def sigmoid(x: Any, derivative: bool = False) -> Any:
    """Return the logistic function of `x`, or its derivative where its value is `x`."""
    return x * (1 - x) if derivative else 1 / (1 + np.exp(-x))


def relu(x: Any, alpha: float = 0.0) -> Any:
    """Return `x` with negative numbers multiplied by `alpha`."""
    return np.maximum(x, x * alpha)


def huber_loss(x: Any, delta: float = 1.0) -> Any:
    """Return half the square of `x` below `delta`, and a line beyond."""
    size = np.abs(x)
    return np.where(size < delta, np.power(x, 2.0) * 0.5, delta * (size - 0.5 * delta))


def l2_loss(x: Any) -> Any:
    """Return half the sum of the squares of `x`."""
    return np.sum(np.square(x)) / 2.0
