"""A read-only view of a node for the surrounding shell: current plain values, each looked up on access."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from skate.protocol import messages as m
from skate.protocol.record import Record

if TYPE_CHECKING:
    from skate.core.parts import Parts

#: The columns of actors that `skate status` shows.
ACTOR_COLUMNS = ("class_name", "state", "name", "namespace", "pid", "restarts", "job")


class WorkerFacts(Record):
    """A worker process as the core knows it: its job, if any, and whether it was told to end."""

    job: str
    leaving: bool


class Snapshot:
    """The state of one node, for reading. Returned values are the caller's own and share nothing with the core."""

    __slots__ = ("_arena", "_core", "_workers")

    def __init__(self, core: Parts) -> None:
        self._core = core
        self._workers = core.scheduler.workers
        self._arena = core.allocator.arena

    @property
    def watchful(self) -> bool:
        """True while `tick` must be called because something may be due later."""
        core = self._core
        if core.recovery is not None:
            return True
        return core.scheduler.watchful or bool(core.wait_registry.by_client) or bool(core.admission.lanes)

    @property
    def next_client(self) -> int:
        """The id of the next client."""
        return self._core.next_cid

    # -- workers

    def backlog(self, cid: int) -> int:
        """Return the number of unanswered tasks of a worker if it takes them in order, else 0."""
        worker = self._workers.get(cid)
        if worker is None or not (worker.actor is None or worker.actor.in_order):
            return 0
        return len(worker.outstanding)

    def worker(self, cid: int) -> WorkerFacts | None:
        """Return the facts about a worker; None once the core has removed it."""
        worker = self._workers.get(cid)
        if worker is None:
            return None
        job, slash, _ = worker.env_key.partition("/")
        return WorkerFacts(job if slash else "", worker.leaving)

    def ending_workers(self, job: str) -> set[int]:
        """Return the workers of a job that were told to end and are still alive."""
        return self._core.jobs.doomed(job)

    @property
    def busy(self) -> bool:
        """True if any worker has work."""
        return self._core.memory_pressure.busy()

    # -- memory

    @property
    def warm_bytes(self) -> int:
        """Free bytes of the arena that are backed by memory."""
        return self._arena.free_warm

    @property
    def victim(self) -> int | None:
        """The worker last killed because memory was short; None if there was none."""
        return self._core.memory_pressure.victim

    @property
    def victim_lives(self) -> bool:
        """True until a worker killed because memory is short has ended."""
        return self._core.memory_pressure.victim in self._workers

    def on_disk(self, oid: bytes) -> bool:
        """Return True if a value was spilled."""
        return oid in self._core.spill_manager.spilled

    def place_on_disk(self, oid: bytes) -> tuple[int, int] | None:
        """Return place and size of a value's copy on a disk of this machine, or None if there is none."""
        core = self._core
        record, place = core.objects.get(oid), core.spill_manager.copies.get(oid)
        if record is None or place is None or core.spill_manager.external:
            return None
        return place - core.allocator.boundary, record.size

    def place_of(self, oid: bytes) -> tuple[int, int] | None:
        """Return offset and size of a value in memory, or None if it is not there."""
        record = self._core.objects.get(oid)
        if record is None or record.kind != m.ARENA:
            return None
        return record.payload[0], record.size

    # -- data for other processes

    @property
    def total(self) -> dict[str, int]:
        """The resources of the node, in units."""
        return dict(self._core.capacity.total)

    @property
    def labels(self) -> dict[str, str]:
        """The labels of the node."""
        return dict(self._core.capacity.labels)

    def namespace_of(self, cid: int) -> str:
        """Return the namespace of a client; empty once it has left."""
        client = self._core.clients.get(cid)
        return "" if client is None else client.namespace

    def status(self) -> dict[str, Any]:
        """Return nodes, resources, living actors, pending work and memory, for `skate status`."""
        inventory = self._core.inventory
        arena, plan = self._core.allocator.arena, self._core.allocator
        return {
            "nodes": inventory.rows("nodes"),
            "total": inventory.total(),
            "free": inventory.free(),
            "actors": [
                {"actor_id": row["actor"].hex(), "alive": True, **{name: row[name] for name in ACTOR_COLUMNS}}
                for row in inventory.rows("actors")
                if row["state"] != "DEAD"
            ],
            "jobs_elsewhere": [
                {"job": job.job, "namespace": job.namespace, "address": job.home.address}
                for job in self._core.jobs.elsewhere()
            ],
            "pending": inventory.demand(),
            "memory_used": arena.used,
            "spilled": plan.used - arena.used,
        }

    def unended(self) -> list[tuple[str, str]]:
        """Return name and state, as text, of each task that has not ended."""
        core = self._core
        return [(task.template.name, core.why_waiting(task)) for task in core.tasks.values()]

    def __repr__(self) -> str:
        return f"<Snapshot of {self._core!r}>"
