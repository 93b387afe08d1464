"""Groups over NCCL: tensors on GPUs, one GPU per member."""

from __future__ import annotations

import datetime
import importlib
import importlib.util
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

RENDEZVOUS_SECONDS = 60.0


class NCCLGroup(BaseGroup):
    """A member of a group over NCCL, by torch.distributed; it uses the process's current GPU."""

    def __init__(self, world_size: int, rank: int, group_name: str) -> None:
        super().__init__(world_size, rank, group_name)
        # takes seconds, and only members of groups need it
        torch: Any = importlib.import_module("torch")
        dist: Any = importlib.import_module("torch.distributed")

        timeout = datetime.timedelta(seconds=RENDEZVOUS_SECONDS)
        ip = get_node_ip_address()
        opened: list[Any] = []

        def offer() -> tuple[str, int]:
            opened.append(dist.TCPStore(ip, 0, None, True, timeout, wait_for_workers=False))
            return ip, opened[0].port

        address, held = rendezvous("nccl", group_name, rank, world_size, RENDEZVOUS_SECONDS, offer)
        self._store: Any = (
            opened[0] if opened else dist.TCPStore(*address, None, False, timeout, wait_for_workers=False)
        )
        self._dist = dist
        self._torch = torch
        self._group: Any = dist.ProcessGroupNCCL(
            dist.PrefixStore(group_name, self._store), rank, world_size, dist.ProcessGroupNCCL.Options()
        )
        self._ops = {
            ReduceOp.SUM: dist.ReduceOp.SUM,
            ReduceOp.PRODUCT: dist.ReduceOp.PRODUCT,
            ReduceOp.MIN: dist.ReduceOp.MIN,
            ReduceOp.MAX: dist.ReduceOp.MAX,
        }
        self.barrier()
        del held

    @classmethod
    def backend(cls) -> str:
        """The name of the backend, NCCL."""
        return "NCCL"

    @classmethod
    def check_backend_availability(cls) -> bool:
        """True if torch has NCCL and sees a GPU."""
        if importlib.util.find_spec("torch") is None:
            return False
        import torch  # takes seconds, and is needed only if there may be a GPU

        return bool(torch.cuda.is_available() and torch.distributed.is_nccl_available())

    def destroy_group(self) -> None:
        """Close the connections."""
        self._group = None
        self._store = None

    def allreduce(self, tensor: Any, allreduce_options: AllReduceOptions = AllReduceOptions()) -> None:
        """Combine all members' tensors, in each of them."""
        options = self._dist.AllreduceOptions()
        options.reduceOp = self._ops[allreduce_options.reduceOp]
        self._group.allreduce(_on_gpu(tensor), options).wait()

    def barrier(self, barrier_options: BarrierOptions = BarrierOptions()) -> None:
        """Wait for all members."""
        flag = self._torch.zeros(1, device="cuda")
        self._group.allreduce([flag], self._dist.AllreduceOptions()).wait()
        self._torch.cuda.synchronize()

    def reduce(self, tensor: Any, reduce_options: ReduceOptions = ReduceOptions()) -> None:
        """Reduce all members' tensors into the root's."""
        options = self._dist.ReduceOptions()
        options.reduceOp = self._ops[reduce_options.reduceOp]
        options.rootRank = reduce_options.root_rank
        self._group.reduce(_on_gpu(tensor), options).wait()

    def broadcast(self, tensor: Any, broadcast_options: BroadcastOptions = BroadcastOptions()) -> None:
        """Give every member the root's tensor."""
        options = self._dist.BroadcastOptions()
        options.rootRank = broadcast_options.root_rank
        options.rootTensor = broadcast_options.root_tensor
        self._group.broadcast(_on_gpu(tensor), options).wait()

    def allgather(
        self, tensor_list: Any, tensor: Any, allgather_options: AllGatherOptions = AllGatherOptions()
    ) -> None:
        """Give every member all tensors."""
        targets = tensor_list if isinstance(tensor_list[0], list) else [tensor_list]
        self._group.allgather(targets, _on_gpu(tensor)).wait()

    def reducescatter(
        self,
        tensor: Any,
        tensor_list: Any,
        reducescatter_options: ReduceScatterOptions = ReduceScatterOptions(),
    ) -> None:
        """Reduce the tensors at each position, and give each member its own result."""
        options = self._dist.ReduceScatterOptions()
        options.reduceOp = self._ops[reducescatter_options.reduceOp]
        sources = tensor_list if isinstance(tensor_list[0], list) else [tensor_list]
        self._group.reduce_scatter(_on_gpu(tensor), sources, options).wait()

    def send(self, tensor: Any, send_options: SendOptions) -> None:
        """Send a tensor to a member that receives it."""
        self._group.send(_on_gpu(tensor), send_options.dst_rank, 0).wait()

    def recv(self, tensor: Any, recv_options: RecvOptions) -> None:
        """Receive a tensor from a member that sends it."""
        self._group.recv(_on_gpu(tensor), recv_options.src_rank, 0).wait()


def _on_gpu(given: Any) -> list[Any]:
    tensors = given if isinstance(given, list) else [given]
    for tensor in tensors:
        where = getattr(getattr(tensor, "device", None), "type", None)
        if where != "cuda":
            raise RuntimeError(
                f"NCCL groups take torch tensors on a GPU, got a {type(tensor).__name__}"
                + (f" on {where}" if where else "")
                + "; move it with .cuda(), or use backend='gloo'"
            )
    return tensors
