"""The components of a node that handle its shell's events and that its snapshot reads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from skate.core.actor.actor_manager import ActorManager
    from skate.core.actor.actor_table import ActorTable
    from skate.core.client import Client
    from skate.core.clock import Clock
    from skate.core.cluster.cluster import Cluster
    from skate.core.cluster.head_groups import HeadGroups
    from skate.core.cluster.membership import Membership
    from skate.core.cluster.node_drains import NodeDrains
    from skate.core.cluster.remote_objects import RemoteObjects
    from skate.core.diagnosis.wait_explainer import WaitExplainer
    from skate.core.diagnosis.wait_registry import WaitRegistry
    from skate.core.job.cluster_jobs import ClusterJobs
    from skate.core.job.job_table import JobTable
    from skate.core.memory.admission import Admission
    from skate.core.memory.memory_plan import MemoryPlan
    from skate.core.memory.memory_pressure import MemoryPressure
    from skate.core.memory.spill_manager import SpillManager
    from skate.core.object.lifetimes import Lifetimes
    from skate.core.object.object_table import ObjectTable
    from skate.core.outbox import Outbox
    from skate.core.placement.placement_table import PlacementTable
    from skate.core.recovery.actor_records import ActorRecords
    from skate.core.recovery.record_log import RecordLog
    from skate.core.resource.capacity import Capacity
    from skate.core.schedule.feasibility import Feasibility
    from skate.core.schedule.scheduler import Scheduler
    from skate.core.schedule.worker_history import WorkerHistory
    from skate.core.state.inventory import Inventory
    from skate.core.state.queries import Queries
    from skate.core.state.surveys import Surveys
    from skate.core.task.function_table import FunctionTable
    from skate.core.task.task import Task, Template


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
    ended_workers: WorkerHistory
    placement: PlacementTable
    remote_objects: RemoteObjects
    cluster: Cluster
    drains: NodeDrains
    jobs: JobTable
    wait_registry: WaitRegistry
    wait_explainer: WaitExplainer
    inventory: Inventory
    surveys: Surveys
    handlers: dict[int, Callable[[int, Any], None]]
    templates: dict[bytes, Template]
    actor_manager: ActorManager
    actor_records: ActorRecords
    cluster_jobs: ClusterJobs
    feasibility: Feasibility
    function_table: FunctionTable
    head_groups: HeadGroups
    log: RecordLog
    members: Membership
    queries: Queries

    @property
    def recovery(self) -> object | None:
        """The listener to the members of the last head; None once that is over."""

    def connect(self, cid: int, job: str, namespace: str, is_driver: bool) -> None:
        """Add a process that has joined."""

    def disconnect(self, cid: int, begun: int = ..., reason: str = ...) -> None:
        """Handle the end of a process."""

    def recovered(self) -> None:
        """Handle all messages from now on."""

    def why_waiting(self, task: Task) -> str:
        """Return the reason why a task waits, as text."""
