"""Options of a node's core, besides its resources."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from skate.protocol.record import FieldDict

if TYPE_CHECKING:
    from skate.core.memory.memory_plan import MemoryPlan
    from skate.protocol.registry_records import RegistryRecord


class NodeOptions(FieldDict, total=False):
    """The options of a node, besides its resources."""

    #: The ids of its whole GPUs.
    gpus: Sequence[Any]
    #: Bytes of shared memory and of each overflow file; or a plan that has them.
    arena_bytes: int
    disk_bytes: Sequence[int]
    memory: MemoryPlan
    #: Values are spilled to external storage.
    spill_outside: bool
    node_id: bytes
    labels: dict[str, str] | None
    #: What else `ray.nodes` shows of it, with its address.
    facts: dict[str, Any]
    #: Fraction of the memory limit above which a worker is killed.
    kill_share: float
    #: Tasks run only while a thread waits, as in local mode.
    local_mode: bool
    #: The number of the first client.
    first_cid: int
    #: This many workers are enough for tasks of microseconds; without it, each gets free resources.
    short_task_workers: int
    #: With at most this many peers, placing a task looks at each; with more, an index is used.
    linear_max: int
    #: Given to a head whose registry is stored: the records so far, none at first.
    records: Sequence[RegistryRecord]
