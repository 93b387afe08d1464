"""Base of all groups."""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from typing import Any

from skate.util.collective.types import (
    AllGatherOptions,
    AllReduceOptions,
    BarrierOptions,
    BroadcastOptions,
    RecvOptions,
    ReduceOptions,
    ReduceScatterOptions,
    SendOptions,
)


class BaseGroup(metaclass=ABCMeta):
    """A member of a group: its rank, and the calls, each with a list of tensors (one, unless there are several GPUs)."""

    def __init__(self, world_size: int, rank: int, group_name: str) -> None:
        self._world_size = world_size
        self._rank = rank
        self._group_name = group_name

    @property
    def rank(self) -> int:
        """This member's rank, from 0."""
        return self._rank

    @property
    def world_size(self) -> int:
        """The number of members."""
        return self._world_size

    @property
    def group_name(self) -> str:
        """The group's name."""
        return self._group_name

    def destroy_group(self) -> None:  # noqa: B027 (a backend may have nothing to let go of)
        """Close connections and release memory."""

    @classmethod
    def backend(cls) -> str:
        """The name of the backend."""
        raise NotImplementedError

    @classmethod
    def check_backend_availability(cls) -> bool:
        """True if it can be used in this process."""
        raise NotImplementedError

    @abstractmethod
    def allreduce(self, tensor: Any, allreduce_options: AllReduceOptions = AllReduceOptions()) -> None:
        """Combine all members' tensors, in each of them."""

    @abstractmethod
    def barrier(self, barrier_options: BarrierOptions = BarrierOptions()) -> None:
        """Wait for all members."""

    @abstractmethod
    def reduce(self, tensor: Any, reduce_options: ReduceOptions = ReduceOptions()) -> None:
        """Combine all members' tensors, in one of them."""

    @abstractmethod
    def allgather(
        self, tensor_list: Any, tensor: Any, allgather_options: AllGatherOptions = AllGatherOptions()
    ) -> None:
        """Give every member all tensors."""

    @abstractmethod
    def broadcast(self, tensor: Any, broadcast_options: BroadcastOptions = BroadcastOptions()) -> None:
        """Give every member one member's tensor."""

    @abstractmethod
    def reducescatter(
        self,
        tensor: Any,
        tensor_list: Any,
        reducescatter_options: ReduceScatterOptions = ReduceScatterOptions(),
    ) -> None:
        """Reduce the tensors at each position, and give each member its own result."""

    @abstractmethod
    def send(self, tensor: Any, send_options: SendOptions) -> None:
        """Send a tensor to a member that receives it."""

    @abstractmethod
    def recv(self, tensor: Any, recv_options: RecvOptions) -> None:
        """Receive a tensor from a member that sends it."""
