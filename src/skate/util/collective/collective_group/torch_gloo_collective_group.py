"""Groups over gloo: tensors in main memory."""

from __future__ import annotations

import contextlib
import datetime
import importlib
import importlib.util
import warnings
from collections.abc import Iterator
from typing import Any

from skate.util.collective.collective_group.base_collective_group import BaseGroup
from skate.util.collective.rendezvous import rendezvous
from skate.util.collective.types import (
    AllGatherOptions,
    AllReduceOptions,
    BarrierOptions,
    BroadcastOptions,
    RecvOptions,
    ReduceOp,
    ReduceOptions,
    ReduceScatterOptions,
    SendOptions,
)
from skate.util.nodes import get_node_ip_address

DEFAULT_TIMEOUT_MS = 30_000


class TorchGLOOGroup(BaseGroup):
    """A member of a group over gloo, by torch.distributed; it does not use torch's default group."""

    def __init__(
        self, world_size: int, rank: int, group_name: str, gloo_timeout: int | None = DEFAULT_TIMEOUT_MS
    ) -> None:
        super().__init__(world_size, rank, group_name)
        # takes seconds, and only members of groups need it
        dist: Any = importlib.import_module("torch.distributed")

        milliseconds = DEFAULT_TIMEOUT_MS if gloo_timeout is None else gloo_timeout
        timeout = datetime.timedelta(milliseconds=milliseconds)
        ip = get_node_ip_address()
        opened: list[Any] = []

        def offer() -> tuple[str, int]:
            opened.append(dist.TCPStore(ip, 0, None, True, timeout, wait_for_workers=False))
            return ip, opened[0].port

        address, held = rendezvous("gloo", group_name, rank, world_size, milliseconds / 1000, offer)
        store = opened[0] if opened else dist.TCPStore(*address, None, False, timeout, wait_for_workers=False)
        self._store: Any = store
        options = dist.ProcessGroupGloo._Options()
        options._timeout = timeout
        options._devices = [dist.ProcessGroupGloo.create_device(hostname=ip)]
        try:
            self._group: Any = dist.ProcessGroupGloo(
                dist.PrefixStore(group_name, store), rank, world_size, options
            )
        except RuntimeError as error:
            raise RuntimeError(
                f"the {world_size} members of the collective group {group_name!r} have not all joined within "
                f"{milliseconds / 1000:g} s; every member must call init_collective_group: {error}"
            ) from error
        self._ops = {
            ReduceOp.SUM: dist.ReduceOp.SUM,
            ReduceOp.PRODUCT: dist.ReduceOp.PRODUCT,
            ReduceOp.MIN: dist.ReduceOp.MIN,
            ReduceOp.MAX: dist.ReduceOp.MAX,
        }
        self._dist = dist
        self._timeout = timeout
        self.barrier()  # if the store closes before all have joined, some members would fail
        del held

    @classmethod
    def backend(cls) -> str:
        """The name of the backend, GLOO."""
        return "GLOO"

    @classmethod
    def check_backend_availability(cls) -> bool:
        """True if torch is installed."""
        return importlib.util.find_spec("torch") is not None

    def destroy_group(self) -> None:
        """Close the connections."""
        self._group = None
        self._store = None

    def allreduce(self, tensor: Any, allreduce_options: AllReduceOptions = AllReduceOptions()) -> None:
        """Combine all members' tensors, in each of them."""
        options = self._dist.AllreduceOptions()
        options.reduceOp = self._ops[allreduce_options.reduceOp]
        with self._tensors(tensor) as (flat, _):
            self._group.allreduce(flat, options).wait()

    def barrier(self, barrier_options: BarrierOptions = BarrierOptions()) -> None:
        """Wait for all members."""
        self._group.barrier(self._dist.BarrierOptions()).wait()

    def reduce(self, tensor: Any, reduce_options: ReduceOptions = ReduceOptions()) -> None:
        """Reduce all members' tensors into the root's; the others stay unchanged."""
        options = self._dist.ReduceOptions()
        options.reduceOp = self._ops[reduce_options.reduceOp]
        options.rootRank = reduce_options.root_rank
        with self._tensors(tensor) as (flat, _):
            # gloo leaves partial sums in the other members' tensors.
            work = flat if self._rank == reduce_options.root_rank else [flat[0].clone()]
            self._group.reduce(work, options).wait()

    def broadcast(self, tensor: Any, broadcast_options: BroadcastOptions = BroadcastOptions()) -> None:
        """Give every member the root's tensor."""
        options = self._dist.BroadcastOptions()
        options.rootRank = broadcast_options.root_rank
        options.rootTensor = 0
        with self._tensors(tensor) as (flat, _):
            self._group.broadcast(flat, options).wait()

    def allgather(
        self, tensor_list: Any, tensor: Any, allgather_options: AllGatherOptions = AllGatherOptions()
    ) -> None:
        """Give every member all tensors."""
        targets = tensor_list[0] if tensor_list and isinstance(tensor_list[0], list) else tensor_list
        with self._tensors(tensor) as (flat, _), self._tensors(targets) as (places, _):
            self._group.allgather([places], flat).wait()

    def reducescatter(
        self,
        tensor: Any,
        tensor_list: Any,
        reducescatter_options: ReduceScatterOptions = ReduceScatterOptions(),
    ) -> None:
        """Reduce the tensors at each position, and give each member its own result."""
        sources = tensor_list[0] if tensor_list and isinstance(tensor_list[0], list) else tensor_list
        options = self._dist.AllreduceOptions()
        options.reduceOp = self._ops[reducescatter_options.reduceOp]
        import torch  # available together with torch.distributed

        with self._tensors(tensor) as (flat, _), self._tensors(sources) as (given, _):
            together = torch.stack([each.contiguous() for each in given])
            self._group.allreduce([together], options).wait()
            flat[0].copy_(together[self._rank])

    def send(self, tensor: Any, send_options: SendOptions) -> None:
        """Send a tensor to a member that receives it."""
        with self._tensors(tensor) as (flat, _):
            self._group.send(flat, send_options.dst_rank, 0).wait()

    def recv(self, tensor: Any, recv_options: RecvOptions) -> None:
        """Receive a tensor from a member that sends it."""
        with self._tensors(tensor) as (flat, _):
            self._group.recv(flat, recv_options.src_rank, 0).wait()

    @contextlib.contextmanager
    def _tensors(self, given: Any) -> Iterator[tuple[list[Any], None]]:
        """Provide contiguous torch tensors; copies are written back afterwards."""
        if self._group is None:
            raise RuntimeError(f"the collective group {self._group_name!r} was destroyed")
        tensors = [_as_tensor(each) for each in (given if isinstance(given, list) else [given])]
        flat = [each if each.is_contiguous() else each.contiguous() for each in tensors]
        yield flat, None
        for one, other in zip(tensors, flat, strict=True):
            if one is not other:
                one.copy_(other)


def _as_tensor(value: Any) -> Any:
    """Return a torch tensor over the same memory."""
    import torch  # available together with torch.distributed

    if isinstance(value, torch.Tensor):
        if value.device.type != "cpu":
            raise RuntimeError(
                f"gloo groups take tensors in main memory, got one on {value.device}; use backend='nccl' for it"
            )
        return value
    if not value.flags.writeable and not _is_private(value):
        raise ValueError(
            "a collective call writes into the array, but this one is a read-only view of the object store; copy it first"
        )
    with warnings.catch_warnings():
        # An array passed as an argument is marked read-only, but its bytes belong to this process.
        warnings.simplefilter("ignore")
        return torch.from_numpy(value)


def _is_private(array: Any) -> bool:
    base = array
    while base is not None and not isinstance(base, (bytes, bytearray)):
        base = base.obj if isinstance(base, memoryview) else getattr(base, "base", None)
    return base is not None
