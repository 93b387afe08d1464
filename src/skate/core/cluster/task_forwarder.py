"""Tasks forwarded to other nodes, and tasks that other nodes forwarded here.

A peer treats a forwarded task as its own and answers with the messages that a node sends to its clients: results as they come,
and FINISHED after the last one, or ANSWERED with the only one. Small results are passed on at once; large ones stay where they
were made.
"""

from __future__ import annotations

from typing import Any, Final, Protocol

from skate.core.actor.actor_manager import ActorManager
from skate.core.actor.actor_table import Actor
from skate.core.client import Client
from skate.core.cluster.membership import Membership, Peer
from skate.core.cluster.node_capacity_index import Changes
from skate.core.cluster.remote_objects import RemoteObjects
from skate.core.object.object_table import ObjectTable
from skate.core.schedule.scheduler import Scheduler
from skate.core.task.function_table import FunctionTable
from skate.core.task.task import Task
from skate.core.task.task_manager import FIRST, TaskManager
from skate.protocol import messages as m
from skate.protocol.fields import ActorFields, ForwardFields
from skate.protocol.states import CREATION, METHOD, PLAIN, QUEUED, SENT, TaskKind

#: A look-up: to call the class takes longer than the rest of a FORWARD's unpacking.
_KINDS: Final = {int(kind): kind for kind in TaskKind}


class Router(Protocol):
    """Decides where each task runs."""

    #: Nodes where resources have become free.
    changes: Changes
    #: Tasks that wait for a node with room.
    waiting: dict[Any, Any]
    #: How many reports of free resources this node has sent to all peers.
    reports: int
    #: Tasks of peers that arrived since the last report and still run.
    unreported: int

    def unwait(self, task: Task) -> None:
        """Stop a task's wait for a node."""

    def pump(self) -> None:
        """Send queued tasks to nodes that have room."""

    def touched(self) -> None:
        """Note that a peer has relied on an outdated report of free resources here."""


class Registry(Protocol):
    """Registers the actors of the cluster, or runs them for the node that does."""

    def host(self, task: Task, life: ActorFields, peer: Peer) -> None:
        """Take an actor creation from another node."""


class Jobs(Protocol):
    """The jobs of the cluster."""

    def introduce(self, peer: Peer, name: str) -> None:
        """Tell a peer of a job, unless it knows it."""


class TaskForwarder:
    """Forwards tasks to peers and handles their answers; also runs tasks that peers forward here."""

    def __init__(
        self,
        task_manager: TaskManager,
        actor_manager: ActorManager,
        functions: FunctionTable,
        scheduler: Scheduler,
        objects: ObjectTable,
        remote_objects: RemoteObjects,
        members: Membership,
    ) -> None:
        self.task_manager = task_manager
        self.tasks = task_manager.tasks
        self.clients = task_manager.clients
        self.emit = task_manager.out.emit
        self._effects = task_manager.out.effects
        self.actor_manager = actor_manager
        self.functions, self.templates = functions.functions, functions.templates
        self.scheduler = scheduler
        self.objects = objects
        self.remote_objects = remote_objects
        self.lineage = remote_objects.lineage
        self.members = members
        self.router: Router
        self.registry: Registry
        self.jobs: Jobs
        self._clients: dict[tuple[str, str], Client] = {}

    def connect(self, router: Router, jobs: Jobs) -> None:
        """Set the component that forwards through this one and gets the answers, and the one that tells peers of jobs."""
        self.router = router
        self.jobs = jobs

    # -- forwarding

    def forward(self, task: Task, peer: Peer) -> None:
        """Forward a task to a peer, which answers as a node answers its client."""
        task.state = SENT
        task.node = peer
        task.worker = None
        if task.kind != CREATION:
            task.template.away += 1
        peer.sent += 1
        task.sequence = peer.sent
        fields: ForwardFields = {"attempt": task.attempt}
        client = self.client_of(task)
        if client is not None:
            fields["job"], fields["namespace"] = client.job, client.namespace
        fields["retries"] = task.retries
        if task.consumed:
            fields["consumed"] = task.consumed
        if task.kind == METHOD:
            fields["actor"] = task.actor.actor_id
        else:
            peer.outstanding[task.task_id] = task
            peer.take(task.template.request)
            group = self.scheduler.class_of(task)
            peer.classes[group] = peer.classes.get(group, 0) + 1
            if task.kind == CREATION:
                fields["life"] = assign(task.actor, peer)
        self.introduce(peer, task.template.key)
        # A plain tuple: a record takes longer to make than to pack.
        message = (
            m.FORWARD,
            task.kind,
            task.task_id,
            task.template.key,
            task.args,
            task.deps,
            task.held,
            task.parent,
            fields,
        )
        self._effects.append((peer.cid, message))

    def introduce(self, peer: Peer, key: bytes) -> None:
        """Send a peer the job, the template and the function if it does not have them yet."""
        if key in peer.known:
            return
        template = self.templates[key]
        if template.job:
            self.jobs.introduce(peer, template.job)
        peer.known.add(key)
        if template.function and template.function not in peer.known:
            peer.known.add(template.function)
            self.emit(peer.cid, m.Function(m.FUNCTION, template.function, *self.functions[template.function]))
        self.emit(peer.cid, m.Template(m.TEMPLATE, key, template.fields))

    def answered(self, task: Task) -> None:
        """Remove a task or an actor creation that a peer has finished."""
        peer = task.node
        if peer is None or peer.outstanding.pop(task.task_id, None) is None:
            return
        group = self.scheduler.class_of(task)
        peer.classes[group] -= 1
        if task.kind == PLAIN:
            peer.take(task.template.request, 1)
        self.router.changes.freed(peer)

    # -- answers of peers

    def finished(self, cid: int, message: m.Finished) -> None:
        """FINISHED: a peer sends no more messages about a task."""
        _, task_id, micros, error = message
        task = self.tasks.get(task_id)
        if task is None or task.node is None or task.node.cid != cid:
            return
        self.answered(task)
        if error is not None:  # it never ran, because the peer had no use for it
            self.task_manager.fail(task, error)
            self._ended(task)
        else:
            self._end(task, micros)

    def has_answered(self, cid: int, message: m.Answered) -> None:
        """ANSWERED: a peer sends the only result of a task, and no more messages about it."""
        _, task_id, kind, payload, held, kept, micros = message
        task = self._take(cid, task_id + FIRST, kind, payload, held, kept, None)
        if task is None:
            return
        self.answered(task)
        self._end(task, micros)

    def _end(self, task: Task, micros: int) -> None:
        """Forget a task that has ended at a peer."""
        if micros >= 0:
            task.template.ran(micros * 1e-6)
        self.task_manager.forget(task)
        self._ended(task)

    def _ended(self, task: Task) -> None:
        if task.kind == METHOD and task.actor is not None:
            self.actor_manager.end_if_unwanted(task.actor)
        if self.router.waiting or self.scheduler.waiting:
            self.router.pump()

    def tell_retried(self, task: Task) -> None:
        """Tell a peer how many attempts its task has had here, in case this node is lost."""
        self.emit(task.client, m.Retried(m.RETRIED, task.task_id, task.attempt, task.retries))

    def retried(self, cid: int, message: m.Retried) -> None:
        """RETRIED: a forwarded task has begun another attempt."""
        _, task_id, attempt, retries = message
        task = self.tasks.get(task_id)
        if task is not None and task.node is not None and task.node.cid == cid:
            task.attempt, task.retries = attempt, retries
            self.task_manager.retried[task_id] = task

    def result(self, cid: int, message: m.Result) -> None:
        """RESULT: a peer sends one result of a forwarded task."""
        _, oid, kind, payload, held, kept = message
        self._take(cid, oid, kind, payload, held, kept, None)

    def streamed(self, cid: int, message: m.Stream) -> None:
        """STREAM: a peer sends the next value of a generator that runs there."""
        _, task_id, index, kind, payload, held, kept = message
        task = self.tasks.get(task_id)
        if kind == m.ERROR and task is not None and index <= task.items and task.client in self.clients:
            self._failed_again(cid, task, message)
            return
        oid = task_id + index.to_bytes(4, "little")
        if task is not None and task.attempt:
            task.run_again = (task.attempt, index)
        if task is None or index <= task.items:
            if task is not None and self.objects.wanted(oid):
                self._take_again(task.node, oid, kind, payload, held, kept)
            else:
                self._give_back(cid, oid, held, kept)
            return
        task.items = index
        self._take(cid, oid, kind, payload, held, kept, index)

    def _failed_again(self, cid: int, task: Task, message: m.Stream) -> None:
        """Give a reader the error of another attempt, which failed before it got to the items that the reader has."""
        _, _, index, kind, payload, held, kept = message
        self.lineage.fail_lost_items(task, payload)
        task.items += 1
        if task.attempt:
            task.run_again = (task.attempt, task.items)
        oid = task.task_id + task.items.to_bytes(4, "little")
        self.task_manager.give(task, oid, kind, payload, held, task.items)
        self._give_back(cid, task.task_id + index.to_bytes(4, "little"), held, kept)

    def stream_ended(self, cid: int, message: m.StreamEnd) -> None:
        """STREAM_END: a peer reports the end of a stream."""
        _, task_id, count = message
        task = self.tasks.get(task_id)
        if task is None or task.node is None or task.node.cid != cid:
            return
        task.given = {b"the end"}  # which counts as its one result
        if task.client in self.clients:
            self.emit(task.client, m.StreamEnd(m.STREAM_END, task.task_id, max(count, task.items)))
        else:
            self.objects.fail_end_of_stream(task_id)

    def _take(
        self,
        cid: int,
        oid: bytes,
        kind: int,
        payload: Any,
        held: tuple[bytes, ...],
        kept: int,
        index: int | None,
    ) -> Task | None:
        """Take a value that a peer's task has made, and return the task; give it back if the task is not there any more."""
        task = self.tasks.get(oid[:24])
        if task is None or task.node is None or task.node.cid != cid:
            self._give_back(cid, oid, held, kept)
            return None
        if kind == m.ARENA:
            self.remote_objects.made_at(task, oid, task.node, payload[1], held, index)
        else:
            self.task_manager.give(task, oid, kind, payload, held, index)
            if held or kept:
                self._give_back(cid, oid, held, kept)
        if index is None:
            task.given = {oid} if task.given is None else task.given | {oid}
        return task

    def _take_again(
        self, peer: Peer, oid: bytes, kind: int, payload: Any, held: tuple[bytes, ...], kept: int
    ) -> None:
        """Handle an item that was lost and has been made again."""
        if kind == m.ARENA:
            self.remote_objects.made_again(oid, peer, payload[1], held)
        else:
            self.objects.refill(oid, kind, payload, held)
            self._give_back(peer.cid, oid, held, kept)

    def _give_back(self, cid: int, oid: bytes, held: tuple[bytes, ...], kept: int) -> None:
        for each in (oid,) if kept else held:
            self.emit(cid, (m.FREE, each, 1))

    # -- tasks from peers

    def forwarded(self, cid: int, message: m.Forward) -> None:
        """FORWARD: run a task for a peer."""
        _, kind, task_id, key, args, deps, held, parent, fields = message
        peer = self.members.alive[cid]
        peer.received += 1
        task = Task(task_id, _KINDS[kind], cid, self.templates[key], args, deps, held, parent)
        task.origin = fields
        task.since = self.task_manager.clock.now
        task.attempt = fields["attempt"]
        task.consumed = fields.get("consumed", 0)
        if task.attempt and kind != CREATION:
            self.task_manager.retried[task_id] = task
        if kind == METHOD:
            task.template.entered += 1
            self.tasks[task_id] = task
            self.actor_manager.calls.enter_call(task, fields["actor"])
        elif kind == CREATION:
            self.router.touched()
            self.registry.host(task, fields["life"], peer)
        else:
            task.retries = fields["retries"]
            task.report = self.router.reports
            self.router.unreported += 1
            task.template.entered += 1
            self.tasks[task_id] = task
            self.task_manager.enter(task)

    def ended(self, task: Task) -> None:
        """Handle the end of a task here: notify the peer it came from, or keep it in case its results are lost."""
        self.router.unwait(task)
        if task.node is not None:
            task.template.away -= 1
        if task.origin is None:
            self.lineage.keep(task)
        elif task.kind != CREATION:
            if task.kind != METHOD:
                # The peer adds the task's resources to the last report, and one from before the task does not lack them.
                if task.report == self.router.reports:
                    self.router.unreported -= 1
                else:
                    self.router.touched()
            micros = int(task.template.seconds * 1e6)
            if not (task.template.returns == 1 and self._end_with_result(task, micros)):
                self.emit(task.client, m.Finished(m.FINISHED, task.task_id, micros, None))

    def _end_with_result(self, task: Task, micros: int) -> bool:
        """Let the result that was just emitted say that its task has ended; return False if there is none."""
        effects = self._effects
        if not effects:
            return False
        to, message = effects[-1]
        if to != task.client or message[0] != m.RESULT:
            return False
        _, oid, kind, payload, held, kept = message
        if oid != task.task_id + FIRST:
            return False
        effects[-1] = (to, (m.ANSWERED, task.task_id, kind, payload, held, kept, micros))
        return True

    # -- loss of a node

    def lost(self, task: Task, peer: Peer) -> None:
        execution = self.task_manager
        task.node = None
        task.template.away -= 1
        if task.given is not None and len(task.given) == task.template.returns:
            execution.forget(task)
        elif task.cancelled:
            execution.cancelled(task)
        elif task.retries:
            task.retries -= task.retries > 0
            self.task_manager.count_attempt(task)
            task.state = QUEUED
            self.task_manager.admit(task)
        else:
            text = (
                f"{peer.describe()} {peer.reason} while {task.template.name} was there, on attempt "
                f"{task.attempt + 1}; raise max_retries (now {task.template.max_retries}) to let it run again elsewhere"
            )
            execution.fail(task, ("NodeDiedError", {"message": text}))

    def client_of(self, task: Task) -> Client | None:
        """Return the client whose program a task belongs to, with its job and namespace."""
        if task.origin is None:
            return self.clients.get(task.client)
        key = (task.origin.get("job", ""), task.origin.get("namespace", ""))
        found = self._clients.get(key)
        if found is None:
            found = self._clients[key] = Client(-1, *key)
        return found


def assign(actor: Actor, peer: Peer) -> ActorFields:
    """Assign an actor to the node that will run it for this one, the head; return the data that it needs."""
    actor.node = peer
    actor.grants = 1
    actor.routed = True
    return {
        "actor_name": actor.name,
        "namespace": actor.namespace,
        "max_restarts": actor.restarts_max,
        "max_task_retries": actor.task_retries,
        "concurrent": not actor.in_order,
        "restarts": actor.restarts,
    }
