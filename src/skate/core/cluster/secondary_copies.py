"""Secondary copies: values owned by another node, kept here after they were read.

So tasks that use one value one after another, such as the weights of a model, read it once. The owner counts one grant for a copy
and releases it with the object. If the node that made the value is lost, the owner uses a copy in its place. When memory runs
short, unused copies are dropped first, and their owners are notified.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from skate.core.cluster.membership import Membership, Peer
from skate.core.cluster.remote_object import RemoteObject
from skate.core.object.object_table import ObjectRecord, ObjectTable
from skate.protocol import messages as m
from skate.protocol.states import CopyState


class SecondCopies:
    """Copies kept here for other owners, and copies elsewhere of this node's objects."""

    def __init__(
        self,
        objects: ObjectTable,
        members: Membership,
        boundary: int,
        emit: Callable[[int, Any], None],
        find_another: Callable[[ObjectRecord], None],
    ) -> None:
        self.objects = objects
        self.members = members
        self.boundary = boundary  # end of memory and start of the disk
        self.emit = emit
        self._find_another = find_another
        #: Copies here that may be dropped, oldest first.
        self.here: dict[bytes, ObjectRecord] = {}

    def keep(self, record: ObjectRecord) -> None:
        """Keep a value that was read from another node, as a copy for its owner."""
        owner = record.remote.owner
        if owner is None or not owner.alive or record.oid in self.here:
            return
        if owner.cid in record.holders or record.payload[0] >= self.boundary:
            # The owner already has a copy here, or the value is on disk.
            self.emit(owner.cid, m.Copy(m.COPY, record.oid, CopyState.READ))
            return
        record.holders[owner.cid] = 1
        self.here[record.oid] = record
        self.emit(owner.cid, m.Copy(m.COPY, record.oid, CopyState.ADDED))

    def evict(self) -> bool:
        """Drop the oldest copy not in use here to free memory; return False if there is none."""
        for oid, record in self.here.items():
            if self._evictable(record):
                owner = record.remote.owner
                del self.here[oid]
                self.emit(owner.cid, m.Copy(m.COPY, oid, CopyState.GONE))
                self.objects.free(owner.cid, oid, 1)
                return True
        return False

    @staticmethod
    def _evictable(record: ObjectRecord) -> bool:
        used = record.pins > 0 or record.writer is not None or record.waiters or record.fetchers
        return not used and record.kind == m.ARENA and list(record.holders) == [record.remote.owner.cid]

    def lost(self, record: ObjectRecord) -> None:
        """Tell the owner of a value, which counts on the one here, that it is lost; it is requested again if needed."""
        remote = record.remote
        remote.wanted = False
        self.forget(record)
        if record.holders.pop(remote.owner.cid, None) is not None and remote.owner.alive:
            self.emit(remote.owner.cid, m.Copy(m.COPY, record.oid, CopyState.GONE))

    def forget(self, record: ObjectRecord) -> None:
        """Forget a removed record."""
        self.here.pop(record.oid, None)

    def copy_changed(self, cid: int, message: m.Copy) -> None:
        """COPY: a peer has read a value, has a copy, no longer has it, or needs the one here."""
        _, oid, word = message
        record = self.objects.get(oid)
        peer = self.members.alive[cid]
        if word in (CopyState.ADDED, CopyState.READ) and record is not None and record.remote is not None:
            record.remote.readers.pop(peer, None)
        if word == CopyState.NEEDED:
            if record is not None and record.remote is not None and record.remote.owner is peer:
                self.here.pop(oid, None)
        elif word == CopyState.UNWANTED:
            # It may have been dropped meanwhile, or be in use by now.
            if self.here.get(oid) is record and record is not None and record.remote.owner is peer:
                del self.here[oid]
                self.objects.free(cid, oid, 1)
        elif word == CopyState.ADDED:
            if record is None or not self._may_have(record, peer):
                self.emit(cid, m.Copy(m.COPY, oid, CopyState.UNWANTED))
                return
            if record.remote is None:
                record.remote = RemoteObject()
            record.remote.copies = (*record.remote.copies, peer)
        elif word == CopyState.GONE and record is not None and record.remote is not None:
            self._gone(record, peer)

    def _may_have(self, record: ObjectRecord, peer: Peer) -> bool:
        """Return True if a peer may count as having a copy of an own value."""
        remote = record.remote
        if remote is None:
            return record.kind in (m.ARENA, m.SPILLED) and record.oid[8:16] == self.members.here.tag
        if remote.owner is not None or remote.place is peer or peer in remote.copies:
            return False
        return remote.place is not None or record.kind in (m.ARENA, m.SPILLED)

    def _gone(self, record: ObjectRecord, peer: Peer) -> None:
        remote = record.remote
        remote.copies = tuple(other for other in remote.copies if other is not peer)
        if (
            remote.owner is None and remote.place is peer
        ):  # it was dropped before the peer learned that it was needed
            remote.place = None
            self._find_another(record)

    def another(self, record: ObjectRecord) -> Peer | None:
        """Use a copy in place of a lost value, if there is one."""
        remote = record.remote
        while remote.copies:
            peer: Peer = remote.copies[0]
            remote.copies = remote.copies[1:]
            if peer.alive:
                self.emit(peer.cid, m.Copy(m.COPY, record.oid, CopyState.NEEDED))
                return peer
        return None

    def release(self, remote: RemoteObject, oid: bytes) -> None:
        """Release the copies of an own object that is freed."""
        copies, remote.copies = remote.copies, ()
        for peer in copies:
            if peer.alive:
                self.emit(peer.cid, m.Copy(m.COPY, oid, CopyState.UNWANTED))

    def check(self) -> None:
        """Raise AssertionError if an invariant is broken."""
        for oid, record in self.here.items():
            assert self.objects.get(oid) is record, f"{record} is gone, and its copy is kept"
            owner = record.remote.owner
            assert owner is not None and record.holders.get(owner.cid), f"{record} is kept for nobody"
        for record in self.objects.records.values():
            remote = record.remote
            if remote is not None and remote.copies:
                assert remote.owner is None and remote.place not in remote.copies, (
                    f"{record} has copies of a borrower"
                )
                assert all(peer.alive for peer in remote.copies), (
                    f"{record} has a copy on a node that is gone"
                )
