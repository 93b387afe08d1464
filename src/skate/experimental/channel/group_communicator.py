"""Communicators on the groups of `skate.util.collective`."""

from __future__ import annotations

import importlib
import uuid
from typing import Any

from skate.experimental.channel.communicator import Communicator, TorchTensorAllocator
from skate.util.collective import backend_registry, types
from skate.util.collective import collective as _registered  # noqa: F401 (registers the backends)
from skate.util.collective.types import ReduceOp


class GroupCommunicator(Communicator):
    """Actors that communicate as a group of one backend."""

    backend = ""

    def __init__(self, world_size: int, actor_handles: list[Any]) -> None:
        self._world_size = world_size
        self._actor_handles = list(actor_handles)
        self._id = self.generate_communicator_id()
        self._rank: int | None = None
        self._group: Any = None

    def __getstate__(self) -> tuple[Any, ...]:
        return self._world_size, self._actor_handles, self._id

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self._world_size, self._actor_handles, self._id = state
        self._rank = None
        self._group = None

    @classmethod
    def generate_communicator_id(cls) -> str:
        """Return 32 hexadecimal digits."""
        return uuid.uuid4().hex

    def initialize(self, rank: int) -> None:
        """Join the group; returns when all have joined."""
        if self._group is None:
            self._rank = rank
            make = backend_registry._global_registry.get(self.backend)
            self._group = make(self._world_size, rank, self._id)

    def get_actor_handles(self) -> list[Any]:
        """Return the actors, in the order of their ranks."""
        return self._actor_handles

    def get_rank(self, actor: Any) -> int:
        """Return an actor's rank. Raises ValueError if it is not a member."""
        if actor not in self._actor_handles:
            raise ValueError(f"Actor is not in the group: {actor!r}")
        return self._actor_handles.index(actor)

    def get_self_rank(self) -> int | None:
        """Return the rank of this process; None if it is not a member."""
        return self._rank

    def get_world_size(self) -> int:
        """Return the number of actors."""
        return self._world_size

    @property
    def recv_stream(self) -> Any:
        """Return None: only the current stream is used."""
        return None

    @property
    def send_stream(self) -> Any:
        """Return None: only the current stream is used."""
        return None

    def send(self, value: Any, peer_rank: int) -> None:
        """Send a tensor."""
        self._group.send([value], types.SendOptions(dst_rank=peer_rank))

    def recv(
        self, shape: Any, dtype: Any, peer_rank: int, allocator: TorchTensorAllocator | None = None
    ) -> Any:
        """Receive a tensor of this shape and dtype."""
        torch: Any = importlib.import_module("torch")
        made = torch.empty(shape, dtype=dtype) if allocator is None else allocator(shape, dtype)
        self._group.recv([made], types.RecvOptions(src_rank=peer_rank))
        return made

    def allgather(self, send_buf: Any, recv_buf: Any) -> None:
        """Concatenate all members' tensors."""
        self._group.allgather([list(recv_buf.chunk(self._world_size))], [send_buf], types.AllGatherOptions())

    def allreduce(self, send_buf: Any, recv_buf: Any, op: ReduceOp = ReduceOp.SUM) -> None:
        """Reduce all members' tensors."""
        recv_buf.copy_(send_buf)
        self._group.allreduce([recv_buf], types.AllReduceOptions(reduceOp=ReduceOp[op.name]))

    def reducescatter(self, send_buf: Any, recv_buf: Any, op: ReduceOp = ReduceOp.SUM) -> None:
        """Reduce all members' tensors, and keep this member's share of the result."""
        options = types.ReduceScatterOptions(reduceOp=ReduceOp[op.name])
        self._group.reducescatter([recv_buf], [list(send_buf.chunk(self._world_size))], options)

    def destroy(self) -> None:
        """Leave the group."""
        group, self._group = self._group, None
        if group is not None:
            group.destroy_group()

    def get_transport_name(self) -> str:
        """Return the name of the backend."""
        return self.backend.lower()


class CPUCommunicator(GroupCommunicator):
    """Tensors in main memory, over gloo."""

    backend = "GLOO"

    def __init__(self, world_size: int, actor_handles: list[Any]) -> None:
        super().__init__(world_size, actor_handles)
        self._pending: list[Any] = []

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        super().__setstate__(state)
        self._pending = []

    def send(self, value: Any, peer_rank: int) -> None:
        """Send a tensor without blocking, so that two actors may send to each other."""
        self._pending = [each for each in self._pending if not each[0].is_completed()]
        tensor = value.contiguous()
        self._pending.append((self._group._group.send([tensor], peer_rank, 0), tensor))

    def get_transport_name(self) -> str:
        """Return "cpu"."""
        return "cpu"


class NCCLCommunicator(GroupCommunicator):
    """Tensors on GPUs, over NCCL."""

    backend = "NCCL"

    def recv(
        self, shape: Any, dtype: Any, peer_rank: int, allocator: TorchTensorAllocator | None = None
    ) -> Any:
        """Receive a tensor of this shape and dtype, on the current GPU."""
        torch: Any = importlib.import_module("torch")
        make = allocator or (lambda shape, dtype: torch.empty(shape, dtype=dtype, device="cuda"))
        return super().recv(shape, dtype, peer_rank, make)


__all__ = ["CPUCommunicator", "GroupCommunicator", "NCCLCommunicator"]
