"""A test rig with memory for four values, and a disk that the test controls."""

from __future__ import annotations

from typing import Any

from skate.core.node import SHELL
from skate.protocol import messages as m
from skate.protocol import shell_events as se
from skate.protocol.effects import Reserve, Restore, Spill
from tests.core.rig import Rig

UNIT = 1 << 16
ROOM = 4 * UNIT
DISK = 64 * UNIT


class Store(Rig):
    """A Rig whose processes answer RECALL immediately, except those in `looking`. Tests trigger the disk."""

    def __init__(self, drivers: int = 1, **options: Any) -> None:
        given = {"arena_bytes": ROOM, "disk_bytes": (DISK,), **options}
        super().__init__(drivers=drivers, **given)
        #: Processes with views of all their values, and those that do not answer.
        self.looking: set[int] = set()
        self.silent: set[int] = set()
        self.recalled: list[int] = []  # the processes that received RECALL, in order

    # -- the shell

    def obey(self) -> None:
        """Let all processes answer RECALL, until no more are sent."""
        while recalls := [
            each
            for each in self.outbox
            if each[0] != SHELL and each[1][0] == m.RECALL and each[0] not in self.silent
        ]:
            self.outbox = [each for each in self.outbox if each not in recalls]
            for cid, (_, number, oid) in recalls:
                self.recalled.append(cid)
                record = self.core.objects.records.get(oid)
                grants = 0 if record is None else record.holders.get(cid, 0)
                self.send(cid, m.RECALLED, number, oid, -1 if cid in self.looking else grants)

    def work(self, *, full: bool = False, unreadable: bool = False) -> int:
        """Carry out all requests to the disk, and those that follow; return the copies written."""
        written = 0
        while True:
            self.obey()
            spills, restores, reserves = self.shell(Spill), self.shell(Restore), self.shell(Reserve)
            if not spills and not restores and not reserves:
                return written
            for number, *_rest in spills:
                written += not full
                self.report(se.SpillDone(se.SPILL_DONE, number, not full))
            for number, *_rest in restores:
                problem = "its copy is damaged" if unreadable else ""
                self.report(se.RestoreDone(se.RESTORE_DONE, number, problem))
            for number, *_rest in reserves:
                problem = "the disk of /data has 3 KiB free" if full else ""
                self.report(se.ReserveDone(se.RESERVE_DONE, number, problem))

    # -- processes

    def want(self, cid: int = 1, size: int = UNIT) -> bytes:
        """Request memory for a value; return the id of the value."""
        oid = self.oid(cid)
        self.send(cid, m.ALLOCATE, self.count, oid, size)
        return oid

    def answer(self, cid: int = 1) -> Any:
        """Return the last answer to a process: an offset, an error, or None if it still waits."""
        replies = self.received(cid, m.REPLY)
        return replies[-1][3] if replies else None

    def put(self, cid: int = 1, size: int = UNIT) -> bytes:
        """Write a value once there is memory for it."""
        oid = self.want(cid, size)
        self.work()
        offset = self.answer(cid)
        assert isinstance(offset, int), offset
        self.send(cid, m.PUT, oid, ())
        return oid

    def get(self, oid: bytes, cid: int = 1) -> Any:
        """Request a value for a process; return (kind, payload), or None if it still waits."""
        self.send(cid, m.FETCH, oid)
        self.work()
        return self.got(cid)

    def got(self, cid: int = 1) -> Any:
        """Return the last value sent to a process as (kind, payload), or None."""
        values = self.received(cid, m.VALUE)
        return values[-1][2:4] if values else None

    # -- state

    def kind(self, oid: bytes) -> int:
        kind: int = self.core.objects.records[oid].kind
        return kind

    def on_disk(self, *oids: bytes) -> list[bool]:
        return [self.kind(oid) == m.SPILLED for oid in oids]

    @property
    def in_memory(self) -> int:
        return self.core.allocator.arena.used

    @property
    def disk_used(self) -> int:
        return self.core.allocator.used - self.core.allocator.arena.used
