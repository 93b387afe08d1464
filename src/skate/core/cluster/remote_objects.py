"""Objects with their value, or the count of their holders, on another node.

The owner of an object is the node of the process that made its id; it counts the holders. Another node that uses the object is
one more holder there, by one grant, for as long as anything on that node holds or pins it. A value stays where it was made, and
the owner has one grant for it there; a node that needs it fetches it directly from its place, or from another node that has read
it or reads it. Messages between two nodes keep their order, even through a third node, so a grant is always counted before the
grant it derives from is released.
"""

from __future__ import annotations

from skate.core.actor.actor_calls import ActorCalls
from skate.core.cluster.lineage import Lineage
from skate.core.cluster.membership import Membership, Peer
from skate.core.cluster.remote_object import RANK_OF_PLACE, RemoteObject
from skate.core.cluster.secondary_copies import SecondCopies
from skate.core.memory.admission import PULLS, Request
from skate.core.memory.spill_manager import SpillManager
from skate.core.object.object_table import ObjectRecord, ObjectTable
from skate.core.task.task import Task
from skate.core.task.task_manager import TaskManager
from skate.protocol import messages as m
from skate.protocol.effects import Pull
from skate.protocol.fields import ErrorValue
from skate.protocol.states import METHOD, CopyState

PULLING = -2  # the writer of a value that is on its way here
TRIES_MAX = 3


class RemoteObjects:
    """Borrows the objects of other nodes, fetches values from them, and rebuilds what was lost with one."""

    def __init__(
        self,
        objects: ObjectTable,
        task_manager: TaskManager,
        calls: ActorCalls,
        spill_manager: SpillManager,
        members: Membership,
    ) -> None:
        self.objects = objects
        self.task_manager = task_manager
        self.clients = task_manager.clients
        self.emit, self.shell = task_manager.out.emit, task_manager.out.shell
        self.spill_manager = spill_manager
        self.admission = spill_manager.admission
        self.members = members
        self._tag = members.here.tag
        boundary = self.admission.allocator.boundary
        self.copies = SecondCopies(objects, members, boundary, self.emit, self.find_another)
        self.lineage = Lineage(objects, task_manager, calls, self.copies, members, self.want)
        #: Values on their way here, by their offset: (object, size, ids in the value).
        self.pulls: dict[int, tuple[bytes, int, tuple[bytes, ...]]] = {}
        #: What the values contain for which there is no room yet.
        self.waiting: list[tuple[bytes, ...]] = []

    # -- whose it is

    def added(self, record: ObjectRecord) -> None:
        """A record is new: it may be of an object that another node owns."""
        tag = record.oid[8:16]
        if tag != self._tag:
            record.remote = RemoteObject(self.members.by_tag.get(tag) or self.members.unknown_peer(tag))

    def used(self, record: ObjectRecord) -> None:
        """Something here holds or pins an object: its owner must know."""
        remote = record.remote
        owner = remote.owner
        if owner is not None and not remote.grants and owner.alive:
            remote.grants = 1
            self.emit(owner.cid, m.Hold(m.HOLD, record.oid))

    def unused(self, record: ObjectRecord) -> None:
        """Handle the last release of an object here: notify its owner."""
        remote = record.remote
        owner = remote.owner
        if owner is None and remote.readers:
            remote.forget_readers(record.holders)
        if owner is None or not remote.grants:
            return
        if record.pins > 0 or record.writer is not None or record.waiters or record.fetchers:
            return
        if any(cid != owner.cid for cid in record.holders):
            return
        remote.grants = 0
        remote.wanted = False
        if owner.alive:
            self.emit(owner.cid, (m.FREE, record.oid, 1))

    def dropped(self, record: ObjectRecord) -> None:
        """Handle the removal of a record: copies on other nodes may be removed too."""
        place = record.remote.place
        if place is not None and place.alive:
            self.emit(place.cid, (m.FREE, record.oid, 1))
        record.remote.readers.clear()
        if record.remote.copies:
            self.copies.release(record.remote, record.oid)
        self.copies.forget(record)

    # -- values on other nodes

    def made_at(
        self, task: Task, oid: bytes, peer: Peer, size: int, held: tuple[bytes, ...], index: int | None
    ) -> None:
        """Handle a large result of an own task: it stays where it was made, and the peer counts one grant for this node."""
        objects = self.objects
        if task.given is not None and oid in task.given and oid not in objects.records:
            self.emit(peer.cid, (m.FREE, oid, 1))  # from an earlier attempt, and released since
            return
        record = objects.ensure(oid)
        if record.kind == m.REMOTE and record.remote.place is None:  # it was lost and has been made again
            record.remote.place = peer
            return
        if record.kind != m.PENDING or (record.remote is not None and record.remote.place is not None):
            self.emit(peer.cid, (m.FREE, oid, 1))
            return
        if oid in task.lost_results:
            self.made_again(oid, peer, size, held)
            return
        if record.remote is None:
            record.remote = RemoteObject()
        record.remote.place = peer
        client = task.client
        present = client in self.clients
        if present:
            objects.grant(record, client)
        self._fill_remote(record, size, held)
        if present and index is None:
            self.emit(client, (m.RESULT, oid, m.REMOTE, size, held, 1))
        elif present and index is not None:
            self.emit(client, (m.STREAM, task.task_id, index, m.REMOTE, size, held, 1))
        objects.drop_if_unused(record)

    def made_again(self, oid: bytes, peer: Peer, size: int, held: tuple[bytes, ...]) -> None:
        """Handle a reconstructed large value on a peer, which counts one grant for this node."""
        record = self.objects.records[oid]
        if record.remote is None:
            record.remote = RemoteObject()
        record.remote.place = peer
        self._fill_remote(record, size, held)
        self.objects.drop_if_unused(record)

    def _fill_remote(self, record: ObjectRecord, size: int, held: tuple[bytes, ...]) -> None:
        record.kind = m.REMOTE
        record.payload = record.size = size
        before, record.held = record.held, held
        for other in held:
            self.objects.pin(other)
        for other in before:
            self.objects.unpin(other)
        waiters, record.waiters = record.waiters, []
        fetchers, record.fetchers = record.fetchers, []
        for cid in fetchers:
            if record.kind == m.REMOTE and cid in self.members.alive:
                self.deliver(cid, record)
            else:
                record.fetchers.append(cid)
        for waiter in waiters:
            self.task_manager.argument_arrived(waiter)
        if record.fetchers:
            self.want(record)

    def deliver(self, cid: int, record: ObjectRecord) -> None:
        """Answer a peer's FETCH with the value or its place; the peer's grant keeps it there meanwhile."""
        kind = record.kind
        if kind in (m.ARENA, m.SPILLED):
            self._send_source(cid, record, self.members.here)
        elif kind == m.REMOTE:
            if record.remote.place is None:
                record.fetchers.append(cid)
                self.want(record)
            else:
                self._send_source(cid, record, record.remote.place)
        else:
            if record.remote is not None:  # it has read it before, perhaps, and does not read this
                record.remote.readers.pop(self.members.alive[cid], None)
            self.emit(cid, m.Value(m.VALUE, record.oid, kind, record.payload, record.held))

    def deliver_early(self, cid: int, record: ObjectRecord) -> bool:
        """Name a place to a peer although the value has not arrived here; return False if none is known."""
        remote = record.remote
        if record.writer != PULLING or remote.owner is not None or remote.place is None:
            return False
        self._send_source(cid, record, remote.place)
        return True

    def _send_source(self, cid: int, record: ObjectRecord, place: Peer) -> None:
        """Tell a peer where it reads a large value, by its id."""
        here = self.members.here
        if record.remote is None:
            record.remote = RemoteObject()
        own_pull = here if record.writer == PULLING else None
        reading = record.remote.source_for(self.members.alive[cid], place, own_pull)
        if reading.source is here and reading.rank == RANK_OF_PLACE:
            self.emit(cid, m.Value(m.VALUE, record.oid, m.ARENA, record.size, record.held))
        else:
            source = (reading.source.node_id, record.size, reading.rank)
            self.emit(cid, m.Value(m.VALUE, record.oid, m.REMOTE, source, record.held))

    def want(self, record: ObjectRecord) -> None:
        """Request a value that is needed here, or have it reconstructed."""
        remote = record.remote
        if remote is None:
            return
        if record.kind == m.REMOTE:
            record.kind = m.PENDING
            record.payload = None
            if remote.place is None and remote.owner is None:
                remote.place = self.copies.another(record)
            if remote.place is None:
                self.lineage.rebuild(record)
            else:
                self._pull(record, remote.place, record.size, ())
        elif record.kind == m.PENDING and remote.owner is not None and not remote.wanted:
            remote.wanted = True
            if remote.owner.alive:
                self.used(record)
                self.emit(remote.owner.cid, m.Fetch(m.FETCH, record.oid))
            else:
                self._owner_died(record, remote.owner)

    def _owner_died(self, record: ObjectRecord, owner: Peer) -> None:
        detail = (
            f"that was {owner.describe()}, which {owner.reason}; create it in a task that the driver starts"
        )
        self.objects.fail(record, "OwnerDiedError", message=record.oid.hex(), detail=detail)

    def bring(self, task: Task) -> bool:
        """Fetch arguments from other nodes; return True if the task waits for any."""
        objects = self.objects
        execution = self.task_manager
        task.missing += 1  # until all are requested
        fetched = False
        for _, oid in task.deps:
            record = objects.records[oid]
            if record.kind == m.ERROR:  # lost while the task was on another node
                fetched = True
            elif record.kind == m.REMOTE or record.kind == m.PENDING:
                fetched = True
                execution.await_argument(task, record)
                self.want(record)
            elif (
                record.kind == m.SPILLED and task.kind == METHOD
            ):  # other tasks check this when they get a worker
                fetched = True
                execution.await_argument(task, record)
                self.spill_manager.want(record)
        task.missing -= 1
        task.template.unready += task.missing > 0
        if fetched and not task.missing and task.kind != METHOD:  # one of them has failed by now
            execution.arguments_complete(task)
            return True
        return task.missing > 0

    def value(self, cid: int, message: m.Value) -> None:
        """VALUE: a peer answers a FETCH of this node."""
        _, oid, kind, payload, held = message
        record = self.objects.get(oid)
        if record is None or record.kind != m.PENDING or record.remote is None or record.writer is not None:
            if kind in (m.ARENA, m.REMOTE) and (record is None or record.writer != PULLING):
                self.emit(
                    cid, m.Copy(m.COPY, oid, CopyState.READ)
                )  # it came in another way, or is not needed
            return
        if kind in (m.INLINE, m.ERROR):
            self.objects.fill(record, kind, payload, held)
            self.objects.drop_if_unused(record)
            return
        source = self.members.alive.get(cid)
        size, rank = payload, RANK_OF_PLACE
        if kind == m.REMOTE:
            place, size, rank = payload
            source = self.members.by_tag.get(place[:8])
        record.remote.rank = rank
        if source is None or not source.alive:
            self._ask_again(record)
        else:
            self._pull(record, source, size, held)
            self.objects.drop_if_unused(record)

    def _pull(self, record: ObjectRecord, source: Peer, size: int, held: tuple[bytes, ...]) -> None:
        record.writer = PULLING
        record.remote.source = source
        for other in held:
            self.objects.pin(other)
        self.waiting.append(held)
        self.admission.ask(Request(self, PULLS, record.oid, size, (source, held)))

    def granted(self, request: Request) -> None:
        """Handle a granted request: there is memory to pull a value from another node."""
        source, held = request.detail
        self.waiting.remove(held)
        self.pulls[request.offset] = (request.oid, request.size, held)
        record = self.objects.get(request.oid)
        rank = RANK_OF_PLACE if record is None or record.remote is None else record.remote.rank
        self.shell(Pull(source.cid, request.oid, request.offset, request.size, rank))

    def refused(self, request: Request, error: ErrorValue) -> None:
        """Handle a refused pull: there is no memory for the value."""
        objects = self.objects
        _, held = request.detail
        self.waiting.remove(held)
        record = objects.get(request.oid)
        if record is not None and record.writer == PULLING:
            record.writer = None
            self._stop_reading(record)
            objects.fill(record, m.ERROR, error, ())
            objects.drop_if_unused(record)
        for other in held:
            objects.unpin(other)

    def pulled(self, offset: int, success: bool) -> None:
        """Handle the end of a pull: the value is in memory here, or will not come."""
        objects = self.objects
        oid, size, held = self.pulls.pop(offset)
        record = objects.get(oid)
        waited = record is not None and record.writer == PULLING
        if record is not None and waited and success:
            record.writer = None
            objects.fill(record, m.ARENA, (offset, size), record.held or held)
            if record.kind == m.ARENA and objects.get(oid) is record:  # it may have been dropped since
                self.copies.keep(record)
        else:
            self.spill_manager.release(offset)
            if record is not None and not waited:
                self._stop_reading(record)
        if record is not None and waited and not success:
            record.writer = None
            self._ask_again(record)
        for other in held:
            objects.unpin(other)
        if record is not None:
            objects.drop_if_unused(record)

    def _stop_reading(self, record: ObjectRecord) -> None:
        """Tell the owner of a value that this node no longer reads it."""
        owner = None if record.remote is None else record.remote.owner
        if owner is not None and owner.alive:
            self.emit(owner.cid, m.Copy(m.COPY, record.oid, CopyState.READ))

    def _ask_again(self, record: ObjectRecord) -> None:
        """Find another source because the node that was to send a value is lost or no longer has it."""
        remote = record.remote
        # Copies may go at any time, and the owner names few of them.
        remote.tries += remote.rank == RANK_OF_PLACE
        if remote.owner is None:
            if remote.place is remote.source:
                if remote.place is not None and remote.place.alive:
                    self.emit(remote.place.cid, (m.FREE, record.oid, 1))
                remote.place = self.copies.another(record)
            if remote.place is None:
                self.lineage.rebuild(record)
            else:
                self._pull(record, remote.place, record.size, ())
        elif remote.tries > TRIES_MAX:
            node = remote.owner.node_id.hex()
            lost = f"asked {TRIES_MAX} times, its owner, node {node}, named only places that no longer exist"
            self._stop_reading(record)
            self.objects.fail(record, "ObjectLostError", message=record.oid.hex(), detail=lost)
        else:
            remote.wanted = False
            self.want(record)

    # -- loss of a node

    def find_another(self, record: ObjectRecord) -> None:
        """Replace the lost place of an owned value by a copy, or mark the value as lost."""
        record.remote.place = self.copies.another(record)
        if record.remote.place is None:
            self.lineage.interrupted(record)

    def node_left(self, peer: Peer) -> None:
        """Handle the loss of a peer: its copies are lost, and values it owned cannot be reconstructed."""
        objects = self.objects
        for record in list(objects.records.values()):
            remote = record.remote
            if remote is None:
                continue
            remote.readers.pop(peer, None)
            if peer in remote.copies:
                remote.copies = tuple(other for other in remote.copies if other is not peer)
            if remote.place is peer:
                remote.lost = peer
                self.find_another(record)
            if remote.owner is peer:
                remote.grants = 0
                # The record is no longer a copy for that node, even if something here still uses it.
                self.copies.forget(record)
                if record.kind == m.PENDING and record.writer is None:
                    self._owner_died(record, peer)
                objects.drop_if_unused(record)

    def check(self) -> None:
        """Raise AssertionError if an invariant is broken."""
        for record in self.objects.records.values():
            remote = record.remote
            if remote is None:
                assert record.kind != m.REMOTE, f"{record} is nowhere"
                continue
            for peer in remote.readers:
                assert remote.owner is None and peer.alive and peer.cid in record.holders, (
                    f"{peer} does not read {record}"
                )
            if remote.grants:
                others = (
                    any(cid != remote.owner.cid for cid in record.holders)
                    if remote.owner is not None
                    else True
                )
                used = others or record.pins or record.waiters or record.fetchers or record.writer is not None
                assert used, f"{record} is borrowed for nothing"
            if remote.owner is not None and not remote.owner.alive and record.kind == m.PENDING:
                awaited = record.writer is None and (record.waiters or record.fetchers)
                assert not awaited, f"{record} is awaited from {remote.owner}, which is lost"
        writing = sum(record.writer == PULLING for record in self.objects.records.values())
        assert writing <= len(self.pulls) + len(self.waiting), "a value is awaited that nobody sends"
        self.lineage.check()
        self.copies.check()
