"""The interface of tensor transports between actors of a compiled graph."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from skate.util.collective.types import ReduceOp

#: Creates an empty tensor with a shape and dtype, for `recv` to fill.
TorchTensorAllocator = Callable[[Any, Any], Any]


class Communicator(ABC):
    """Transfers tensors between a fixed list of actors; created by the driver, sent to the actors and
    initialized there.

    Collective operations write their result into `recv_buf`, which already has its shape.
    """

    @abstractmethod
    def initialize(self, rank: int) -> None:
        """Called in each actor, with its rank, before anything else."""

    @abstractmethod
    def get_actor_handles(self) -> list[Any]:
        """Return the actors, in the order of their ranks."""

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
        """The stream of received tensors; None without a GPU."""

    @property
    @abstractmethod
    def send_stream(self) -> Any:
        """The stream of sent tensors; None without a GPU."""

    @abstractmethod
    def allgather(self, send_buf: Any, recv_buf: Any) -> None:
        """Concatenate all members' tensors."""

    @abstractmethod
    def allreduce(self, send_buf: Any, recv_buf: Any, op: ReduceOp = ReduceOp.SUM) -> None:
        """Reduce all members' tensors."""

    @abstractmethod
    def reducescatter(self, send_buf: Any, recv_buf: Any, op: ReduceOp = ReduceOp.SUM) -> None:
        """Reduce all members' tensors, and keep this member's share of the result."""

    @abstractmethod
    def destroy(self) -> None:
        """Close connections."""

    @abstractmethod
    def get_transport_name(self) -> str:
        """Return the transport's name, such as "cpu" or "nccl"."""

    @classmethod
    @abstractmethod
    def generate_communicator_id(cls) -> Any:
        """Generate a new id."""


__all__ = ["Communicator", "ReduceOp", "TorchTensorAllocator"]
