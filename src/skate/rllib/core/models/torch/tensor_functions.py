"""Small functions on tensors of torch."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor

from skate.rllib.core.learner.targets import update_target_network
from skate.rllib.core.learner.torch import gradients
from skate.rllib.env.nested import sorted_leaves
from skate.rllib.utils.numpy import SMALL_NUMBER, map_values

__all__ = [
    "FLOAT_MAX", "FLOAT_MIN", "clip_gradients", "compute_global_norm", "convert_to_torch_tensor", "copy_torch_tensors",
    "explained_variance", "flatten_inputs_to_1d_tensor", "global_norm", "huber_loss", "inverse_symlog", "l2_loss",
    "one_hot", "reduce_mean_ignore_inf", "sequence_mask", "set_torch_seed", "softmax_cross_entropy_with_logits",
    "symlog", "two_hot", "update_target_network",
]  # fmt: skip

#: Logits that stand for impossible and certain; infinite ones would give gradients that are no numbers.
FLOAT_MIN = -3.4e38
FLOAT_MAX = 3.4e38


def convert_to_torch_tensor(x: Any, device: Any = None, pin_memory: bool = False) -> Any:
    """Return nested values as tensors; float64 becomes float32.

    Args:
        x: Arrays, numbers or tensors, in dicts, tuples and lists; None and arrays of texts are left as they are.
        device: Where to put them; the CPU if None.
        pin_memory: True to copy through pinned memory, if the device is a GPU.
    """
    place = torch.device("cpu" if device is None else device)

    def convert(leaf: Any) -> Any:
        if leaf is None:
            return None
        if not isinstance(leaf, Tensor):
            array = np.asarray(leaf)
            if array.dtype.kind in "OUS":
                return leaf
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # arrays from the object store cannot be written to
                leaf = torch.from_numpy(array)
        if leaf.is_floating_point() and leaf.dtype != torch.float16:
            leaf = leaf.float()
        if pin_memory and place.type == "cuda":
            leaf = leaf.pin_memory()
        return leaf.to(place)

    return map_values(convert, x)


def one_hot(x: Tensor, space: Any) -> Tensor:
    """Return the one-hot tensor of numbers of a Discrete or MultiDiscrete space.

    Args:
        x: The numbers, of shape (rows,) or (rows, numbers).
        space: The space.

    Raises:
        ValueError: The space is another one.
    """
    if isinstance(space, spaces.Discrete):
        return torch.nn.functional.one_hot(x.long(), int(space.n))
    if isinstance(space, spaces.MultiDiscrete):
        flat = x.reshape(x.shape[0], -1).long()
        parts = [torch.nn.functional.one_hot(flat[:, i], int(n)) for i, n in enumerate(np.ravel(space.nvec))]
        return torch.cat(parts, dim=-1)
    raise ValueError(f"one_hot needs a Discrete or MultiDiscrete space, got {space}")


def copy_torch_tensors(x: Any, device: Any = None) -> Any:
    """Return nested values with copies of the tensors.

    Args:
        x: Tensors and other values, in dicts, tuples and lists.
        device: Where to put the copies; where the tensors are if None.
    """

    def copy(leaf: Any) -> Any:
        return leaf.detach().to(device, copy=True) if isinstance(leaf, Tensor) else leaf

    return map_values(copy, x)


def flatten_inputs_to_1d_tensor(inputs: Any, spaces_struct: Any = None, time_axis: bool = False) -> Tensor:
    """Return nested rows as one tensor of shape (rows, numbers); whole numbers of a space of choices become one-hot.

    Args:
        inputs: Tensors in dicts, tuples and lists; those of a dict come in the order of its keys.
        spaces_struct: The spaces of the tensors, in the same form; without it whole numbers stay as they are.
        time_axis: True for inputs, and a result, with a time dimension after the rows.
    """
    parts = list(sorted_leaves(inputs))
    kinds = [None] * len(parts) if spaces_struct is None else list(sorted_leaves(spaces_struct))
    lead = tuple(parts[0].shape[: 2 if time_axis else 1])
    flat = []
    for part, space in zip(parts, kinds, strict=True):
        rows = part.reshape(math.prod(lead), -1)
        if isinstance(space, spaces.Discrete | spaces.MultiDiscrete):
            rows = one_hot(rows[:, 0] if isinstance(space, spaces.Discrete) else rows, space)
        flat.append(rows.float())
    return torch.cat(flat, dim=-1).reshape(*lead, -1)


def clip_gradients(
    gradients_dict: dict[Any, Any], *, grad_clip: float | None = None, grad_clip_by: str = "value"
) -> Tensor | None:
    """Clip gradients in place.

    Args:
        gradients_dict: Gradients by parameter; None where there is none.
        grad_clip: The bound; None for none.
        grad_clip_by: ``"value"`` bounds each element, ``"norm"`` the norm of each tensor, ``"global_norm"`` that of all
            together.

    Returns:
        The norm of all together before, if that is bounded.

    Raises:
        ValueError: ``grad_clip_by`` is none of these.
    """
    if grad_clip is None:
        return None
    norm = compute_global_norm(gradients_dict.values()) if grad_clip_by == "global_norm" else None
    if any(each is not None for each in gradients_dict.values()):
        gradients.clip_gradients(gradients_dict, grad_clip=grad_clip, grad_clip_by=grad_clip_by, norm=norm)
    return norm


def compute_global_norm(gradients_list: Any) -> Tensor:
    """Return the length of all gradients as one vector, at most 1e9.

    Args:
        gradients_list: The gradients; None where there is none.
    """
    return gradients.global_norm(gradients_list).nan_to_num(neginf=-10e8, posinf=10e8)


def softmax_cross_entropy_with_logits(logits: Tensor, labels: Tensor) -> Tensor:
    """Return the cross entropy of probabilities and logits, of each row.

    Args:
        logits: The logits.
        labels: The probabilities.
    """
    return -(labels * torch.log_softmax(logits, -1)).sum(-1)


def symlog(x: Tensor) -> Tensor:
    """Return the logarithm of the size of `x` and one, with the sign of `x` (Hafner et al., 2023)."""
    return x.sign() * x.abs().log1p()


def inverse_symlog(y: Tensor) -> Tensor:
    """Return the `x` that `symlog` makes `y` of."""
    return y.sign() * y.abs().expm1()


def two_hot(
    value: Tensor,
    num_buckets: int = 255,
    lower_bound: float = -20.0,
    upper_bound: float = 20.0,
    device: Any = None,
) -> Tensor:
    """Return vectors with weights of the two neighbours of each number, of equally spaced ones (Hafner et al., 2023).

    Args:
        value: The numbers, of shape (rows,).
        num_buckets: Count of the equally spaced numbers.
        lower_bound: The least of them; a lesser number counts as this one.
        upper_bound: The largest of them.
        device: Where to put the vectors; the CPU if None.
    """
    place = (value.clamp(lower_bound, upper_bound) - lower_bound) * (
        (num_buckets - 1) / (upper_bound - lower_bound)
    )
    left = place.floor().clamp(max=num_buckets - 2)
    made = torch.zeros(len(value), num_buckets, device=device)
    at = left.long()[:, None]
    return made.scatter(1, at, (1.0 - (place - left))[:, None]).scatter(1, at + 1, (place - left)[:, None])


def explained_variance(y: Tensor, pred: Tensor) -> Tensor:
    """Return the share of the variance of `y` that `pred` has, at least -1."""
    y, pred = y.squeeze(), pred.squeeze()
    share = 1 - torch.var(y - pred, dim=0) / (torch.var(y, dim=0) + SMALL_NUMBER)
    return torch.clamp(share, min=-1.0)


def global_norm(tensors: Any) -> Tensor:
    """Return the length of all tensors as one vector."""
    norm: Tensor = torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(each) for each in tensors]))
    return norm


def huber_loss(x: Tensor, delta: float = 1.0) -> Tensor:
    """Return half the square of `x` below `delta`, and a line beyond."""
    size = x.abs()
    return torch.where(size < delta, x.square() * 0.5, delta * (size - 0.5 * delta))


def l2_loss(x: Tensor) -> Tensor:
    """Return half the sum of the squares of `x`."""
    return 0.5 * x.square().sum()


def reduce_mean_ignore_inf(x: Tensor, axis: int | None = None) -> Tensor:
    """Return the mean without numbers that are minus infinity.

    Args:
        x: The numbers.
        axis: The dimension to reduce; all if None.
    """
    mask = x != float("-inf")
    return torch.where(mask, x, 0.0).sum(axis) / mask.float().sum(axis)


def sequence_mask(
    lengths: Tensor, maxlen: int | None = None, dtype: Any = None, time_major: bool = False
) -> Tensor:
    """Return a mask of shape (rows, time) that is true up to each row's length.

    Args:
        lengths: Length of each row.
        maxlen: Length of the time dimension; the largest length if None.
        dtype: Of Ray's; without effect, as there: the mask is of truth values.
        time_major: True for the shape (time, rows).
    """
    steps = torch.arange(int(lengths.max()) if maxlen is None else maxlen, device=lengths.device)
    mask = steps[None, :] < lengths[:, None]
    return mask.t() if time_major else mask


def set_torch_seed(seed: int | None = None) -> None:
    """Seed torch's streams on CPU and GPUs.

    Args:
        seed: The seed; None changes nothing.
    """
    if seed is not None:
        torch.manual_seed(seed)
