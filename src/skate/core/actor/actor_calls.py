"""Calls to actors, sent in each caller's order once their arguments are available and the actor is alive."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Protocol

from skate.core.actor.actor_table import Actor, ActorTable
from skate.core.actor.call_errors import not_begun, restarting, retries_of, unknown_actor
from skate.core.cluster.membership import Membership, Peer
from skate.core.object.object_table import ObjectTable
from skate.core.schedule.worker_record import Worker
from skate.core.task.function_table import FunctionTable
from skate.core.task.task import Task
from skate.core.task.task_manager import TaskManager
from skate.core.task.task_starter import TaskStarter
from skate.protocol import messages as m
from skate.protocol.states import ALIVE, DEAD, METHOD, QUEUED, RESTARTING, SENT, WAITING


class Cluster(Protocol):
    """The operations on other nodes that this module needs."""

    def forward(self, task: Task, peer: Peer) -> None:
        """Forward a task to another node."""


class Registry(Protocol):
    """The actors of the cluster, on this node or through the head."""

    def entry(self, actor_id: bytes) -> Actor | None:
        """Return the actor with an id that is not known here, or None."""

    def is_here(self, actor: Actor) -> bool:
        """Return True if this node handles the calls to an actor."""


class Values(Protocol):
    """Fetches values from other nodes."""

    def bring(self, task: Task) -> bool:
        """Fetch arguments from other nodes; return True if the task waits for any."""


class Disk(Protocol):
    """The values that memory overflows to disk."""

    used_once: bool


class ActorCalls:
    """Queues calls to actors and sends them."""

    def __init__(
        self,
        actors: ActorTable,
        task_manager: TaskManager,
        starter: TaskStarter,
        cluster: Cluster,
        members: Membership,
    ) -> None:
        self.actors = actors
        self.task_manager = task_manager
        self.tasks = task_manager.tasks
        self.clock = task_manager.clock
        self._start = starter.start
        self.cluster = cluster
        self.registry: Registry
        self.members = members
        self.objects: ObjectTable
        self.values: Values
        self.disk: Disk
        self._end_if_unwanted: Callable[[Actor], None]
        #: Calls wait for a restarting actor, even if they may not be retried.
        self.wait_for_restart = False

    def connect(
        self,
        objects: ObjectTable,
        functions: FunctionTable,
        values: Values,
        disk: Disk,
        end_if_unwanted: Callable[[Actor], None],
    ) -> None:
        """Set the dependencies that are built later and call back."""
        self.objects = objects
        self.templates = functions.templates
        self.values = values
        self.disk = disk
        self._end_if_unwanted = end_if_unwanted

    def call(self, cid: int, message: m.Call) -> None:
        """CALL: add a method call, in the caller's order unless the actor runs calls concurrently."""
        _, task_id, actor_id, key, args, deps, held, parent = message
        template = self.templates[key]
        template.entered += 1
        task = Task(task_id, METHOD, cid, template, args, deps, held, parent)
        task.since = self.clock.now
        self.tasks[task_id] = task
        self.enter_call(task, actor_id)

    def enter_call(self, task: Task, actor_id: bytes) -> None:
        """Add a new call; send it to the actor as soon as possible."""
        actor = self.actors.actors.get(actor_id)
        if actor is None:
            actor = self.registry.entry(actor_id)
        if task.origin is not None and actor is not None and not self.registry.is_here(actor):
            actor = None
        task.actor = actor
        if task.deps or task.held:
            self.task_manager.take_arguments(task)
        if actor is not None:
            task.retries = retries_of(task)
            if task.attempt and task.origin is not None:
                task.retries = task.origin["retries"]
        self._line_up(task, actor, actor_id)

    def again(self, task: Task) -> None:
        """Repeat a call whose results were lost, if its actor is alive."""
        actor_id: bytes = task.actor.actor_id
        actor = self.actors.actors.get(actor_id)
        if actor is None:
            actor = self.registry.entry(actor_id)
        if actor is not None:
            task.actor = actor
        self._line_up(task, actor, actor_id)

    def _line_up(self, task: Task, actor: Actor | None, actor_id: bytes) -> None:
        if actor is None or actor.state == DEAD:
            error = actor.death if actor is not None and actor.death else unknown_actor(actor_id)
            self.task_manager.fail(task, not_begun(error))
        elif task.missing or (actor.in_order and task.client in actor.lanes):
            task.template.lined += 1
            actor.lanes.setdefault(actor.lane_of(task), deque()).append(task)
        else:
            self._ready(actor, task)

    def arguments_ready(self, task: Task) -> None:
        """Send a call whose arguments are available, and the calls that waited behind it."""
        actor = task.actor
        self._advance(actor, actor.lane_of(task))
        self._end_if_unwanted(actor)

    def _advance(self, actor: Actor, key: int | bytes) -> None:
        """Send the calls at the head of a lane, up to the first one with missing arguments."""
        lane = actor.lanes.get(key)
        if lane is None:
            return
        while lane and not lane[0].missing:
            task = lane.popleft()
            task.template.lined -= 1
            self._ready(actor, task)
        if not lane:
            actor.lanes.pop(key, None)

    def _ready(self, actor: Actor, task: Task) -> None:
        failed = self.objects.failed_argument(task) if task.deps else None
        if failed is not None:
            self.task_manager.fail(task, failed)
        elif actor.state == ALIVE and not actor.leaving:
            if not self._send(actor, task):
                task.template.lined += 1
                actor.lanes.setdefault(actor.lane_of(task), deque()).appendleft(task)
        elif actor.state == RESTARTING and not self.waits_for_restart(task):
            self.task_manager.fail(task, restarting(actor))
        else:
            task.state = QUEUED
            actor.queue.append(task)

    def waits_for_restart(self, task: Task) -> bool:
        """Return True if a call that has not begun waits for its actor to restart, and False if it fails."""
        return bool(task.retries or task.attempt or self.wait_for_restart)

    def _send(self, actor: Actor, task: Task) -> bool:
        """Send a call to the actor; False if it has to wait for an argument that is not here in memory."""
        worker = actor.worker
        if worker is None:
            self.cluster.forward(task, actor.node)
            return True
        if task.deps and (self.members.active or self.disk.used_once):
            if self.values.bring(task):
                return False
            failed = self.objects.failed_argument(task)
            if failed is not None:  # it was lost meanwhile and could not be reconstructed
                self.task_manager.fail(task, failed)
                return True
        task.state = SENT
        task.worker = worker
        worker.sent += 1
        task.sequence = worker.sent
        if not worker.outstanding:
            worker.progress = self.clock.now
        worker.outstanding[task.task_id] = task
        template = task.template
        template.called += 1
        if not actor.in_order:
            template.at_once += 1
        self._start(task)
        return True

    def retry(self, task: Task) -> None:
        """Retry a failed call whose caller requested retries for the error."""
        self._ready(task.actor, task)  # the actor may be leaving by now

    def answered(self, worker: Worker) -> None:
        """Handle the answer to a call: the actor may have no work or handles left."""
        worker.progress = self.clock.now
        actor = worker.actor
        if actor is not None and not worker.outstanding and (actor.routed or not actor.wanted):
            self._end_if_unwanted(actor)

    def dequeue(self, task: Task) -> None:
        """Remove a call that has not been sent."""
        actor = task.actor
        if task in actor.queue:
            actor.queue.remove(task)
        key = actor.lane_of(task)
        lane = actor.lanes.get(key)
        if lane and task in lane:
            lane.remove(task)
            task.template.lined -= 1
            self._advance(actor, key)

    def flush(self, actor: Actor) -> None:
        """Send the calls that waited for the actor to start."""
        queue, actor.queue = actor.queue, deque()
        stalled: dict[int | bytes, list[Task]] = {}
        for call in queue:
            key = actor.lane_of(call)
            if key in stalled:
                call.state = WAITING
                stalled[key].append(call)
            elif not self._send(actor, call):
                stalled[key] = [call]
        for key, calls in stalled.items():
            for call in calls:
                call.template.lined += 1
            actor.lanes.setdefault(key, deque()).extendleft(reversed(calls))
