"""The kinds of collective operations, and of devices."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class ReduceOp(enum.Enum):
    """How values are combined."""

    SUM = 0
    PRODUCT = 1
    MAX = 2
    MIN = 3
    AVG = 4

    def __str__(self) -> str:
        return self.name.lower()


@dataclass
class AllGatherOp:
    """Every rank gets the values of all ranks."""


@dataclass
class AllReduceOp:
    """Every rank gets the reduction of all values."""

    reduceOp: ReduceOp = ReduceOp.SUM


@dataclass
class ReduceScatterOp:
    """Every rank gets its part of the reduction of all values."""

    reduceOp: ReduceOp = ReduceOp.SUM


class Device(enum.Enum):
    """The device on which tensors arrive."""

    DEFAULT = "default"
    CPU = "cpu"
    GPU = "gpu"
    CUDA = "cuda"
