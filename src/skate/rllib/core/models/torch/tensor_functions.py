"""Small functions on tensors of torch."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor

from skate.rllib.core.learner.targets import update_target_network
from skate.rllib.utils.numpy import SMALL_NUMBER, map_values

__all__ = [
    "FLOAT_MAX", "FLOAT_MIN", "convert_to_torch_tensor", "explained_variance", "global_norm", "huber_loss", "l2_loss",
    "one_hot", "reduce_mean_ignore_inf", "sequence_mask", "set_torch_seed", "update_target_network",
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


def sequence_mask(lengths: Tensor, maxlen: int | None = None, time_major: bool = False) -> Tensor:
    """Return a mask of shape (rows, time) that is true up to each row's length.

    Args:
        lengths: Length of each row.
        maxlen: Length of the time dimension; the largest length if None.
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
