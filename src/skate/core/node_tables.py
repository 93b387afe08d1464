"""All tables of one node, for code that only reads them: diagnosis, state lists, checks."""

from __future__ import annotations

from typing import NamedTuple

from skate.core.actor.actor_table import ActorTable
from skate.core.client import Client
from skate.core.clock import Clock
from skate.core.cluster.cluster import Cluster
from skate.core.cluster.membership import Membership
from skate.core.cluster.peer_table import PeerTable
from skate.core.memory.spill_manager import SpillManager
from skate.core.object.object_table import ObjectTable
from skate.core.outbox import Outbox
from skate.core.placement.placement_table import PlacementTable
from skate.core.schedule.scheduler import Scheduler
from skate.core.schedule.worker_history import WorkerHistory
from skate.core.task.function_table import FunctionTable
from skate.core.task.retry_policy import RetryPolicy
from skate.core.task.task import Task
from skate.core.task.task_history import TaskHistory
from skate.protocol.messages import PENDING


class NodeTables(NamedTuple):
    """All tables of a node, and the cluster as far as the node knows it."""

    clock: Clock
    out: Outbox
    clients: dict[int, Client]
    members: Membership
    peers: PeerTable
    tasks: dict[bytes, Task]
    retried: dict[bytes, Task]
    history: TaskHistory
    retries: RetryPolicy
    functions: FunctionTable
    objects: ObjectTable
    disk: SpillManager
    actors: ActorTable
    scheduler: Scheduler
    ended_workers: WorkerHistory
    placement: PlacementTable
    cluster: Cluster

    def is_pending(self, oid: bytes) -> bool:
        """Return True if a task is making the object, or it waits for its value here."""
        record = self.objects.records.get(oid)
        return oid[:24] in self.tasks or (record is not None and record.kind == PENDING)
