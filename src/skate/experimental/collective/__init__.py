"""Collective groups of actors, created from outside, and collective operations of compiled graphs.

groups.py      create_collective_group and the calls around it
operations.py  allreduce.bind, allgather.bind, reducescatter.bind
"""

from __future__ import annotations

from skate.experimental.collective.groups import (
    CommunicatorHandle,
    create_collective_group,
    destroy_all_collective_groups,
    destroy_collective_group,
    get_collective_groups,
)
from skate.experimental.collective.operations import allgather, allreduce, reducescatter

__all__ = [
    "CommunicatorHandle",
    "allgather",
    "allreduce",
    "create_collective_group",
    "destroy_all_collective_groups",
    "destroy_collective_group",
    "get_collective_groups",
    "reducescatter",
]
