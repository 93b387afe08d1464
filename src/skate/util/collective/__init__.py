"""Collective communication between actors: allreduce, broadcast, send, over gloo or NCCL.

collective.py        the functions
backend_registry.py  the available backends
rendezvous.py        the rendezvous of a group's members
types.py             Backend, ReduceOp, options
collective_group/    one file per backend, and their base
"""

from __future__ import annotations

from skate.util.collective.backend_registry import (
    is_registered_collective_backend,
    register_collective_backend,
)
from skate.util.collective.collective import (
    allgather,
    allgather_multigpu,
    allreduce,
    allreduce_multigpu,
    barrier,
    broadcast,
    broadcast_multigpu,
    create_collective_group,
    destroy_collective_group,
    get_collective_group_size,
    get_group_handle,
    get_rank,
    gloo_available,
    init_collective_group,
    is_backend_available,
    is_group_initialized,
    nccl_available,
    recv,
    recv_multigpu,
    reduce,
    reduce_multigpu,
    reducescatter,
    reducescatter_multigpu,
    send,
    send_multigpu,
)

__all__ = [
    "allgather",
    "allgather_multigpu",
    "allreduce",
    "allreduce_multigpu",
    "barrier",
    "broadcast",
    "broadcast_multigpu",
    "create_collective_group",
    "destroy_collective_group",
    "get_collective_group_size",
    "get_group_handle",
    "get_rank",
    "gloo_available",
    "init_collective_group",
    "is_backend_available",
    "is_group_initialized",
    "is_registered_collective_backend",
    "nccl_available",
    "recv",
    "recv_multigpu",
    "reduce",
    "reduce_multigpu",
    "reducescatter",
    "reducescatter_multigpu",
    "register_collective_backend",
    "send",
    "send_multigpu",
]
