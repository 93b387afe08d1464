"""Backends, operations, and the options of each call."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from typing import Any

unset_timeout_ms = timedelta(milliseconds=-1)


class Backend(str):
    """Return the name of a backend in capitals. Raises ValueError for an unknown one."""

    NCCL = "NCCL"
    GLOO = "GLOO"
    UNRECOGNIZED = "unrecognized"

    def __new__(cls, name: str) -> Any:
        wanted = name.upper()
        found = {"NCCL": cls.NCCL, "GLOO": cls.GLOO, "TORCH_GLOO": cls.GLOO}.get(wanted)
        if found is None:
            raise ValueError(f"Unrecognized backend: '{name}'. Only NCCL and GLOO are supported")
        return found


class ReduceOp(Enum):
    """How values are combined."""

    SUM = 0
    PRODUCT = 1
    MIN = 2
    MAX = 3


@dataclass
class AllReduceOptions:
    """Options of allreduce."""

    reduceOp: ReduceOp = ReduceOp.SUM  # noqa: N815 (Ray's name)
    timeout_ms: timedelta = unset_timeout_ms


@dataclass
class BarrierOptions:
    """Options of barrier."""

    timeout_ms: timedelta = unset_timeout_ms


@dataclass
class ReduceOptions:
    """Options of reduce."""

    reduceOp: ReduceOp = ReduceOp.SUM  # noqa: N815 (Ray's name)
    root_rank: int = 0
    root_tensor: int = 0
    timeout_ms: timedelta = unset_timeout_ms


@dataclass
class AllGatherOptions:
    """Options of allgather."""

    timeout_ms: timedelta = unset_timeout_ms


@dataclass
class BroadcastOptions:
    """Options of broadcast."""

    root_rank: int = 0
    root_tensor: int = 0
    timeout_ms: timedelta = unset_timeout_ms


@dataclass
class ReduceScatterOptions:
    """Options of reducescatter."""

    reduceOp: ReduceOp = ReduceOp.SUM  # noqa: N815 (Ray's name)
    timeout_ms: timedelta = unset_timeout_ms


@dataclass
class SendOptions:
    """Options of send."""

    dst_rank: int = 0
    dst_gpu_index: int = 0
    n_elements: int = 0
    timeout_ms: timedelta = unset_timeout_ms


@dataclass
class RecvOptions:
    """Options of recv."""

    src_rank: int = 0
    src_gpu_index: int = 0
    n_elements: int = 0
    unset_timeout_ms: timedelta = unset_timeout_ms
