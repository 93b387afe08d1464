"""Borders of convolutions and the first weights of layers, for modules that build their own networks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from skate.rllib.core.models.torch.primitives import padding_of

Size = int | Sequence[int]


def normc_initializer(std: float = 1.0) -> Callable[[torch.Tensor], None]:
    """Return a function that fills a weight in place with normal numbers, each row scaled to one length.

    Args:
        std: The length of each row.
    """

    def fill(tensor: torch.Tensor) -> None:
        with torch.no_grad():
            tensor.normal_(0, 1)
            tensor *= std / tensor.square().sum(1, keepdim=True).sqrt()

    return fill


def same_padding(in_size: Sequence[int], filter_size: Size, stride_size: Size) -> Any:
    """Return the borders that keep the size of an image divided by the stride, rounded up.

    Args:
        in_size: Height and width.
        filter_size: Height and width of the filter, or one number for both.
        stride_size: Steps down and to the right, or one number for both.

    Returns:
        The borders left, right, at the top and at the bottom; then the height and width that come out.
    """
    return padding_of(_pair(in_size), _pair(filter_size), _pair(stride_size), "same")


def valid_padding(in_size: Sequence[int], filter_size: Size, stride_size: Size) -> tuple[int, int]:
    """Return the height and width that come out without borders; arguments as of `same_padding`."""
    return padding_of(_pair(in_size), _pair(filter_size), _pair(stride_size), "valid")[1]


def _pair(size: Size) -> tuple[int, int]:
    return (int(size[0]), int(size[1])) if isinstance(size, Sequence) else (int(size), int(size))
