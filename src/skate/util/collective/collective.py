"""Collective calls between actors (and tasks): each member of a group makes the same call.

A group is created when every member calls `init_collective_group`, or when one process calls
`create_collective_group` for all of them; then it is created at the first call.
"""

from __future__ import annotations

import inspect
import threading
from typing import Any

import skate as ray
from skate.util.collective import types
from skate.util.collective.backend_registry import _global_registry
from skate.util.collective.collective_group.base_collective_group import BaseGroup
from skate.util.collective.collective_group.nccl_collective_group import NCCLGroup
from skate.util.collective.collective_group.torch_gloo_collective_group import TorchGLOOGroup
from skate.util.collective.rendezvous import NAMESPACE

_global_registry.put("GLOO", TorchGLOOGroup)
# asking torch for GPUs takes seconds
_global_registry.put_if_available("NCCL", NCCLGroup)


class Declaration:
    """The arguments of `create_collective_group`, for the members to look up."""

    def __init__(self, arguments: dict[str, Any]) -> None:
        self._arguments = arguments

    def get(self) -> dict[str, Any]:
        """Return the arguments."""
        return self._arguments


class _Groups:
    """The groups of which this process is a member, by name."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.groups: dict[str, BaseGroup] = {}
        #: Declarations that this process made.
        self.declared: dict[str, Any] = {}

    def make(self, declaration: dict[str, Any], rank: int) -> BaseGroup:
        """Join a group."""
        group_class = _global_registry.get(declaration["backend"])
        if not group_class.check_backend_availability():
            raise RuntimeError(f"The backend {declaration['backend']} is not available in this process")
        takes = inspect.signature(group_class.__init__).parameters
        extra = {"gloo_timeout": declaration["gloo_timeout"]} if "gloo_timeout" in takes else {}
        group = group_class(declaration["world_size"], rank, declaration["group_name"], **extra)
        self.groups[declaration["group_name"]] = group
        return group

    def find(self, group_name: str) -> BaseGroup:
        """Return the group of that name, joining it now if it was declared. Raises RuntimeError if there is none."""
        _check_inside()
        with self.lock:
            found = self.groups.get(group_name)
            if found is not None:
                return found
            declaration = _declaration(group_name)
            me = ray.get_runtime_context().get_actor_id()
            if declaration is None or me not in declaration["actors"]:
                raise RuntimeError(f"The collective group '{group_name}' is not initialized in the process.")
            return self.make(declaration, declaration["ranks"][declaration["actors"].index(me)])


_groups = _Groups()


def _declaration(group_name: str) -> dict[str, Any] | None:
    try:
        actor = ray.get_actor(f"declared:{group_name}", NAMESPACE)
    except ValueError:
        return None
    declaration: dict[str, Any] = ray.get(actor.get.remote())
    return declaration


def _check_inside() -> None:
    context = ray.get_runtime_context()
    if context.get_task_id() is None and context.get_actor_id() is None:
        raise RuntimeError("The collective APIs shall be only used inside a Ray actor or task.")


def nccl_available() -> bool:
    """True if groups over NCCL can be created in this process."""
    return NCCLGroup.check_backend_availability()


def gloo_available() -> bool:
    """True if groups over gloo can be created in this process."""
    return TorchGLOOGroup.check_backend_availability()


def is_backend_available(backend: str) -> bool:
    """True if groups of this backend can be created in this process."""
    return _global_registry.is_available(backend)


def init_collective_group(
    world_size: int,
    rank: int,
    backend: str = types.Backend.NCCL,
    group_name: str = "default",
    gloo_timeout: int = 30000,
) -> None:
    """Become member `rank` of a group of `world_size`; every member calls this, and it returns when all have.

    `gloo_timeout` is the time in milliseconds that members wait for each other, here and later. Raises
    RuntimeError for a group that already exists, ValueError for an invalid backend or name, AssertionError
    for a rank.
    """
    _check_inside()
    _global_registry.get(backend)
    if not group_name or not isinstance(group_name, str):
        raise ValueError(f"group_name '{group_name}' needs to be a string.")
    with _groups.lock:
        if group_name in _groups.groups:
            raise RuntimeError("Trying to initialize a group a second time.")
        assert world_size > 0, f"world_size must be positive, got {world_size}"
        assert 0 <= rank < world_size, f"rank must be between 0 and {world_size - 1}, got {rank}"
        declaration = {
            "world_size": world_size,
            "backend": backend,
            "group_name": group_name,
            "gloo_timeout": gloo_timeout,
        }
        _groups.make(declaration, rank)


def create_collective_group(
    actors: list[Any],
    world_size: int,
    ranks: list[int],
    backend: str = types.Backend.NCCL,
    group_name: str = "default",
    gloo_timeout: int = 30000,
) -> None:
    """Declare a group of these actors with these ranks; it is created by their first collective call.

    Raises RuntimeError for invalid ranks, and for a group that is already declared.
    """
    _global_registry.get(backend)
    if len(ranks) != len(actors):
        raise RuntimeError(
            f"Each actor should correspond to one rank. Got '{len(ranks)}' ranks but '{len(actors)}' actors"
        )
    if sorted(ranks) != list(range(len(ranks))):
        raise RuntimeError(
            f"Ranks must be a permutation from 0 to '{len(ranks)}'. Got '{''.join(map(str, ranks))}'."
        )
    if world_size <= 0:
        raise RuntimeError(f"World size must be greater than zero. Got '{world_size}'.")
    declaration = {
        "actors": [actor._skate_id.hex() for actor in actors],
        "ranks": list(ranks),
        "world_size": world_size,
        "backend": backend,
        "group_name": group_name,
        "gloo_timeout": gloo_timeout,
    }
    if _declaration(group_name) is not None:
        raise RuntimeError("Trying to initialize a group twice.")
    options = {"name": f"declared:{group_name}", "namespace": NAMESPACE}
    actor = ray.remote(num_cpus=0)(Declaration).options(**options).remote(declaration)
    ray.get(actor.get.remote())
    _groups.declared[group_name] = actor


def is_group_initialized(group_name: str) -> bool:
    """True if this process is a member of the group."""
    return group_name in _groups.groups


def destroy_collective_group(group_name: str = "default") -> None:
    """Leave a group; no-op if this process is not a member."""
    _check_inside()
    with _groups.lock:
        group = _groups.groups.pop(group_name, None)
        if group is not None:
            group.destroy_group()
        _groups.declared.pop(group_name, None)


def get_rank(group_name: str = "default") -> int:
    """Return this process's rank in the group; -1 if it is not a member."""
    _check_inside()
    group = _groups.groups.get(group_name)
    return -1 if group is None else group.rank


def get_collective_group_size(group_name: str = "default") -> int:
    """Return the number of members of the group; -1 if this process is not a member."""
    _check_inside()
    group = _groups.groups.get(group_name)
    return -1 if group is None else group.world_size


def get_group_handle(group_name: str = "default") -> BaseGroup:
    """Return the group itself. Raises RuntimeError if this process is not a member."""
    return _groups.find(group_name)


def allreduce(tensor: Any, group_name: str = "default", op: types.ReduceOp = types.ReduceOp.SUM) -> None:
    """Reduce the tensors of all members; each member's tensor is overwritten with the result."""
    _check_tensor(tensor)
    _groups.find(group_name).allreduce([tensor], types.AllReduceOptions(reduceOp=op))


def allreduce_multigpu(
    tensor_list: list[Any], group_name: str = "default", op: types.ReduceOp = types.ReduceOp.SUM
) -> None:
    """Run allreduce with one tensor on each GPU of this process."""
    group = _several_gpus(group_name, tensor_list)
    group.allreduce(tensor_list, types.AllReduceOptions(reduceOp=op))


def barrier(group_name: str = "default") -> None:
    """Wait until all members have reached this call."""
    _groups.find(group_name).barrier(types.BarrierOptions())


def reduce(
    tensor: Any, dst_rank: int = 0, group_name: str = "default", op: types.ReduceOp = types.ReduceOp.SUM
) -> None:
    """Reduce the tensors of all members into the tensor of `dst_rank`."""
    _check_tensor(tensor)
    group = _groups.find(group_name)
    _check_rank(group, dst_rank)
    group.reduce([tensor], types.ReduceOptions(reduceOp=op, root_rank=dst_rank))


def reduce_multigpu(
    tensor_list: list[Any],
    dst_rank: int = 0,
    dst_tensor: int = 0,
    group_name: str = "default",
    op: types.ReduceOp = types.ReduceOp.SUM,
) -> None:
    """Run reduce with one tensor on each GPU of this process."""
    group = _several_gpus(group_name, tensor_list)
    _check_rank(group, dst_rank)
    _check_index(len(tensor_list), dst_tensor)
    group.reduce(tensor_list, types.ReduceOptions(reduceOp=op, root_rank=dst_rank, root_tensor=dst_tensor))


def broadcast(tensor: Any, src_rank: int = 0, group_name: str = "default") -> None:
    """Overwrite the tensors of all members with that of `src_rank`."""
    _check_tensor(tensor)
    group = _groups.find(group_name)
    _check_rank(group, src_rank)
    group.broadcast([tensor], types.BroadcastOptions(root_rank=src_rank))


def broadcast_multigpu(
    tensor_list: list[Any], src_rank: int = 0, src_tensor: int = 0, group_name: str = "default"
) -> None:
    """Run broadcast with one tensor on each GPU of this process."""
    group = _several_gpus(group_name, tensor_list)
    _check_rank(group, src_rank)
    _check_index(len(tensor_list), src_tensor)
    group.broadcast(tensor_list, types.BroadcastOptions(root_rank=src_rank, root_tensor=src_tensor))


def allgather(tensor_list: list[Any], tensor: Any, group_name: str = "default") -> None:
    """Overwrite the tensors of the list with those of all members, in the order of their ranks."""
    _check_tensor(tensor)
    _check_tensors(tensor_list)
    group = _groups.find(group_name)
    if len(tensor_list) != group.world_size:
        raise RuntimeError(
            "The length of the tensor list operands to allgather must be equal to world_size. "
            f"Got {len(tensor_list)} tensors for {group.world_size} members."
        )
    group.allgather([tensor_list], [tensor], types.AllGatherOptions())


def allgather_multigpu(
    output_tensor_lists: list[Any], input_tensor_list: list[Any], group_name: str = "default"
) -> None:
    """Run allgather with one tensor on each GPU of this process."""
    group = _several_gpus(group_name, input_tensor_list)
    group.allgather(output_tensor_lists, input_tensor_list, types.AllGatherOptions())


def reducescatter(
    tensor: Any, tensor_list: list[Any], group_name: str = "default", op: types.ReduceOp = types.ReduceOp.SUM
) -> None:
    """Reduce the lists of all members, position by position; `tensor` receives the result for this member's rank."""
    _check_tensor(tensor)
    _check_tensors(tensor_list)
    group = _groups.find(group_name)
    if len(tensor_list) != group.world_size:
        raise RuntimeError(
            "The length of the tensor list operands to reducescatter must not be equal to world_size. "
            f"Got {len(tensor_list)} tensors for {group.world_size} members."
        )
    group.reducescatter([tensor], [tensor_list], types.ReduceScatterOptions(reduceOp=op))


def reducescatter_multigpu(
    output_tensor_list: list[Any],
    input_tensor_lists: list[Any],
    group_name: str = "default",
    op: types.ReduceOp = types.ReduceOp.SUM,
) -> None:
    """Run reducescatter with one tensor on each GPU of this process."""
    group = _several_gpus(group_name, output_tensor_list)
    group.reducescatter(output_tensor_list, input_tensor_lists, types.ReduceScatterOptions(reduceOp=op))


def send(tensor: Any, dst_rank: int, group_name: str = "default") -> None:
    """Send a tensor to `dst_rank`, which calls `recv`."""
    _check_tensor(tensor)
    group = _groups.find(group_name)
    _check_rank(group, dst_rank)
    _check_other(group, dst_rank)
    group.send([tensor], types.SendOptions(dst_rank=dst_rank))


def send_multigpu(
    tensor: Any, dst_rank: int, dst_gpu_index: int, group_name: str = "default", n_elements: int = 0
) -> None:
    """Run send to one of several GPUs of a process."""
    _check_tensor(tensor)
    if not nccl_available():
        raise RuntimeError("send_multigpu call requires NCCL.")
    group = _groups.find(group_name)
    _check_rank(group, dst_rank)
    _check_other(group, dst_rank)
    group.send([tensor], types.SendOptions(dst_rank, dst_gpu_index, _elements(n_elements)))


def recv(tensor: Any, src_rank: int, group_name: str = "default") -> None:
    """Overwrite a tensor with the one that `src_rank` sends."""
    _check_tensor(tensor)
    group = _groups.find(group_name)
    _check_rank(group, src_rank)
    _check_other(group, src_rank)
    group.recv([tensor], types.RecvOptions(src_rank=src_rank))


def recv_multigpu(
    tensor: Any, src_rank: int, src_gpu_index: int, group_name: str = "default", n_elements: int = 0
) -> None:
    """Run recv from one of several GPUs of a process."""
    _check_tensor(tensor)
    if not nccl_available():
        raise RuntimeError("recv_multigpu call requires NCCL.")
    group = _groups.find(group_name)
    _check_rank(group, src_rank)
    _check_other(group, src_rank)
    group.recv([tensor], types.RecvOptions(src_rank, src_gpu_index, _elements(n_elements)))


# -- validation of arguments


def _several_gpus(group_name: str, tensors: list[Any]) -> BaseGroup:
    if not nccl_available():
        raise RuntimeError("Multigpu calls requires NCCL and Cupy.")
    _check_tensors(tensors)
    return _groups.find(group_name)


def _elements(count: int) -> int:
    if count < 0:
        raise RuntimeError(f"The n_elements '{count}' should >= 0.")
    return count


def _check_tensor(tensor: Any) -> None:
    module = type(tensor).__module__.partition(".")[0]
    if (module == "numpy" and type(tensor).__name__ == "ndarray") or hasattr(tensor, "data_ptr"):
        return
    if module == "cupy":
        return
    raise RuntimeError(
        f"Unrecognized tensor type '{type(tensor)}'. Supported types are: np.ndarray, torch.Tensor, cupy.ndarray."
    )


def _check_tensors(tensors: Any) -> None:
    if not isinstance(tensors, list):
        raise RuntimeError(f"The input must be a list of tensors. Got '{type(tensors)}'.")
    if not tensors:
        raise RuntimeError("Got an empty list of tensors.")
    for each in tensors:
        _check_tensor(each)


def _check_rank(group: BaseGroup, rank: int) -> None:
    if rank < 0:
        raise ValueError(f"rank '{rank}' is negative.")
    if rank >= group.world_size:
        raise ValueError(f"rank '{rank}' must be less than world size '{group.world_size}'")


def _check_other(group: BaseGroup, rank: int) -> None:
    if rank == group.rank:
        raise RuntimeError(f"The destination rank '{rank}' is self.")


def _check_index(count: int, index: int) -> None:
    if not 0 <= index < count:
        raise RuntimeError(f"The index of the tensor, {index}, must be between 0 and {count - 1}.")
