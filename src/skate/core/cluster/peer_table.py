"""The other nodes of a cluster: what they have, and the tasks that are forwarded to them.

A node is a client of its peers: it submits tasks to them, holds what is there and is answered with the same words as a driver.
The node on which a task was submitted decides where it runs, once, and stays the one that retries it: a peer takes it as its
own and sends it on to nobody. What a peer has free is known from its last report, less what was sent there and is not in it.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any

from skate.core.schedule.feasibility import refusal
from skate.core.schedule.node_selector import NodeSelector
from skate.core.task.task import Task
from skate.protocol import messages as m
from skate.protocol.states import CREATION, ENDED, PLAIN, QUEUED, SENT

if TYPE_CHECKING:
    from skate.core.node import NodeCore
    from skate.core.schedule.scheduler import SchedClass

REPORT_SECONDS = 0.002
#: With more peers than that, reports are as much rarer: what a node says and hears in a second does not grow with its peers.
REPORT_PEERS = 32
#: How long a task whose node was lost waits for another that has what it asks for.
PATIENCE_SECONDS = 60.0


class Peer:
    """One node as another one sees it."""

    __slots__ = (
        "cid", "node_id", "tag", "total", "labels", "available", "pools", "alive", "reason", "known", "outstanding", "sent",
        "received", "classes", "facts",
    )  # fmt: skip

    def __init__(self, cid: int, node_id: bytes, total: dict[str, int], labels: dict[str, str]) -> None:
        self.cid = cid
        self.node_id = node_id
        self.tag = node_id[:8]
        self.total = total
        self.labels = labels
        #: What is free there as far as known here.
        self.available = dict(total)
        self.pools: dict[str, int] = {}
        self.alive = True
        self.reason = ""
        self.known: set[bytes] = set()  # functions and templates it was sent
        #: Tasks and creations forwarded there and not answered.
        self.outstanding: dict[bytes, Task] = {}
        self.classes: dict[Any, int] = {}  # how many of them, by scheduling class
        self.sent = 0
        self.received = 0
        self.facts: dict[str, Any] = {}

    def fits(self, request: dict[str, int]) -> bool:
        """True if the request fits now, as far as known."""
        available = self.available
        return all(available.get(name, 0) >= units for name, units in request.items())

    def take(self, request: dict[str, int], sign: int = -1) -> None:
        """Count resources as taken, or with `sign` 1 as free."""
        for name, units in request.items():
            self.available[name] = self.available.get(name, 0) + sign * units

    def __repr__(self) -> str:
        return f"<Peer {self.node_id.hex()[:8]} {'alive' if self.alive else 'dead'} outstanding={len(self.outstanding)}>"


class PeerTable:
    """Membership, and tasks on their way to and from other nodes."""

    def __init__(self, node: NodeCore) -> None:
        self.node = node
        self.active = False  # there has been another node
        self.alive: dict[int, Peer] = {}
        self.by_tag: dict[bytes, Peer] = {}  # the dead ones too
        self._strangers: dict[bytes, Peer] = {}
        #: The node that decides about actors and groups; None on that node itself.
        self.head: Peer | None = None
        self.here = Peer(-2, node.node_id, node.capacity.total, node.capacity.labels)
        self.here.available = node.capacity.available
        self.where = NodeSelector(self)
        #: Tasks for which no node has room that could take them, by scheduling class.
        self.waiting: dict[Any, OrderedDict[bytes, Task]] = {}
        self._reported: Any = None
        self._reported_at = 0.0
        self._questions: dict[int, tuple[int, int]] = {}
        self._number = 0
        self._impatient_at = 0.0
        self._pumping = False
        node.handlers[m.REPORT] = self.report
        node.handlers[m.REPLY] = self.reply
        node.handlers[m.VALUE] = node.remote_objects.value
        node.handlers[m.COPY] = node.remote_objects.copies.told

    # -- membership

    def join(self, cid: int, info: dict[str, Any], now: float) -> None:
        """A node has joined; `info`: node_id, total, labels, head, and facts for `ray.nodes`."""
        node = self.node
        node.now = node.scheduler.now = now
        peer = Peer(cid, info["node_id"], dict(info["total"]), dict(info["labels"]))
        peer.facts = info.get("facts") or {}
        node.connect(cid, "", "", False)
        self.alive[cid] = self.by_tag[peer.tag] = peer
        if info.get("head"):
            self.head = peer
        if not self.active:
            self.activate()
        self._reported = None
        node.scheduler.version += 1
        self.where.members_changed()
        node.placement.node_joined(peer)
        self.pump()
        node.admission.pump()

    def activate(self) -> None:
        """From now on values can be lost, and tasks go elsewhere."""
        self.active = True
        self.node.objects.remote_objects = self.node.remote_objects
        self.node.admit = self.admit

    def stranger(self, tag: bytes) -> Peer:
        """A node of which only objects are known: it was lost before this one joined."""
        peer = self._strangers.get(tag)
        if peer is None:
            peer = self._strangers[tag] = Peer(-1, tag, {}, {})
            peer.alive = False
            peer.reason = "was lost before this node joined"
        return peer

    def left(self, cid: int, reason: str, now: float) -> None:
        """Handle the loss of a node: its tasks run elsewhere or fail, values that were only there are lost."""
        node = self.node
        node.now = node.scheduler.now = now
        peer = self.alive.pop(cid, None)
        if peer is None:
            return
        peer.alive = False
        peer.reason = reason
        node.clients.pop(cid, None)
        node.scheduler.version += 1
        self.where.members_changed()
        self._impatient_at = now + PATIENCE_SECONDS
        node.placement.node_left(peer)
        node.actor_directory.node_left(peer)
        node.remote_objects.node_left(peer)
        for task in list(peer.outstanding.values()):
            if task.kind == PLAIN:
                node.task_forwarder.lost(task, peer)
        peer.outstanding.clear()
        node.lifetimes.forget_client(cid)
        node.inventory.forget(cid)
        node.scheduler.dispatch_all()
        self.pump()
        node.admission.pump()

    # -- which node

    def admit(self, task: Task) -> None:
        """A task can run: here, on another node, or as soon as one has room."""
        node = self.node
        if task.origin is None or (task.kind == CREATION and self.head is None):
            place = self.where.choose(task)
            if place is None:
                self.wait(task)
                return
            if place is not self.here:
                self.node.task_forwarder.forward(task, place)
                return
        if task.deps and node.remote_objects.bring(task):
            return
        node.scheduler.enqueue(task)

    def wait(self, task: Task) -> None:
        """No node has room: the task waits until one has."""
        task.state = QUEUED
        if not self._impatient_at and refusal(self.node, task) is not None:
            self._impatient_at = self.node.now + PATIENCE_SECONDS
        self.waiting.setdefault(self.node.scheduler.class_of(task), OrderedDict())[task.task_id] = task

    def unwait(self, task: Task) -> None:
        """A task that may wait for a node has ended."""
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
                    self.node.task_forwarder.forward(task, place)
                elif not (task.deps and self.node.remote_objects.bring(task)):
                    self.node.scheduler.enqueue(task)
        scheduler = self.node.scheduler
        for group in list(scheduler.waiting):
            while group.queue and self.alive:
                movable = self.movable(group)
                other = None if movable is None else self.where.elsewhere(movable)
                if movable is None or other is None:
                    break
                scheduler.dequeue(movable)
                self.node.task_forwarder.forward(movable, other)
        self._pumping = False

    def movable(self, group: SchedClass) -> Task | None:
        """The first of a class's queued tasks that may go elsewhere; those of peers do not stand in its way."""
        return next((task for task in group.queue if self._may_leave(task)), None)

    def _may_leave(self, task: Task) -> bool:
        """True if a queued task may move to another node: not a peer's task, nor an actor that others know to be
        here.
        """
        if task.kind == CREATION:
            return self.head is None and not task.attempt
        return task.origin is None

    # -- what there is

    def report(self, cid: int, message: m.Report) -> None:
        """REPORT: what a peer has free."""
        _, available, pools, seen = message
        peer = self.alive[cid]
        peer.available = dict(available)
        peer.pools = dict(pools)
        for task in reversed(peer.outstanding.values()):
            if task.sequence <= seen:
                break
            peer.take(task.template.request)
        self.where.changes.freed(peer)
        if self.head is None and self.node.scheduler.place is not None:
            self.node.placement.freed(peer)
        if self.waiting or self.node.scheduler.waiting:
            self.pump()

    def touched(self) -> None:
        """Send the free resources to a peer that relied on old ones, even if they are unchanged."""
        self._reported = None

    def tick(self, now: float) -> float | None:
        """Tell the peers what is free, if that has changed; returns seconds until this is wanted again."""
        node = self.node
        again = None
        if self._impatient_at:
            again = self._impatient_at - now
            if again <= 0:
                self._impatient_at = 0.0
                self._give_up()
                again = None
        state = (node.capacity.available, node.queries.pools_free())
        if state == self._reported:
            return again
        wait = self._reported_at + REPORT_SECONDS * max(1.0, len(self.alive) / REPORT_PEERS) - now
        if wait > 0:
            return wait if again is None else min(wait, again)
        available, pools = self._reported = (dict(state[0]), state[1])
        self._reported_at = now
        for peer in self.alive.values():
            node.emit(peer.cid, m.Report(m.REPORT, available, pools, peer.received))
        return again

    def _give_up(self) -> None:
        """Nodes were lost a while ago: what only they could run does not wait forever."""
        for queue in list(self.waiting.values()):
            for task in list(queue.values()):
                error = refusal(self.node, task) if task.state == QUEUED else None
                if error is None:
                    continue
                task.state = ENDED
                if task.kind == CREATION:
                    self.node.actor_manager.refuse(task, error)
                else:
                    self.node.task_manager.fail(task, error)

    def pass_on(self, task_id: bytes, message: m.Cancel) -> None:
        """CANCEL of a task that another node has submitted."""
        owner = self.by_tag.get(task_id[8:16])
        if owner is not None and owner.alive:
            self.node.emit(owner.cid, message)

    # -- questions that only the head can answer

    def ask_head(self, cid: int, number: int, verb: str, arguments: Any) -> None:
        """Pass a client's question on."""
        assert self.head is not None
        self._number += 1
        self._questions[self._number] = (cid, number)
        self.node.emit(self.head.cid, m.Request(m.REQUEST, self._number, verb, arguments))

    def reply(self, cid: int, message: m.Reply) -> None:
        """REPLY: the head's answer, for the client that asked."""
        _, number, ok, value = message
        found = self._questions.pop(number, None)
        if found is not None and found[0] in self.node.clients:
            self.node.emit(found[0], m.Reply(m.REPLY, found[1], ok, value))

    def check(self) -> None:
        """Raise AssertionError if an invariant is broken."""
        for peer in self.alive.values():
            for task_id, task in peer.outstanding.items():
                assert task.task_id == task_id and task.node is peer and task.state in (SENT, ENDED), task
        for group, queue in self.waiting.items():
            assert queue, f"{group} waits without a task"

    def __repr__(self) -> str:
        return f"<Peers {list(self.alive.values())}>"
