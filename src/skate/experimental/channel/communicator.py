"""The interface of ways for tensors between actors of a compiled graph."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from skate.util.collective.types import ReduceOp

#: Makes an empty tensor of a shape and dtype, for `recv` to fill.
TorchTensorAllocator = Callable[[Any, Any], Any]


class Communicator(ABC):
    """Carries tensors between a fixed list of actors; made by the driver, sent to the actors, initialized there.

    Collective operations write their result into `recv_buf`, which has the shape of it already.
    """

    @abstractmethod
    def initialize(self, rank: int) -> None:
        """Called in each actor, with its rank, before anything else."""

    @abstractmethod
    def get_actor_handles(self) -> list[Any]:
        """The actors, in the order of their ranks."""

    @abstractmethod
    def get_rank(self, actor: Any) -> int:
        """Return an actor's rank. Raises ValueError if it is not a member."""

    @abstractmethod
    def get_self_rank(self) -> int | None:
        """Return the rank of this process; None if it is not a member, as in the driver."""

    def get_world_size(self) -> int:
        """Return the number of actors."""
        raise NotImplementedError

    @abstractmethod
    def send(self, value: Any, peer_rank: int) -> None:
        """Send a tensor."""

    @abstractmethod
    def recv(
        self, shape: Any, dtype: Any, peer_rank: int, allocator: TorchTensorAllocator | None = None
    ) -> Any:
        """Receive a tensor of this shape and dtype."""

    @property
    @abstractmethod
    def recv_stream(self) -> Any:
        """The stream that received tensors belong to; None without a GPU."""

    @property
    @abstractmethod
    def send_stream(self) -> Any:
        """The stream that tensors are sent from; None without a GPU."""

    @abstractmethod
    def allgather(self, send_buf: Any, recv_buf: Any) -> None:
        """All members' tensors, one behind the other."""

    @abstractmethod
    def allreduce(self, send_buf: Any, recv_buf: Any, op: ReduceOp = ReduceOp.SUM) -> None:
        """All members' tensors put together."""

    @abstractmethod
    def reducescatter(self, send_buf: Any, recv_buf: Any, op: ReduceOp = ReduceOp.SUM) -> None:
        """All members' tensors put together, and this member's share of the result."""

    @abstractmethod
    def destroy(self) -> None:
        """Close connections."""

    @abstractmethod
    def get_transport_name(self) -> str:
        """Return the transport's name, such as "cpu" or "nccl"."""

    @classmethod
    @abstractmethod
    def generate_communicator_id(cls) -> Any:
        """A new id."""


__all__ = ["Communicator", "ReduceOp", "TorchTensorAllocator"]
