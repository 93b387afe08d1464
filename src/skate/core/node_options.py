"""Options of a node: all that its core is made of besides its resources."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypedDict

if TYPE_CHECKING:
    from skate.core.memory.memory_plan import MemoryPlan


class NodeOptions(TypedDict, total=False):
    """The options of a node, besides its resources."""

    #: The ids of its GPUs, whole.
    gpus: Sequence[Any]
    #: Bytes of shared memory, and of each file that memory overflows to; or a plan that has them.
    arena_bytes: int
    disk_bytes: Sequence[int]
    memory: MemoryPlan
    #: Values are spilled to a storage elsewhere.
    spill_outside: bool
    node_id: bytes
    labels: dict[str, str] | None
    #: Share of the memory limit above which a worker is ended.
    kill_share: float
    #: Nothing runs while no thread waits, as in local mode.
    patient: bool
    #: The number of the first client.
    first_cid: int
    #: Peers up to which each is looked at to place a task; beyond that there is an index.
    linear_max: int
