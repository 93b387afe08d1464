"""Tasks that are forwarded to another node, and those that another node has forwarded here.

A peer takes a task as its own and answers with the words of a node to its client: results as they come, and at the end that
nothing more is coming. Small results are handed on at once, large ones stay where they were made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from skate.core.task.task import Task
from skate.protocol import messages as m
from skate.protocol.fields import ForwardFields
from skate.protocol.states import CREATION, METHOD, PLAIN, QUEUED, SENT, TaskKind

if TYPE_CHECKING:
    from skate.core.cluster.peer_table import Peer, PeerTable
    from skate.core.node import NodeCore


class TaskForwarder:
    """Gives tasks to peers and takes in what they say of them; the other way round as well."""

    def __init__(self, node: NodeCore, peers: PeerTable) -> None:
        self.node = node
        self.peers = peers
        self._clients: dict[tuple[str, str], Any] = {}
        node.handlers[m.FORWARD] = self.forwarded
        node.handlers[m.FINISHED] = self.finished
        node.handlers[m.RETRIED] = self.retried
        node.handlers[m.RESULT] = self.result
        node.handlers[m.STREAM] = self.streamed
        node.handlers[m.STREAM_END] = self.stream_ended

    # -- out

    def forward(self, task: Task, peer: Peer) -> None:
        """Give a task to a peer; it answers like a node answers its client."""
        node = self.node
        task.state = SENT
        task.node = peer
        task.worker = None
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
            group = node.scheduler.class_of(task)
            peer.classes[group] = peer.classes.get(group, 0) + 1
            if task.kind == CREATION:
                fields["life"] = node.actor_directory.put_at(task.actor, peer)
        self.introduce(peer, task.template.key)
        node.emit(
            peer.cid,
            m.Forward(
                m.FORWARD,
                task.kind,
                task.task_id,
                task.template.key,
                task.args,
                task.deps,
                task.held,
                task.parent,
                fields,
            ),
        )

    def introduce(self, peer: Peer, key: bytes) -> None:
        """Send a peer the template and the function that it does not have yet."""
        if key in peer.known:
            return
        node = self.node
        template = node.templates[key]
        peer.known.add(key)
        if template.function and template.function not in peer.known:
            peer.known.add(template.function)
            node.emit(peer.cid, m.Function(m.FUNCTION, template.function, *node.functions[template.function]))
        node.emit(peer.cid, m.Template(m.TEMPLATE, key, template.fields))

    def answered(self, task: Task) -> None:
        """A peer has no more to say of a task, or of the creation of an actor."""
        peer = task.node
        if peer is None or peer.outstanding.pop(task.task_id, None) is None:
            return
        group = self.node.scheduler.class_of(task)
        peer.classes[group] -= 1
        if task.kind == PLAIN:
            peer.take(task.template.request, 1)
        self.peers.where.changes.freed(peer)

    # -- what peers answer

    def finished(self, cid: int, message: m.Finished) -> None:
        """FINISHED: nothing more is coming of a task."""
        _, task_id, micros, error = message
        node = self.node
        task = node.tasks.get(task_id)
        if task is None or task.node is None or task.node.cid != cid:
            return
        self.answered(task)
        if error is not None:  # it never ran, for it is of no use there
            node.task_manager.fail(task, error)
        else:
            if micros >= 0:
                task.template.ran(micros * 1e-6)
            node.task_manager.forget(task)
        if task.kind == METHOD and task.actor is not None:
            node.actor_manager.end_if_unwanted(task.actor)
        if self.peers.waiting or node.scheduler.waiting:
            self.peers.pump()

    def tell_retried(self, task: Task) -> None:
        """A task of a peer's runs again here: so many attempts it has had, if this node is lost."""
        self.node.emit(task.client, m.Retried(m.RETRIED, task.task_id, task.attempt, task.retries))

    def retried(self, cid: int, message: m.Retried) -> None:
        """RETRIED: where it is, a task has had another attempt."""
        _, task_id, attempt, retries = message
        task = self.node.tasks.get(task_id)
        if task is not None and task.node is not None and task.node.cid == cid:
            task.attempt, task.retries = attempt, retries

    def result(self, cid: int, message: m.Result) -> None:
        """RESULT from a peer: one result of a task that was forwarded there."""
        _, oid, kind, payload, held, kept = message
        self._take(cid, oid, kind, payload, held, kept, None)

    def streamed(self, cid: int, message: m.Stream) -> None:
        """STREAM from a peer: one more value of a generator that runs there."""
        _, task_id, index, kind, payload, held, kept = message
        task = self.node.tasks.get(task_id)
        if kind == m.ERROR and task is not None and index <= task.items and task.client in self.node.clients:
            # Another attempt has failed before it came so far: its reader has yet to hear of that.
            self.node.remote_objects.lineage.unmade(task, payload)
            index = task.items + 1
        oid = task_id + index.to_bytes(4, "little")
        if task is None or index <= task.items:
            if task is not None and self.node.objects.wanted(oid):
                self._take_again(task.node, oid, kind, payload, held, kept)
            else:
                self._give_back(cid, oid, held, kept)
            return
        task.items = index
        self._take(cid, oid, kind, payload, held, kept, index)

    def stream_ended(self, cid: int, message: m.StreamEnd) -> None:
        """STREAM_END from a peer."""
        _, task_id, count = message
        task = self.node.tasks.get(task_id)
        if task is None or task.node is None or task.node.cid != cid:
            return
        task.given = {b"the end"}  # which counts as its one result
        if task.client in self.node.clients:
            self.node.emit(task.client, m.StreamEnd(m.STREAM_END, task.task_id, max(count, task.items)))

    def _take(
        self,
        cid: int,
        oid: bytes,
        kind: int,
        payload: Any,
        held: tuple[bytes, ...],
        kept: int,
        index: int | None,
    ) -> None:
        node = self.node
        task = node.tasks.get(oid[:24])
        if task is None or task.node is None or task.node.cid != cid:
            self._give_back(cid, oid, held, kept)
            return
        if kind == m.ARENA:
            node.remote_objects.made_at(task, oid, task.node, payload[1], held, index)
        else:
            node.task_manager.give(task, oid, kind, payload, held, index)
            self._give_back(cid, oid, held, kept)
        if index is None:
            task.given = {oid} if task.given is None else task.given | {oid}

    def _take_again(
        self, peer: Peer, oid: bytes, kind: int, payload: Any, held: tuple[bytes, ...], kept: int
    ) -> None:
        """An item of a stream that was lost has been made again."""
        if kind == m.ARENA:
            self.node.remote_objects.made_again(oid, peer, payload[1], held)
        else:
            self.node.task_manager.refill(oid, kind, payload, held)
            self._give_back(peer.cid, oid, held, kept)

    def _give_back(self, cid: int, oid: bytes, held: tuple[bytes, ...], kept: int) -> None:
        for each in (oid,) if kept else held:
            self.node.emit(cid, (m.FREE, each, 1))

    # -- in

    def forwarded(self, cid: int, message: m.Forward) -> None:
        """FORWARD: a peer has a task that is to run here."""
        _, kind, task_id, key, args, deps, held, parent, fields = message
        node = self.node
        peer = self.peers.alive[cid]
        peer.received += 1
        self.peers.touched()
        task = Task(task_id, TaskKind(kind), cid, node.templates[key], args, deps, held, parent)
        task.origin = fields
        task.attempt = fields["attempt"]
        task.consumed = fields.get("consumed", 0)
        if kind == METHOD:
            node.tasks[task_id] = task
            node.actor_manager.enter_call(task, fields["actor"])
        elif kind == CREATION:
            node.actor_directory.host(task, fields["life"], peer)
        else:
            task.retries = fields["retries"]
            node.tasks[task_id] = task
            node.task_manager.enter(task)

    def ended(self, task: Task) -> None:
        """Handle the end of a task here: notify the peer that it came from, or remember it in case its results are
        lost.
        """
        self.peers.unwait(task)
        if task.origin is None:
            self.node.remote_objects.lineage.keep(task)
        elif task.kind != CREATION:
            self.peers.touched()
            seconds = task.template.seconds
            self.node.emit(task.client, m.Finished(m.FINISHED, task.task_id, int(seconds * 1e6), None))

    # -- the end of a node

    def lost(self, task: Task, peer: Peer) -> None:
        execution = self.node.task_manager
        task.node = None
        if task.given is not None and len(task.given) == task.template.returns:
            execution.forget(task)
        elif task.cancelled:
            execution.cancelled(task)
        elif task.retries:
            task.retries -= task.retries > 0
            task.attempt += 1
            task.state = QUEUED
            self.peers.admit(task)
        else:
            text = (
                f"node {peer.node_id.hex()} {peer.reason} while {task.template.name} was there, on attempt "
                f"{task.attempt + 1}; raise max_retries (now {task.template.max_retries}) to let it run again elsewhere"
            )
            execution.fail(task, ("NodeDiedError", {"message": text}))

    def client_of(self, task: Task) -> Any:
        """Whose program a task belongs to: a client with its job and namespace."""
        if task.origin is None:
            return self.node.clients.get(task.client)
        key = (task.origin.get("job", ""), task.origin.get("namespace", ""))
        found = self._clients.get(key)
        if found is None:
            found = self._clients[key] = self.node.new_client(-1, *key)
        return found
