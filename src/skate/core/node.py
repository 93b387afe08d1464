"""The decisions of one node: how each message changes its state, and which effects follow.

All input comes through two methods. `step(cid, message, now)` takes one message from a connected process, or one event from the
surrounding shell if `cid` is SHELL (`protocol/shell_events.py`). `tick(now)` tells the core that time has passed. Both append to
`effects`: (cid, message) is a message to send, (SHELL, effect) is work for the shell, such as starting or killing a worker or
releasing memory (`protocol/effects.py`). `snapshot` is for reading. Other code uses nothing else, so a node can be replayed from
its recorded inputs (`core/replay.py`). The core does no I/O, reads no clock and uses no randomness.

Tasks, objects, scheduling, actors and placement have packages of their own. This module wires them together.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from skate.core import invariants
from skate.core.actor.actor_calls import ActorCalls
from skate.core.actor.actor_manager import ActorManager
from skate.core.actor.actor_table import ActorTable
from skate.core.client import Client
from skate.core.clock import Clock
from skate.core.cluster.cluster import Cluster
from skate.core.cluster.head_actors import HeadActors
from skate.core.cluster.head_groups import HeadGroups
from skate.core.cluster.head_registry import HeadRegistry
from skate.core.cluster.member_actors import MemberActors
from skate.core.cluster.member_groups import MemberGroups
from skate.core.cluster.member_registry import MemberRegistry
from skate.core.cluster.membership import Membership
from skate.core.cluster.node_drains import NodeDrains
from skate.core.cluster.peer_table import PeerTable
from skate.core.cluster.remote_objects import RemoteObjects
from skate.core.cluster.single_node import SingleNode
from skate.core.cluster.task_forwarder import TaskForwarder
from skate.core.diagnosis.wait_explainer import WaitExplainer
from skate.core.diagnosis.wait_registry import WaitRegistry
from skate.core.job.cluster_jobs import ClusterJobs
from skate.core.job.job_table import JobTable
from skate.core.memory.admission import LOOK_SECONDS, Admission
from skate.core.memory.memory_plan import MemoryPlan
from skate.core.memory.memory_pressure import KILL_SHARE, MemoryPressure
from skate.core.memory.spill_manager import SpillManager
from skate.core.node_options import NodeOptions
from skate.core.node_tables import NodeTables
from skate.core.object.lifetimes import Lifetimes
from skate.core.object.object_table import ObjectTable
from skate.core.outbox import Outbox
from skate.core.placement.placement_table import PlacementTable
from skate.core.recovery.actor_records import ActorRecords
from skate.core.recovery.head_recovery import HeadRecovery
from skate.core.recovery.record_log import RecordLog
from skate.core.resource.capacity import Capacity
from skate.core.resource.resources import UNIT
from skate.core.schedule.feasibility import Feasibility
from skate.core.schedule.scheduler import Scheduler
from skate.core.schedule.worker_history import WorkerHistory
from skate.core.schedule.worker_record import Worker
from skate.core.shell_handlers import Handler, ShellHandlers, of_the_shell
from skate.core.state.inventory import Inventory
from skate.core.state.metric_table import MetricTable
from skate.core.state.node_metrics import NodeMetrics
from skate.core.state.overview import Overview
from skate.core.state.queries import Queries
from skate.core.state.snapshot import Snapshot
from skate.core.state.surveys import Surveys
from skate.core.task.function_table import FunctionTable
from skate.core.task.retry_policy import RetryPolicy
from skate.core.task.task import Task
from skate.core.task.task_history import TaskHistory
from skate.core.task.task_manager import TaskManager
from skate.core.task.task_starter import TaskStarter
from skate.core.timers import Timers
from skate.protocol import messages as m
from skate.protocol.effects import Admitted, KillWorker, Spawn
from skate.protocol.fields import Death
from skate.protocol.registry_records import EPOCH
from skate.protocol.shell_events import JoinEvent
from skate.protocol.version import refusal

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from skate.protocol.registry_records import RegistryRecord

SHELL = m.SHELL


class NodeCore:
    """The state of one node. Every change goes through `step` and `tick`."""

    def __init__(self, total: dict[str, int], **options: Unpack[NodeOptions]) -> None:
        #: The arguments that make an equal core, to replay this core's log.
        self.made_of = (total, options)
        node_id = options.get("node_id", b"\0" * 28)
        spill_outside = options.get("spill_outside", False)
        self.node_id = node_id
        self.clock = Clock()
        self.out = Outbox()
        #: What is to be done, in order: always this list; the shell empties it.
        self.effects = self.out.effects
        self.timers = Timers()
        self.capacity = Capacity(
            "node", total, [(gpu, UNIT) for gpu in options.get("gpus", ())], options.get("labels")
        )
        self.allocator = options.get("memory") or MemoryPlan(
            options.get("arena_bytes", 1 << 30), options.get("disk_bytes", ())
        )
        self.clients: dict[int, Client] = {}
        self.next_cid = options.get("first_cid", 1)
        self.tasks: dict[bytes, Task] = {}
        self.actors = ActorTable()
        self.members = Membership(node_id, self.capacity)
        self.log = RecordLog(self.out, "records" in options)
        self._build_machines(SingleNode(self.actors), spill_outside)
        self._build_cluster()
        self._connect()
        self._build_views()
        events = ShellHandlers(self).table()
        self.handlers: dict[int, Handler] = {
            **self._table(),
            **self._table_of_peers(),
            **of_the_shell(events),
        }
        self._register()
        if spill_outside:  # values in external storage can be lost
            self.cluster.activate()
        self.snapshot = Snapshot(self)
        self.recovery: HeadRecovery | None = None
        if self.log.is_stored:
            self.cluster.activate()
            if any(record[0] != EPOCH for record in options["records"]):
                self._listen(options["records"])
        self._adopt(options)

    def _adopt(self, options: NodeOptions) -> None:
        """Apply the options that concern a single component."""
        self.actor_calls.wait_for_restart = options.get("local_mode", False)
        if self.actor_calls.wait_for_restart:
            self.surveys.slice = math.inf
        self.memory_pressure.kill_share = options.get("kill_share", KILL_SHARE)
        self.members.here.facts = options.get("facts", {})
        self.scheduler.short_tasks.workers = options.get("short_task_workers", 1 << 30)
        self.peers.where.linear_max = options.get("linear_max", self.peers.where.linear_max)

    # -- composition: components take their dependencies in __init__; where two call each other, one is connected later

    def _build_machines(self, alone: SingleNode, spill_outside: bool) -> None:
        """Build the components that manage tasks, actors and values on this node, without a cluster at first."""
        clock, out, tasks, clients, actors = self.clock, self.out, self.tasks, self.clients, self.actors
        members = self.members
        self.history, self.ended_workers = TaskHistory(clock), WorkerHistory(clock)
        self.task_manager = TaskManager(tasks, clients, self.history, alone, clock, out, self.later)
        self.task_starter = TaskStarter(clients, alone, out)
        self.actor_calls = ActorCalls(actors, self.task_manager, self.task_starter, alone, members)
        self.actor_manager = ActorManager(actors, self.actor_calls, self.task_manager, alone, members.here)
        self.admission = Admission(self.allocator, clients, alone, clock, out)
        self.spill_manager = SpillManager(self.admission, members, alone, spill_outside)
        self.lifetimes = Lifetimes(
            self.admission, self.spill_manager, self.task_manager, self.actor_manager, alone
        )
        self.objects = objects = ObjectTable(
            self.spill_manager,
            self.actor_manager,
            self.lifetimes.deliver,
            self.lifetimes.freed,
            self.task_manager.argument_arrived,
            self.lifetimes.unrecorded,
        )
        self.scheduler = scheduler = Scheduler(
            self.capacity, clock, out.emit, self.task_starter, self._spawn, self.spill_manager
        )
        self.memory_pressure = MemoryPressure(scheduler, clock, out)
        self.retry_policy = RetryPolicy(
            self.task_manager, scheduler, self.memory_pressure, alone, self.actor_manager.die, members.here
        )
        self.function_table = FunctionTable(clients, tasks, actors, objects, scheduler, members, out)
        self.functions, self.templates = self.function_table.functions, self.function_table.templates
        self.placement = PlacementTable(self.task_manager, self.actor_manager, scheduler)
        self.feasibility = Feasibility(scheduler, members, self.placement.refusal)

    def _build_cluster(self) -> None:
        """Build the components that talk to other nodes."""
        tasks, actors, objects, members = self.task_manager, self.actor_manager, self.objects, self.members
        self.remote_objects = RemoteObjects(objects, tasks, self.actor_calls, self.spill_manager, members)
        self.task_forwarder = TaskForwarder(
            tasks, actors, self.function_table, self.scheduler, objects, self.remote_objects, members
        )
        self.peers = PeerTable(tasks, actors, self.task_forwarder, self.placement, self.feasibility.refusal)
        users = (
            self.task_manager,
            self.task_starter,
            self.actor_calls,
            self.actor_manager,
            self.retry_policy,
            self.admission,
            self.spill_manager,
            self.lifetimes,
        )
        self.cluster = Cluster(self.peers, self, users, self._member_registry)
        self.head_groups = HeadGroups(self.placement, objects, members, self.peers, self.log)

    def _connect(self) -> None:
        """Connect the components that call each other."""
        scheduler, objects, functions = self.scheduler, self.objects, self.function_table
        tasks, actors, calls = self.task_manager, self.actor_manager, self.actor_calls
        tasks.connect(scheduler, objects, functions, self.feasibility, actors, calls, self.retry_policy)
        self.task_starter.connect(objects, functions, actors.construct)
        calls.connect(objects, functions, self.remote_objects, self.spill_manager, actors.end_if_unwanted)
        actors.connect(scheduler, objects, functions, self.retry_policy)
        self.admission.connect(self.spill_manager)
        self.spill_manager.connect(
            scheduler, objects, tasks, actors, self.lifetimes.deliver, self.remote_objects.lineage.rebuild
        )
        self.lifetimes.connect(objects, self.placement)
        functions.kept = self.remote_objects.lineage.tasks

    def _build_views(self) -> None:
        """Build the components that use all tables: diagnosis, queries, jobs."""
        self.tables = tables = NodeTables(
            self.clock,
            self.out,
            self.clients,
            self.members,
            self.peers,
            self.tasks,
            self.task_manager.retried,
            self.history,
            self.retry_policy,
            self.function_table,
            self.objects,
            self.spill_manager,
            self.actors,
            self.scheduler,
            self.ended_workers,
            self.placement,
            self.cluster,
        )
        self.wait_registry = WaitRegistry(tables)
        self.wait_explainer = WaitExplainer(tables, self.wait_registry.by_client, self.memory_pressure)
        self.inventory = Inventory(tables, self.wait_explainer)
        self.metrics = MetricTable()
        made = NodeMetrics(tables, self.metrics)
        self.inventory.add("metrics", made.scan)
        self.inventory.add("attempts", made.attempts.scan)
        Overview(tables, self.wait_explainer).join(self.inventory)
        self.surveys = Surveys(tables, self.inventory, self.later)
        self.queries = Queries(
            tables, self.wait_explainer, self.inventory, self.surveys, self.head_groups, self.metrics
        )
        self.wait_explainer.key_values = self.queries.key_values
        members = self.members
        self.jobs = JobTable(
            self.task_manager, self.actor_manager, self.scheduler, self.function_table, members, self
        )
        self.cluster_jobs = self.jobs.others = ClusterJobs(self.jobs, members, self.out)
        self.task_forwarder.connect(self.peers, self.cluster_jobs)
        self.drains = NodeDrains(tables, self.actor_manager, self.later, self.log)
        self.queries.verbs["drain_node"] = self.drains.drain_node
        self.queries.records["drain_node"] = self.drains.records_of_drain

    def _register(self) -> None:
        """Give the components their registry: this node is its own head until it learns of another one."""
        tasks, members = self.task_manager, self.members
        self.actor_records = ActorRecords(self.log, self.function_table, members)
        actors = HeadActors(
            tasks,
            self.actor_manager,
            self.task_forwarder,
            members,
            self.feasibility,
            self.objects,
            self.actor_records,
        )
        users = (
            self.actor_calls,
            self.actor_manager,
            self.task_forwarder,
            self.peers,
            self.queries,
            self.jobs,
        )
        self.cluster.connect(
            HeadRegistry(actors, self.head_groups, self.log), users, self.cluster_jobs, self.drains
        )

    def _member_registry(self) -> MemberRegistry:
        """Build the registry of a node that is not the head."""
        tasks, objects, members = self.task_manager, self.objects, self.members
        actors = MemberActors(tasks, self.actor_manager, self.task_forwarder, objects, members)
        groups = MemberGroups(self.placement, objects, members, self.peers)
        return MemberRegistry(actors, groups, tasks, members)

    def _table(self) -> dict[int, Handler]:
        """Map each message type of clients and workers to its handler."""
        return {
            m.FUNCTION: self.function_table.function,
            m.TEMPLATE: self.function_table.template,
            m.FORGET: self.function_table.forget,
            m.SUBMIT: self.task_manager.submit,
            m.CREATE_ACTOR: self.actor_manager.create,
            m.CALL: self.actor_calls.call,
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
        }

    def _table_of_peers(self) -> dict[int, Handler]:
        """Map each message type of other nodes to its handler, except those that concern the registry."""
        return {
            m.REPORT: self.peers.report,
            m.VALUE: self.remote_objects.value,
            m.COPY: self.remote_objects.copies.copy_changed,
            m.FORWARD: self.task_forwarder.forwarded,
            m.FINISHED: self.task_forwarder.finished,
            m.ANSWERED: self.task_forwarder.has_answered,
            m.RETRIED: self.task_forwarder.retried,
            m.RESULT: self.task_forwarder.result,
            m.STREAM: self.task_forwarder.streamed,
            m.STREAM_END: self.task_forwarder.stream_ended,
            m.SURVEY: self.surveys.survey,
            m.SURVEYED: self.surveys.surveyed,
            m.SURVEY_END: self.surveys.survey_ended,
            m.LEAVING: self.cluster.leaving,
            m.DRAIN: self.drains.drain,
            **self.cluster_jobs.handlers,
        }

    # -- recovery

    def _listen(self, records: Sequence[RegistryRecord]) -> None:
        """Wait for the members of the last head, if there was one, before anything is decided."""
        self.recovery = HeadRecovery(self, records)
        self._real_handlers = self.handlers
        self.handlers = self.recovery.handlers(self.handlers)

    def recovered(self) -> None:
        """Handle all messages from now on."""
        self.recovery = None
        self.handlers = self._real_handlers

    # -- inputs

    def step(self, cid: int, message: tuple[Any, ...], now: float) -> None:
        """Handle one message from the process `cid`, or an event from SHELL; append the results to `effects`."""
        self.clock.now = now
        self.handlers[message[0]](cid, message)
        if self.admission.lanes:
            self.admission.pump()

    def tick(self, now: float) -> float | None:
        """Do what is due by `now`; return the seconds until the next tick is needed, or None."""
        self.clock.now = now
        # Timers go first: the scheduler may have to watch the tasks that they start.
        if self.recovery is not None:
            wait = self.recovery.tick(now)
            if self.recovery is not None:
                return wait
        pause = self.timers.tick(now) if self.timers else None
        again = self.scheduler.tick(now)
        if pause is not None:
            self.scheduler.watchful = True
            again = pause if again is None else min(again, pause)
        if self.wait_registry.by_client:
            look = self.wait_registry.tick(now)
            if look is not None and (again is None or look < again):
                again = look
        if self.members.active:
            report = self.peers.tick(now)
            if report is not None and (again is None or report < again):
                again = report
        if self.admission.lanes:
            self.admission.pump()
            again = LOOK_SECONDS if again is None else min(again, LOOK_SECONDS)
        return again

    # -- clients

    def connect(self, cid: int, job: str, namespace: str, is_driver: bool) -> None:
        """Add a process that has joined."""
        self.clients[cid] = Client(cid, job, namespace, is_driver)
        self.next_cid = max(self.next_cid, cid + 1)

    def disconnect(self, cid: int, begun: int = 1 << 62, reason: str = "") -> None:
        """Handle the end of a process that had begun `begun` tasks; `reason` says how it ended."""
        client = self.clients.pop(cid, None)
        self.wait_registry.forget_client(cid)
        worker = self.scheduler.workers.get(cid)
        owned = self.actors.owned.pop(cid, None)
        if worker is not None:
            self.ended_workers.record(worker, reason)
            idle = worker.leaving and worker.actor is None  # it had no tasks
            self.task_manager.worker_died(worker, begun, reason)
            if owned and not idle:
                self.actor_manager.owner_died(owned)
        self.forget(cid, client is None or client.calls)
        self.function_table.forget_client(cid)
        if client is not None and client.is_driver:
            self.cluster.registry.forget_owner(cid)
        self.scheduler.dispatch_all()
        if self.jobs.ended:
            self.jobs.sweep()
        self.admission.pump()

    # -- small parts

    @property
    def now(self) -> float:
        """The time of the last event."""
        return self.clock.now

    def later(self, seconds: float, step: Callable[[], None]) -> None:
        """Call `step` after `seconds`."""
        self.timers.after(self.clock.now, seconds, step)
        self.scheduler.watchful = True

    def forget(self, cid: int, called: bool = True) -> None:
        """Drop all holds and waits of a process or peer that is gone; `called` is true if it may have made calls."""
        self.lifetimes.forget_client(cid, called)
        self.surveys.forget(cid)
        self.metrics.forget(cid)

    def _spawn(self, env_key: str, environment: str | None) -> Worker:
        cid = self.next_cid
        self.next_cid += 1
        worker = Worker(cid, env_key)
        self.scheduler.workers[cid] = worker
        self.clients[cid] = Client(cid, *self.jobs.named_in(env_key))
        self.out.shell(Spawn(cid, environment))
        return worker

    def _ready(self, cid: int, message: m.Ready) -> None:
        """READY: a worker process has started."""
        _, pid, protocol = message
        worker = self.scheduler.workers.get(cid)
        if worker is None:
            return
        worker.pid = pid
        worker.ready_at = self.clock.now
        refused = refusal(protocol, f"the worker process (pid {pid})")
        if refused:
            worker.kill_reason = Death("RaySystemError", {"message": refused})
            worker.leaving = True
            self.out.shell(KillWorker(cid))

    def why_waiting(self, task: Task) -> str:
        """Return the reason why a task waits, as text."""
        return self.wait_explainer.of_task(task)

    def check(self) -> None:
        """Raise AssertionError if an invariant is broken."""
        self.scheduler.check()
        pins = invariants.counted_pins(self.tables)
        self.objects.check(pins)
        self.actors.check(pins)
        self.allocator.check()
        self.function_table.check()
        self.wait_registry.check()
        self.admission.check()
        self.spill_manager.check()
        self.remote_objects.check()
        self.peers.check()
        self.cluster.registry.check()
        invariants.check(self.tables)

    def __repr__(self) -> str:
        return (
            f"<NodeCore {self.node_id.hex()[:8]} tasks={len(self.tasks)} objects={len(self.objects.records)} "
            f"actors={len(self.actors.actors)} workers={len(self.scheduler.workers)}>"
        )


def admit_client(core: NodeCore, event: JoinEvent, now: float) -> int:
    """Pass a core an event that adds a client; return the client's new id."""
    at = len(core.effects)
    core.step(SHELL, event, now)
    _, admitted = core.effects.pop(at)
    assert isinstance(admitted, Admitted), admitted
    return admitted.cid
