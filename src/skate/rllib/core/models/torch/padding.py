"""Borders of convolutions, for modules that build their own networks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from skate.rllib.core.models.torch.primitives import padding_of

Size = int | Sequence[int]


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
