"""The decisions of one node: what a message from a client or a worker changes, and what is to be done about it.

`step(cid, message, now)` takes one message of one connected process and appends effects to `effects`: (cid, message) to be
sent, or (SHELL, effect) for the shell around: spawn a worker, kill one, release memory (`protocol/effects.py`). No I/O, no clock,
no randomness.
The nouns have their own files: `tasks`, `objects`, `scheduler`, `actors`, `placement`; this one wires them together.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from skate.core import invariants
from skate.core.actor.actor_manager import ActorManager
from skate.core.actor.actor_table import ActorTable
from skate.core.cluster.actor_directory import ActorDirectory
from skate.core.cluster.peer_table import PeerTable
from skate.core.cluster.remote_objects import RemoteObjects
from skate.core.cluster.task_forwarder import TaskForwarder
from skate.core.diagnosis.wait_explainer import WaitExplainer
from skate.core.diagnosis.wait_registry import WaitRegistry
from skate.core.job.job_table import JobTable
from skate.core.memory.admission import LOOK_SECONDS, Admission
from skate.core.memory.memory_plan import MemoryPlan
from skate.core.memory.memory_pressure import MemoryPressure
from skate.core.memory.spill_manager import SpillManager
from skate.core.object.lifetimes import Lifetimes, owner_of
from skate.core.object.object_table import ObjectRecord, ObjectTable
from skate.core.placement.placement_table import PlacementTable
from skate.core.resource.capacity import Capacity
from skate.core.resource.resources import UNIT
from skate.core.schedule.scheduler import Scheduler
from skate.core.schedule.worker_record import Worker
from skate.core.state.inventory import Inventory
from skate.core.state.queries import Queries
from skate.core.task.function_table import FunctionTable
from skate.core.task.retry_policy import RetryPolicy
from skate.core.task.task import Task
from skate.core.task.task_manager import TaskManager
from skate.core.timers import Timers
from skate.protocol import messages as m
from skate.protocol.effects import FreeBlocks, KillWorker, ShellEffect, Spawn
from skate.protocol.fields import Death
from skate.protocol.states import DEAD, ENDED, METHOD, SENT, WAITING
from skate.protocol.version import refusal

SHELL = m.SHELL
HISTORY_MAX = 10_000

Effect = tuple[int, Any]


class Client:
    """A connected process as the node sees it."""

    __slots__ = ("cid", "job", "namespace", "is_driver", "calls")

    def __init__(self, cid: int, job: str, namespace: str, is_driver: bool) -> None:
        self.cid = cid
        self.job = job
        self.namespace = namespace
        self.is_driver = is_driver
        self.calls = False  # it has named something to be called


class NodeCore:
    """The state of one node; every change goes through `step` and the few events of the shell."""

    def __init__(
        self,
        total: dict[str, int],
        *,
        gpus: Iterable[Any] = (),
        arena_bytes: int = 1 << 30,
        disk_bytes: Sequence[int] = (),
        spill_outside: bool = False,
        node_id: bytes = b"\0" * 28,
        labels: dict[str, str] | None = None,
    ) -> None:
        self.node_id = node_id
        #: What stands in the ids that are made here.
        self.tag = node_id[:8]
        self.effects: list[Effect] = []
        self.now = 0.0
        self.capacity = Capacity("node", total, [(gpu, UNIT) for gpu in gpus], labels)
        self.allocator = MemoryPlan(arena_bytes, disk_bytes)
        self.clients: dict[int, Client] = {}
        self.function_table = FunctionTable(self)
        self.functions, self.templates = self.function_table.functions, self.function_table.templates
        self.tasks: dict[bytes, Task] = {}
        self.history: deque[tuple[Any, ...]] = deque(maxlen=HISTORY_MAX)
        self.actors = ActorTable()
        self.task_manager = TaskManager(self)
        self.objects = ObjectTable(
            self._release, self._pin_actor, self._deliver, self.task_manager.argument_arrived
        )
        self.actor_manager = ActorManager(self)
        self.lifetimes = Lifetimes(self)
        self.objects.freed = self.lifetimes.freed
        self.admission = Admission(self)
        self.spill_manager = self.objects.spill_manager = SpillManager(self, spill_outside)
        self.scheduler = Scheduler(self.capacity, self.emit, self.task_manager.start)
        self.scheduler.spawn = self._spawn
        self.scheduler.lend = self.task_manager.lend
        self.timers = Timers()
        #: Tasks that wait before they are tried again, and until when.
        self.pausing: dict[bytes, float] = {}
        self.memory_pressure = MemoryPressure(self)
        self.retry_policy = RetryPolicy(self)
        self.scheduler.spilled = self.spill_manager.spilled
        self.scheduler.lacks = self.spill_manager.lacks
        self.placement = PlacementTable(self)
        self.queries = Queries(self)
        self.wait_registry = WaitRegistry(self)
        self.wait_explainer = WaitExplainer(self)
        self.jobs = JobTable(self)
        self.next_cid = 1
        #: Has a task run here as soon as it can, or on another node.
        self.admit: Callable[[Task], None] = self.scheduler.enqueue
        self.handlers = self._table()
        self.remote_objects = RemoteObjects(self)
        self.peers = PeerTable(self)
        if spill_outside:  # what is kept there may be lost there
            self.peers.activate()
        self.task_forwarder = TaskForwarder(self, self.peers)
        self.actor_directory = ActorDirectory(self)
        self.inventory = Inventory(self)

    def _table(self) -> dict[int, Callable[[int, Any], None]]:
        """Who takes which word."""
        return {
            m.FUNCTION: self.function_table.function,
            m.TEMPLATE: self.function_table.template,
            m.FORGET: self.function_table.forget,
            m.SUBMIT: self.task_manager.submit,
            m.CREATE_ACTOR: self.actor_manager.create,
            m.CALL: self.actor_manager.call,
            m.CANCEL: self.task_manager.cancel,
            m.KILL: self.actor_manager.kill,
            m.ESCAPE: self.lifetimes.escape,
            m.PUBLISH: self.lifetimes.publish,
            m.HOLD: self.lifetimes.hold,
            m.FREE: self.lifetimes.free,
            m.WATCH: self.lifetimes.watch,
            m.FETCH: self.lifetimes.fetch,
            m.ALLOCATE: self.lifetimes.allocate,
            m.PUT: self.lifetimes.put,
            m.RECALLED: self.spill_manager.recalled,
            m.CONSUMED: self.task_manager.consumed,
            m.REQUEST: self.queries.request,
            m.READY: self._ready,
            m.DONE: self.task_manager.done,
            m.ITEM: self.task_manager.item,
            m.RETURNED: self.task_manager.returned,
            m.BLOCKED: self.task_manager.blocked,
            m.UNBLOCKED: self.task_manager.unblocked,
            m.EXITING: self.actor_manager.exiting,
            m.WAITS: self.wait_registry.waits,
            m.WAIT_OVER: self.wait_registry.over,
            m.STILL: self.wait_registry.still,
            **self.placement.bundles.node_handlers,
        }

    # -- the door

    def step(self, cid: int, message: tuple[Any, ...], now: float) -> None:
        """Take one message of the process `cid`; what is to be done is appended to `effects`."""
        self.now = self.scheduler.now = now
        self.handlers[message[0]](cid, message)
        if self.admission.lanes:
            self.admission.pump()

    def tick(self, now: float) -> float | None:
        """Time has passed; returns seconds until the next tick is wanted, or None."""
        self.now = self.scheduler.now = now
        # First, as what they start may have to be looked after.
        pause = self.timers.tick(now) if self.timers else None
        again = self.scheduler.tick(now)
        if pause is not None:
            self.scheduler.watchful = True
            again = pause if again is None else min(again, pause)
        if self.wait_registry.by_client:
            look = self.wait_registry.tick(now)
            if look is not None and (again is None or look < again):
                again = look
        if self.peers.active:
            report = self.peers.tick(now)
            if report is not None and (again is None or report < again):
                again = report
        if self.admission.lanes:
            self.admission.pump()
            again = LOOK_SECONDS if again is None else min(again, LOOK_SECONDS)
        return again

    def connect(self, cid: int, job: str, namespace: str, is_driver: bool) -> None:
        """Add a process that has joined."""
        self.clients[cid] = self.new_client(cid, job, namespace, is_driver)
        self.next_cid = max(self.next_cid, cid + 1)

    @staticmethod
    def new_client(cid: int, job: str, namespace: str, is_driver: bool = False) -> Client:
        """Create the record of a process, or of a program on another node."""
        return Client(cid, job, namespace, is_driver)

    def disconnect(self, cid: int, now: float, begun: int = 1 << 62, reason: str = "") -> None:
        """Handle the end of a process; `begun` is the number of its tasks that were begun, `reason` how it ended."""
        self.now = self.scheduler.now = now
        client = self.clients.pop(cid, None)
        self.wait_registry.forget_client(cid)
        worker = self.scheduler.workers.get(cid)
        owned = self.actors.owned.pop(cid, None)
        if worker is not None:
            self.inventory.worker_ended(worker, reason)
            idle = worker.leaving and worker.actor is None  # no task of it could mind
            self.task_manager.worker_died(worker, begun, reason)
            if owned and not idle:
                self.actor_manager.owner_died(owned)
        self.lifetimes.forget_client(cid, client is None or client.calls)
        self.inventory.forget(cid)
        self.function_table.forget_client(cid)
        if client is not None and client.is_driver:
            self.placement.forget_owner(cid)
        self.scheduler.dispatch_all()
        if self.jobs.ended:
            self.jobs.sweep()
        self.admission.pump()

    def pulled(self, offset: int, there: bool, now: float) -> None:
        """A value from another node has arrived in memory, or will not."""
        self.now = self.scheduler.now = now
        self.remote_objects.pulled(offset, there)
        self.admission.pump()

    def spilled(self, number: int, there: bool, now: float) -> None:
        """A copy of a value is on disk, or there was no room for it."""
        self.now = self.scheduler.now = now
        self.spill_manager.spilled_to(number, there)
        self.admission.pump()

    def restored(self, number: int, problem: str, now: float) -> None:
        """A value is in memory again, or cannot be read: then there is a problem, in words."""
        self.now = self.scheduler.now = now
        self.spill_manager.restored(number, problem)
        self.admission.pump()

    def reserved(self, number: int, problem: str, now: float) -> None:
        """Blocks of the overflow file were set apart, or there is a problem, in words."""
        self.now = self.scheduler.now = now
        self.admission.reserved(number, problem)
        self.admission.pump()

    def read_abroad(self, oid: bytes, now: float) -> bool:
        """Let another node read a value: True if it can now; else it is on disk, and the shell is notified when it
        is back.
        """
        if oid in self.spill_manager.spilled:
            self.step(SHELL, m.Fetch(m.FETCH, oid), now)
            return False
        self.now = self.scheduler.now = now
        self.spill_manager.reading(oid)
        return True

    def environment_failed(self, cid: int, now: float, text: str) -> None:
        """The runtime environment of a worker that was to be started cannot be made."""
        self.now = self.scheduler.now = now
        worker = self.scheduler.workers.get(cid)
        if worker is not None:
            worker.kill_reason = Death("RuntimeEnvSetupError", {"message": text})
            self.disconnect(cid, now, 0, text)

    @property
    def watchful(self) -> bool:
        """True while something may have to be done after some time, so that `tick` must be called."""
        return self.scheduler.watchful or bool(self.wait_registry.by_client) or bool(self.admission.lanes)

    # -- small parts

    def later(self, seconds: float, step: Callable[[], None]) -> None:
        """Have a step taken after some time."""
        self.timers.after(self.now, seconds, step)
        self.scheduler.watchful = True

    def emit(self, cid: int, message: m.OfNode) -> None:
        """Append an effect."""
        self.effects.append((cid, message))

    def shell(self, effect: ShellEffect) -> None:
        """Append an effect for the shell."""
        self.effects.append((SHELL, effect))

    def _spawn(self, env_key: str, environment: str | None) -> Worker:
        cid = self.next_cid
        self.next_cid += 1
        worker = Worker(cid, env_key)
        self.scheduler.workers[cid] = worker
        self.clients[cid] = Client(cid, *self.jobs.named_in(env_key), False)
        self.shell(Spawn(cid, environment))
        return worker

    def _ready(self, cid: int, message: m.Ready) -> None:
        """READY: a worker process runs."""
        _, pid, protocol = message
        worker = self.scheduler.workers.get(cid)
        if worker is None:
            return
        worker.pid = pid
        refused = refusal(protocol, f"the worker process (pid {pid})")
        if refused:
            worker.kill_reason = Death("RaySystemError", {"message": refused})
            worker.leaving = True
            self.shell(KillWorker(cid))

    def _release(self, offset: int) -> None:
        self.admission.writing.pop(offset, None)
        on_disk = self.allocator.free(offset)
        if on_disk is not None:
            self.spill_manager.disk_freed(self.allocator.disk_of(offset))
            self.shell(FreeBlocks(*on_disk))

    def _pin_actor(self, actor_id: bytes, change: int) -> None:
        actor = self.actors.actors.get(actor_id)
        if actor is None and self.peers.active:
            actor = self.actor_directory.entry(actor_id)
        if actor is not None:
            actor.pins += change
            if change > 0 and actor.routed:
                self.actor_directory.sync(actor)
            if change < 0:
                self.actor_manager.end_if_unwanted(actor)

    def _deliver(self, cid: int, record: ObjectRecord) -> None:
        self.lifetimes.deliver(cid, record)

    # -- the cluster as this node knows it

    def node_totals(self) -> list[dict[str, int]]:
        """The total resources of each node."""
        return [self.capacity.total, *(peer.total for peer in self.peers.alive.values())]

    def node_ids(self) -> list[bytes]:
        """The ids of the living nodes."""
        return [self.node_id, *(peer.node_id for peer in self.peers.alive.values())]

    def node_labels(self) -> list[dict[str, str]]:
        """The labels of each node."""
        return [self.capacity.labels, *(peer.labels for peer in self.peers.alive.values())]

    def describe_nodes(self) -> list[dict[str, Any]]:
        """One entry a node, for `ray.nodes`; the dead ones too."""
        return [
            {
                "node_id": peer.node_id.hex(),
                "alive": peer.alive,
                "total": dict(peer.total),
                "available": dict(self.capacity.available if peer is self.peers.here else peer.available),
                "labels": dict(peer.labels),
                "reason": peer.reason,
                **peer.facts,
            }
            for peer in (self.peers.here, *self.peers.by_tag.values())
        ]

    def why_waiting(self, task: Task) -> str:
        """The reason why a task waits, as text."""
        return self.wait_explainer.of_task(task)

    def check(self) -> None:
        """Raise AssertionError if an invariant is broken."""
        self.scheduler.check()
        pins = self._counted_pins()
        self.objects.check(pins)
        self.actors.check(pins)
        self.allocator.check()
        for task_id, task in self.tasks.items():
            assert task.task_id == task_id and task.state != ENDED, task
            if task.state == WAITING:
                lane = task.actor.lanes.get(task.actor.lane_of(task), ()) if task.kind == METHOD else ()
                assert task.missing > 0 or task in lane, f"{task} waits for nothing"
            if task.state == SENT and task.node is None:
                assert task.task_id in task.worker.outstanding, f"{task} is with nobody"
        for record in self.objects.records.values():
            assert record.kind != m.PENDING or self._has_a_cause(record), f"{record} waits for nothing"
        self._check_books()
        self.function_table.check()
        self.wait_registry.check()
        self.admission.check()
        self.spill_manager.check()
        self.remote_objects.check()
        self.peers.check()
        invariants.check(self)

    def _has_a_cause(self, record: ObjectRecord) -> bool:
        oid = record.oid
        if record.away is not None and record.away.owner is not None:  # which has one
            return True
        if record.writer is not None or oid[:24] in self.tasks or owner_of(oid) in self.clients:
            return True
        return self.placement.will_settle(oid)

    def _check_books(self) -> None:
        """Assert that free and held resources add up to the total, for the node and every bundle."""
        free = {id(each): dict(each.available) for each in (self.capacity, *self.scheduler.pools.values())}
        leases = [worker.lease for worker in self.scheduler.workers.values() if worker.lease is not None]
        leases += [lease for group in self.placement.groups.values() for _, lease in group.leases.values()]
        leases += [lease for _, lease in self.placement.bundles.reserved.values()]
        for lease in leases:
            books = free.get(id(lease.capacity))
            assert books is not None, f"{lease} is of a bundle that is gone"
            for name, units in lease.request.items():
                if name != "CPU" or not lease.cpu_returned:
                    books[name] += units
        for each in (self.capacity, *self.scheduler.pools.values()):
            held = {name: units for name, units in free[id(each)].items() if units or name in each.total}
            assert held == each.total, f"{each}: free and held together are {held}"

    def _counted_pins(self) -> dict[bytes, int]:
        counted: dict[bytes, int] = {}
        tasks = list(self.tasks.values())
        tasks += [
            a.creation
            for a in self.actors.actors.values()
            if a.creation.task_id not in self.tasks and a.state != DEAD
        ]
        for task in tasks:
            for oid in (*(oid for _, oid in task.deps), *task.held):
                counted[oid] = counted.get(oid, 0) + 1
        for oid in self.remote_objects.lineage.pinned():
            counted[oid] = counted.get(oid, 0) + 1
        inside = [held for _, _, held in self.remote_objects.pulls.values()]
        inside += self.remote_objects.waiting
        inside += [held for _, held in self.functions.values()]
        inside += [record.held for record in self.objects.records.values()]
        for held in inside:
            for oid in held:
                counted[oid] = counted.get(oid, 0) + 1
        return counted

    def __repr__(self) -> str:
        return (
            f"<NodeCore {self.node_id.hex()[:8]} tasks={len(self.tasks)} objects={len(self.objects.records)} "
            f"actors={len(self.actors.actors)} workers={len(self.scheduler.workers)}>"
        )
