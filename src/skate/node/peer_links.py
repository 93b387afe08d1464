"""Connects the core of a node to the fabric: maps peers to client ids, and copies values between nodes."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from skate.fabric.arrivals import Arrivals, Visit
from skate.fabric.bulk import FilePart
from skate.protocol import shell_events as se
from skate.protocol.values import PACKAGE

if TYPE_CHECKING:
    from skate.fabric.fabric import Fabric, NodeId
    from skate.node.host import NodeHost
    from skate.protocol.effects import Pull
    from skate.wire.channel import Channel


class PeerLinks:
    """Carries messages, and makes no decisions."""

    def __init__(self, host: NodeHost, fabric: Fabric) -> None:
        self._host = host
        self.fabric = fabric
        self._cids: dict[NodeId, int] = {}
        self._members: dict[int, NodeId] = {}
        from skate.node.package_transfers import PackageTransfers  # only nodes with others

        #: Packages of runtime environments, which nodes fetch from each other.
        self.packages = PackageTransfers(self, host.pump, host.jobs.homes, host.pool.environments.stores)
        #: Reads by other nodes of values on disk, until they are restored: first byte, size, callback.
        #: What other nodes are told as the reason when this one leaves.
        self.farewell = "was stopped"
        #: Members with a full queue.
        self.congested = fabric.congested
        #: The last one of them that something was sent to.
        self.overfull: NodeId | None = None
        #: Channels of processes that wait for these members.
        self._paused: dict[NodeId, list[Channel]] = {}
        self._late: dict[bytes, list[tuple[int, int, Callable[[Any], None], Visit]]] = {}
        self._arrivals = Arrivals()
        fabric.handler = self

    # -- out

    def member_of(self, cid: int) -> NodeId | None:
        """Return the member that the core knows by this client id."""
        return self._members.get(cid)

    def send(self, cid: int, message: tuple[Any, ...]) -> bool:
        """Queue a message of the core for a peer; return False if there is no such peer."""
        member = self._members.get(cid)
        if member is None:
            return False
        self.fabric.send(member, message)
        if self.congested and member in self.congested:
            self.overfull = member
        return True

    def pause(self, channel: Channel) -> None:
        """Stop reading from a process that has just sent something to a member with a full queue."""
        member, self.overfull = self.overfull, None
        if member in self.congested and channel.fd not in self._host.pump.paused:
            self._paused.setdefault(member, []).append(channel)
            self._host.pump.pause(channel.fd, True, bool(channel.backlog))

    def writable(self, member: NodeId) -> None:
        """Read again from the processes that have waited for a member."""
        self.overfull = None
        for channel in self._paused.pop(member, ()):
            if not channel.closed:
                self._host.pump.pause(channel.fd, False, bool(channel.backlog))

    def send_all(self, message: tuple[Any, ...]) -> None:
        """Send a message to all peers."""
        for member in self._members.values():
            self.fabric.send(member, message)
        self.fabric.flush()

    def flush(self) -> None:
        """Send everything that is queued."""
        self.fabric.flush()

    def pull(self, pull: Pull) -> None:
        """Copy a value from a peer into memory here."""
        cid, oid, offset, size, rank = pull
        host = self._host
        failed = False

        def write(at: int, piece: Any) -> None:
            nonlocal failed
            try:
                host.mapping.write(offset + at, [piece])
            except OSError:
                # The overflow disk is full, and an incomplete value is useless.
                failed = True

        def done(success: bool) -> None:
            success = success and not failed
            waits = self._arrivals.end(arrival, success)
            host.tell(se.PullDone(se.PULL_DONE, offset, success))
            for wait in waits:
                place = host.snapshot.place_of(oid) if success else None
                wait.answer(offset + wait.at if place == (offset, size) else None)

        member = self._members.get(cid)
        arrival = self._arrivals.begin(oid, offset, size, rank)
        if member is None:
            done(False)
        else:
            self.fabric.fetch(
                member, oid, size, write, done, lambda: host.mapping.space(offset, size), arrival
            )
            host.dirty.add(cid)

    def forked(self) -> None:
        """Close the sockets in a forked child; they belong to the parent."""
        self.fabric.forked()

    # -- in

    def joined(self, member: NodeId, info: dict[str, Any]) -> None:
        """Add a node that has joined."""
        cid = self._host.admit(se.PeerJoined(se.PEER_JOINED, info))
        self._cids[member] = cid
        self._members[cid] = member
        self._host.apply_if_idle()

    def left(self, member: NodeId, reason: str) -> None:
        """Remove a node that has left."""
        self.writable(member)
        cid = self._cids.pop(member)
        del self._members[cid]
        self._host.tell(se.PeerLeft(se.PEER_LEFT, cid, reason))
        if self._host.drivers is not None:
            self._host.drivers.silent_at(cid, "")
        self._host.pump.wake_ready()

    def message(self, member: NodeId, message: tuple[Any, ...]) -> None:
        """Pass a received message to the core."""
        self._host.step(self._cids[member], message)

    def messages(self, member: NodeId, messages: Sequence[tuple[Any, ...]]) -> None:
        """Pass received messages to the core, and carry out the effects of all together."""
        core, cid, now = self._host.core, self._cids[member], time.monotonic()
        for message in messages:
            core.step(cid, message, now)
        self._host.apply_if_idle()

    def write(self) -> None:
        """Write at once what is queued, such as the result that a worker waits for."""
        if self._host.dirty:
            self._host.flush()

    def read(
        self, key: bytes, at: int, size: int, answer: Callable[[Any], None], visit: Visit | None = None
    ) -> None:
        """Answer with bytes of a local value, or with None; answer later if the value must be restored from disk first, or
        is on its way here."""
        if key.startswith(PACKAGE):
            self.packages.read(key, at, size, answer)
            return
        if visit is None:  # the bytes go into a message, and the loop must not wait for a disk
            visit = Visit(from_memory=True)
        part = self._on_disk(key, at, size, visit)
        if part is not None or (visit.place is not None and not visit.from_memory):
            answer(part)
            return
        on_disk = self._host.snapshot.on_disk(key)
        if on_disk:
            self._late.setdefault(key, []).append((at, size, answer, visit))
        self._host.tell(se.RemoteRead(se.REMOTE_READ, key))
        if not on_disk:
            self._answer(key, at, size, answer, visit)

    def _on_disk(self, key: bytes, at: int, size: int, visit: Visit) -> FilePart | None:
        """Return where bytes of a spilled value are on disk; None if they are not there, or a reader takes them from memory."""
        snapshot = self._host.snapshot
        if visit.from_memory or (visit.begun and visit.place is None):
            return None
        if visit.place is None and not snapshot.on_disk(key):
            return None
        found = snapshot.place_on_disk(key)
        if found is None or at + size > found[1] or visit.place not in (None, found[0]):
            return None
        visit.begun, visit.place = True, found[0]
        fd, start = self._host.disk.at(found[0])
        return FilePart(fd, start + at, size)

    def serve_reads(self, key: bytes) -> None:
        """Answer pending reads of a value that is back in memory, or is unavailable."""
        for at, size, answer, visit in self._late.pop(key, ()):
            self._answer(key, at, size, answer, visit)
        self.flush()

    def _answer(self, key: bytes, at: int, size: int, answer: Callable[[Any], None], visit: Visit) -> None:
        def answer_with(offset: int | None) -> None:
            answer(None if offset is None else self._host.mapping.view(offset, size, _nothing))

        place = self._host.snapshot.place_of(key)
        if place is None:
            self._arrivals.read(key, at, size, visit, answer_with)
        elif at + size <= place[1] and self._arrivals.may_continue(visit, place[0]):
            answer_with(place[0] + at)
        else:
            answer(None)

    def printed(self, is_error: bool, text: str) -> None:
        """Print the output of another node's workers."""
        self._host.output.relay(is_error, text)

    def leave_requested(self) -> None:
        """End this node."""
        self._host.leave()


def _nothing() -> None:
    """No-op: a view that is read at once has no dependents."""
