"""The components of a node that handle its shell's events and that its snapshot reads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from skate.core.actor.actor_table import ActorTable
    from skate.core.client import Client
    from skate.core.clock import Clock
    from skate.core.cluster.cluster import Cluster
    from skate.core.cluster.node_drains import NodeDrains
    from skate.core.cluster.remote_objects import RemoteObjects
    from skate.core.diagnosis.wait_explainer import WaitExplainer
    from skate.core.diagnosis.wait_registry import WaitRegistry
    from skate.core.job.job_table import JobTable
    from skate.core.memory.admission import Admission
    from skate.core.memory.memory_plan import MemoryPlan
    from skate.core.memory.memory_pressure import MemoryPressure
    from skate.core.memory.spill_manager import SpillManager
    from skate.core.object.lifetimes import Lifetimes
    from skate.core.object.object_table import ObjectTable
    from skate.core.outbox import Outbox
    from skate.core.placement.placement_table import PlacementTable
    from skate.core.resource.capacity import Capacity
    from skate.core.schedule.scheduler import Scheduler
    from skate.core.state.inventory import Inventory
    from skate.core.state.surveys import Surveys
    from skate.core.task.task import Task


class Parts(Protocol):
    """A composed node, from the inside."""

    clock: Clock
    out: Outbox
    capacity: Capacity
    allocator: MemoryPlan
    clients: dict[int, Client]
    next_cid: int
    tasks: dict[bytes, Task]
    actors: ActorTable
    objects: ObjectTable
    lifetimes: Lifetimes
    admission: Admission
    spill_manager: SpillManager
    memory_pressure: MemoryPressure
    scheduler: Scheduler
    placement: PlacementTable
    remote_objects: RemoteObjects
    cluster: Cluster
    drains: NodeDrains
    jobs: JobTable
    wait_registry: WaitRegistry
    wait_explainer: WaitExplainer
    inventory: Inventory
    surveys: Surveys

    def connect(self, cid: int, job: str, namespace: str, is_driver: bool) -> None:
        """Add a process that has joined."""

    def disconnect(self, cid: int, begun: int = ..., reason: str = ...) -> None:
        """Handle the end of a process."""

    def why_waiting(self, task: Task) -> str:
        """Return the reason why a task waits, as text."""
