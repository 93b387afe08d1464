"""A read-only view of a node for the shell around it: plain values of this moment, each looked up when it is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from skate.protocol import messages as m
from skate.protocol.record import Record
from skate.protocol.states import QUEUED, WAITING, GroupState

if TYPE_CHECKING:
    from skate.core.parts import Parts


class WorkerFacts(Record):
    """A worker process as the core knows it: the job that it belongs to, if any, and whether it was told to end."""

    job: str
    leaving: bool


class Snapshot:
    """The state of one node, for reading. What it returns is the caller's: nothing in it is the core's own."""

    __slots__ = ("_core", "_workers")

    def __init__(self, core: Parts) -> None:
        self._core = core
        self._workers = core.scheduler.workers

    @property
    def watchful(self) -> bool:
        """True while something may have to be done after some time, so that `tick` must be called."""
        core = self._core
        return core.scheduler.watchful or bool(core.wait_registry.by_client) or bool(core.admission.lanes)

    @property
    def next_client(self) -> int:
        """The id that the next client will be given."""
        return self._core.next_cid

    # -- workers

    def backlog(self, cid: int) -> int:
        """Tasks that a worker was sent and has not answered, if it takes them in order; else 0."""
        worker = self._workers.get(cid)
        if worker is None or not (worker.actor is None or worker.actor.in_order):
            return 0
        return len(worker.outstanding)

    def worker(self, cid: int) -> WorkerFacts | None:
        """The facts about a worker; None once the core has given it up."""
        worker = self._workers.get(cid)
        return None if worker is None else WorkerFacts(worker.env_key.partition("/")[0], worker.leaving)

    def ending_workers(self, job: str) -> set[int]:
        """The workers of a job that were told to end and are still alive."""
        return self._core.jobs.doomed(job)

    @property
    def busy(self) -> bool:
        """True if any worker has work."""
        return self._core.memory_pressure.busy()

    # -- memory

    @property
    def warm_bytes(self) -> int:
        """Free bytes of the arena that have memory behind them."""
        arena = self._core.allocator.arena
        return arena.resident - arena.used

    @property
    def victim(self) -> int | None:
        """The worker that was ended last because memory was short; None if there was none."""
        return self._core.memory_pressure.victim

    @property
    def victim_lives(self) -> bool:
        """True while a worker that is ended because memory is short has not gone."""
        return self._core.memory_pressure.victim in self._workers

    def on_disk(self, oid: bytes) -> bool:
        """Return True if a value was spilled."""
        return oid in self._core.spill_manager.spilled

    def place_of(self, oid: bytes) -> tuple[int, int] | None:
        """Offset and size of a value in memory, or None if it is not there."""
        record = self._core.objects.get(oid)
        if record is None or record.kind != m.ARENA:
            return None
        return record.payload[0], record.size

    # -- the node as others see it

    @property
    def total(self) -> dict[str, int]:
        """The resources of the node, in units."""
        return dict(self._core.capacity.total)

    @property
    def labels(self) -> dict[str, str]:
        """The labels of the node."""
        return dict(self._core.capacity.labels)

    def namespace_of(self, cid: int) -> str:
        """The namespace of a client; empty once it has left."""
        client = self._core.clients.get(cid)
        return "" if client is None else client.namespace

    def status(self) -> dict[str, Any]:
        """Nodes, resources, living actors, pending work and memory, for `skate status`."""
        core = self._core
        ask = core.queries
        arena, plan = core.allocator.arena, core.allocator
        return {
            "nodes": ask.nodes(0),
            "total": ask.cluster_resources(0),
            "free": ask.available_resources(0),
            "actors": [{**row, "job": self._job_of(row)} for row in ask.list_actors(0) if row["alive"]],
            "pending": [(name, count, why) for (name, why), count in self._pending().items()],
            "memory_used": arena.used,
            "spilled": plan.used - arena.used,
        }

    def _job_of(self, actor: dict[str, Any]) -> str:
        return self._core.actors.actors[bytes.fromhex(actor["actor_id"])].template.job

    def _pending(self) -> dict[tuple[str, str], int]:
        """Count the pending work by name and reason."""
        core = self._core
        counted: dict[tuple[str, str], int] = {}
        for task in core.tasks.values():
            if task.state in (WAITING, QUEUED):
                key = (task.template.name, core.why_waiting(task))
                counted[key] = counted.get(key, 0) + 1
        for group in core.placement.groups.values():
            if group.state == GroupState.PENDING:
                key = (f"placement group {group.name or group.group_id.hex()[:8]}", "no room for its bundles")
                counted[key] = counted.get(key, 0) + 1
        return counted

    def unended(self) -> list[tuple[str, str]]:
        """Name and state, in words, of each task that has not ended."""
        core = self._core
        return [(task.template.name, core.why_waiting(task)) for task in core.tasks.values()]

    def __repr__(self) -> str:
        return f"<Snapshot of {self._core!r}>"
