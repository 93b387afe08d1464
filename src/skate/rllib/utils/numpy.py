"""Small functions on arrays of numpy, and from tensors to arrays."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from types import MappingProxyType
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


def fc(x: Any, weights: Any, biases: Any = None, framework: str | None = None) -> Any:
    """Return the output of a dense layer.

    Args:
        x: Rows.
        weights: Weights; those of torch, which are transposed, with ``framework="torch"``.
        biases: Biases; None for none.
        framework: "torch" or None.
    """
    x, weights, biases = (convert_to_numpy(each, reduce_type=False) for each in (x, weights, biases))
    if framework == "torch" and x.shape[1] != weights.shape[0] and x.shape[1] == weights.shape[1]:
        weights = weights.T
    product = x @ weights
    return product if biases is None else product + biases


def lstm(
    x: Any,
    weights: Any,
    biases: Any = None,
    initial_internal_states: Any = None,
    time_major: bool = False,
    forget_bias: float = 1.0,
) -> tuple[Any, tuple[Any, Any]]:
    """Return the outputs of an LSTM layer for each step, and its last cell and output.

    Args:
        x: Inputs of shape (rows, steps, numbers), or (steps, rows, numbers) with `time_major`.
        weights: One matrix for inputs and outputs of the step before, with the gates input, cell, forget and output.
        biases: Biases of the gates; None for none.
        initial_internal_states: The cell and the output before the first step; zeros if None.
        time_major: True for steps before rows, also in the outputs.
        forget_bias: Added to the forget gate.
    """
    steps = np.asarray(x) if time_major else np.swapaxes(x, 0, 1)
    units = weights.shape[1] // 4
    nothing = np.zeros((steps.shape[1], units))
    cell, output = (nothing, nothing) if initial_internal_states is None else initial_internal_states
    outputs = []
    for step in steps:
        gates = fc(np.concatenate([step, output], axis=1), weights, biases)
        enter, new, forget, leave = np.split(gates, 4, axis=1)
        cell = cell * sigmoid(forget + forget_bias) + sigmoid(enter) * np.tanh(new)
        output = sigmoid(leave) * np.tanh(cell)
        outputs.append(output)
    return np.stack(outputs, axis=0 if time_major else 1), (cell, output)


def make_action_immutable(obj: Any) -> Any:
    """Return an array or a dict that cannot be changed; other values as they are.

    Args:
        obj: A part of an action; its own parts stay as they are.
    """
    if isinstance(obj, np.ndarray):
        obj.setflags(write=False)
    elif isinstance(obj, dict):
        return MappingProxyType(dict(obj))
    return obj


def flatten_inputs_to_1d_tensor(
    inputs: Any, spaces_struct: Any = None, time_axis: bool = False
) -> np.ndarray[Any, Any]:
    """Return nested rows as one array of shape (rows, numbers); whole numbers of a space of choices become one-hot.

    Args:
        inputs: Arrays in dicts, tuples and lists; those of a dict come in the order of its keys.
        spaces_struct: The spaces of the arrays, in the same form; without it whole numbers stay as they are.
        time_axis: True for inputs, and a result, with a time dimension after the rows.
    """
    parts = [np.asarray(part) for part in leaves_of(inputs)]
    kinds = [None] * len(parts) if spaces_struct is None else leaves_of(spaces_struct)
    lead = parts[0].shape[: 2 if time_axis else 1]
    flat = []
    for part, space in zip(parts, kinds, strict=True):
        rows = part.reshape(int(np.prod(lead)), -1)
        # Spaces are told by their attributes, since a configuration loads this module, and not gymnasium.
        if hasattr(space, "n") and hasattr(space, "start"):
            rows = one_hot(rows[:, 0], depth=int(space.n))
        elif hasattr(space, "nvec"):
            rows = one_hot_multidiscrete(rows, [int(each) for each in space.nvec.ravel()])
        flat.append(rows.astype(np.float32))
    return np.concatenate(flat, axis=-1).reshape(*lead, -1)


def leaves_of(value: Any) -> list[Any]:
    """Return the leaves of nested dicts, tuples and lists; dicts in the order of their sorted keys."""
    if isinstance(value, dict):
        return [leaf for key in sorted(value) for leaf in leaves_of(value[key])]
    if isinstance(value, list | tuple):
        return [leaf for inner in value for leaf in leaves_of(inner)]
    return [value]
