"""The other nodes of a cluster: their resources, and the tasks forwarded to them.

A node is a client of its peers: it submits tasks to them, holds objects there, and gets the same messages as a driver. The node
where a task was submitted decides once where it runs, and handles its retries; a peer treats the task as its own and does not
forward it. A peer's free resources are those of its last report, less the tasks sent there since.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Protocol

from skate.core.actor.actor_manager import ActorManager
from skate.core.cluster.membership import Peer
from skate.core.cluster.task_forwarder import TaskForwarder
from skate.core.placement.placement_table import PlacementTable
from skate.core.schedule.node_selector import NodeSelector
from skate.core.schedule.sched_class import SchedClass
from skate.core.task.task import Task
from skate.core.task.task_manager import TaskManager
from skate.protocol import messages as m
from skate.protocol.fields import ErrorValue
from skate.protocol.states import CREATION, ENDED, QUEUED, SENT

REPORT_SECONDS = 0.002
#: With more peers, reports become rarer in proportion, so a node's messages per second do not grow with the cluster.
REPORT_PEERS = 32
#: How long a task that only a lost node could run waits for another such node.
INFEASIBLE_SECONDS = 60.0


class Registry(Protocol):
    """Places the groups of the cluster."""

    def freed(self, place: Peer) -> None:
        """Handle resources that became free on a node: a group may wait for them."""


class PeerTable:
    """Decides which node runs each task, and reports free resources to the peers."""

    def __init__(
        self,
        task_manager: TaskManager,
        actor_manager: ActorManager,
        task_forwarder: TaskForwarder,
        placement: PlacementTable,
        refusal: Callable[[Task], ErrorValue | None],
    ) -> None:
        self.task_manager = task_manager
        self.clients = task_manager.clients
        self.clock = task_manager.clock
        self.emit = task_manager.out.emit
        self.actor_manager = actor_manager
        self.task_forwarder = task_forwarder
        self.remote_objects = task_forwarder.remote_objects
        self.placement = placement
        self.registry: Registry
        self.scheduler = scheduler = placement.scheduler
        self.refusal = refusal
        self.members = members = task_forwarder.members
        self.here, self.alive, self.by_tag = members.here, members.alive, members.by_tag
        self.where = NodeSelector(members, scheduler, task_forwarder.objects, placement.groups)
        self.changes = self.where.changes
        #: Tasks that wait for a node with room, by scheduling class.
        self.waiting: dict[Any, OrderedDict[bytes, Task]] = {}
        self._reported: Any = None
        self._newcomers: list[Peer] = []  # which have had no report yet
        self._reported_at = 0.0
        self._changed_at = 0.0  # since when the last report is outdated; 0 if it is not
        self.reports = self.unreported = 0
        self._infeasible_at = 0.0
        self._pumping = False

    def joined(self, peer: Peer) -> None:
        """Handle a node that has joined."""
        self.where.joined(peer)
        self._newcomers.append(peer)

    def left(self, peer: Peer) -> None:
        """Handle a lost node: tasks that only that one could run wait a while for another one."""
        self.scheduler.version += 1
        self.where.left(peer)
        self._infeasible_at = self.clock.now + INFEASIBLE_SECONDS

    def drains_changed(self) -> None:
        """Handle a node that takes no new work, or does again."""
        self.scheduler.version += 1
        self.where.members_changed()
        self._reported = None

    # -- choice of nodes

    def admit(self, task: Task) -> None:
        """Run a ready task here, on another node, or as soon as a node has room."""
        if task.origin is None or (task.kind == CREATION and not task.actor.hosted):
            place = self.where.choose(task)
            if place is None:
                self.wait(task)
                return
            if place is not self.here:
                self.task_forwarder.forward(task, place)
                return
        if task.deps and self.remote_objects.bring(task):
            return
        self.scheduler.enqueue(task)

    def wait(self, task: Task) -> None:
        """Make a task wait until a node has room."""
        task.state = QUEUED
        if not self._infeasible_at and self.refusal(task) is not None:
            self._infeasible_at = self.clock.now + INFEASIBLE_SECONDS
        self.waiting.setdefault(self.scheduler.class_of(task), OrderedDict())[task.task_id] = task

    def unwait(self, task: Task) -> None:
        """Stop a task's wait for a node."""
        queue = self.waiting.get(task.template.sched_class) if self.waiting else None
        if queue and queue.pop(task.task_id, None) is not None:
            if not queue:
                del self.waiting[task.template.sched_class]

    def pump(self) -> None:
        """Send waiting tasks, here or from this node's queues, after a peer has freed resources."""
        if self._pumping:
            return
        self._pumping = True
        for group in list(self.waiting):
            while queue := self.waiting.get(group):
                task = next(iter(queue.values()))
                place = self.where.choose(task)
                if place is None:
                    break
                self.unwait(task)
                if place is not self.here:
                    self.task_forwarder.forward(task, place)
                elif not (task.deps and self.remote_objects.bring(task)):
                    self.scheduler.enqueue(task)
        scheduler = self.scheduler
        for group in list(scheduler.waiting):
            while group.queue and self.alive:
                movable = self.movable(group)
                other = None if movable is None else self.where.elsewhere(movable)
                if movable is None or other is None:
                    break
                scheduler.dequeue(movable)
                self.task_forwarder.forward(movable, other)
        self._pumping = False

    def movable(self, group: SchedClass) -> Task | None:
        """Return the first queued task of a class that may move to another node; skip tasks of peers."""
        return next((task for task in group.queue if self._may_leave(task)), None)

    def _may_leave(self, task: Task) -> bool:
        """Return True if a queued task may move: it is not from a peer, and no other node knows it as an actor here."""
        if task.kind == CREATION:
            return not task.actor.hosted and not task.attempt
        return task.origin is None

    # -- resource reports

    def report(self, cid: int, message: m.Report) -> None:
        """REPORT: a peer reports its free resources."""
        _, available, pools, seen = message
        peer = self.alive[cid]
        peer.available = dict(available)
        peer.pools = dict(pools)
        for task in reversed(peer.outstanding.values()):
            if task.sequence <= seen:
                break
            peer.take(task.template.request)
        self.changes.freed(peer)
        if self.scheduler.place is not None:
            self.registry.freed(peer)
        if self.waiting or self.scheduler.waiting:
            self.pump()

    def touched(self) -> None:
        """Report free resources, even if unchanged, to a peer that relied on an outdated report."""
        self._reported = None

    def tick(self, now: float) -> float | None:
        """Report free resources to the peers if they have changed; return the seconds until the next tick."""
        again = None
        if self._infeasible_at:
            again = self._infeasible_at - now
            if again <= 0:
                self._infeasible_at = 0.0
                self._give_up()
                again = None
        state = (self.scheduler.capacity.available, self.placement.pools_free())
        is_changed = state != self._reported or self.unreported
        if not is_changed and not self._newcomers:
            self._changed_at = 0.0
            return again
        # A short task ends before its start is reported, and then nothing is.
        if not self._changed_at:
            self._changed_at = now
        pace = REPORT_SECONDS * max(1.0, len(self.alive) / REPORT_PEERS)
        wait = max(self._reported_at, self._changed_at) + pace - now
        if wait > 0:
            return wait if again is None else min(wait, again)
        self._changed_at = 0.0
        self.reports += 1
        self.unreported = 0
        available, pools = self._reported = (dict(state[0]), state[1])
        self._reported_at = now
        newcomers, self._newcomers = self._newcomers, []
        for peer in list(self.alive.values()) if is_changed else [each for each in newcomers if each.alive]:
            self.emit(peer.cid, m.Report(m.REPORT, available, pools, peer.received))
        return again

    def _give_up(self) -> None:
        """Fail tasks that have waited long enough for a node like a lost one."""
        for queue in list(self.waiting.values()):
            for task in list(queue.values()):
                error = self.refusal(task) if task.state == QUEUED else None
                if error is None:
                    continue
                task.state = ENDED
                if task.kind == CREATION:
                    self.actor_manager.refuse(task, error)
                else:
                    self.task_manager.fail(task, error)

    def pass_on(self, task_id: bytes, message: m.Cancel) -> None:
        """Pass on the CANCEL of a task that another node has submitted."""
        owner = self.by_tag.get(task_id[8:16])
        if owner is not None and owner.alive:
            self.emit(owner.cid, message)

    def check(self) -> None:
        """Raise AssertionError if an invariant is broken."""
        for peer in self.alive.values():
            for task_id, task in peer.outstanding.items():
                assert task.task_id == task_id and task.node is peer and task.state in (SENT, ENDED), task
        for group, queue in self.waiting.items():
            assert queue, f"{group} waits without a task"

    def __repr__(self) -> str:
        return f"<PeerTable {list(self.alive.values())}>"
