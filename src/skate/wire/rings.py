"""Rings of messages in shared memory, from one writer to several readers, without an intermediary.

One file without a name (a memfd) holds all rings of a compiled graph. Other processes get its location (pid,
descriptor) and map it through `/proc`. A ring has one slot per message in flight; a message is written once,
and its readers use it in place.

    closed, file token, members: [doorbell, room, pid, ended, wants room]
    ring: [messages written, read by reader 0, ...; slots: size, kind, file, serial; held by reader: slots] and slots of bytes

Each cell has one writer. A reader that holds a view marks the slot's bytes as held. When the writer reaches a
held slot again, it uses a spare file instead of waiting, as it does for a message larger than a slot; so
slots grow as needed. Each message posts every reader's doorbell once. A reader takes one post per message,
waiting or not, so posts do not accumulate.
"""

from __future__ import annotations

import mmap
import os
import time
from collections.abc import Callable, Sequence
from typing import Any

from skate.wire.memory_map import Mapping, address_of
from skate.wire.semaphores import SEMAPHORE_BYTES, Semaphore

CELL = 8
PAGE = 4096
#: A message up to this size is copied rather than held, which is cheaper than counting a view.
COPIED_BYTES_MAX = 4096
#: How long one wait lasts before the process checks that its peers are alive.
LOOK_SECONDS = 1.0
#: A writer without room checks again after this long, in case a reader's notification was missed.
ROOM_SECONDS = 0.02

_CLOSED, _TOKEN, _MEMBERS = 0, 1, 8
_MEMBER_CELLS = 2 * SEMAPHORE_BYTES // CELL + 8
_PID = 2 * SEMAPHORE_BYTES // CELL
_ENDED = _PID + 1
_WANTS = _PID + 2
_SLOT_CELLS = 4


class Closed(Exception):
    """The rings were closed: no more messages can be sent or received."""


class RingPlan:
    """One ring: its writer and its readers (numbers of members), its slots and their size in bytes."""

    __slots__ = ("writer", "readers", "slots", "slot_bytes", "cells_at", "bytes_at")

    def __init__(self, writer: int, readers: Sequence[int], slots: int, slot_bytes: int) -> None:
        self.writer = writer
        self.readers = tuple(readers)
        self.slots = slots
        self.slot_bytes = -(-slot_bytes // 64) * 64
        self.cells_at = 0
        self.bytes_at = 0

    def cells(self) -> int:
        """The number of cells of its head."""
        return 1 + len(self.readers) + self.slots * (_SLOT_CELLS + len(self.readers))


class Place:
    """The location and layout of a file of rings, with which another process can open it."""

    __slots__ = ("pid", "fd", "size", "token", "members", "rings")

    def __init__(self, members: int, rings: list[RingPlan]) -> None:
        self.pid = os.getpid()
        self.fd = -1
        self.token = int.from_bytes(os.urandom(7), "little") | 1
        self.members = members
        self.rings = rings
        at = _MEMBERS + members * _MEMBER_CELLS
        for ring in rings:
            ring.cells_at = at
            at += -(-ring.cells() // 8) * 8
        place = -(-at * CELL // PAGE) * PAGE
        for ring in rings:
            ring.bytes_at = place
            place += -(-ring.slots * ring.slot_bytes // PAGE) * PAGE
        self.size = place

    def cells_end(self) -> int:
        """The end of the cells of the last ring, in bytes."""
        last = max((ring.cells_at + ring.cells() for ring in self.rings), default=0)
        return max(last, _MEMBERS + self.members * _MEMBER_CELLS) * CELL

    def __getstate__(self) -> tuple[Any, ...]:
        rings = [(r.writer, r.readers, r.slots, r.slot_bytes, r.cells_at, r.bytes_at) for r in self.rings]
        return self.pid, self.fd, self.size, self.token, self.members, rings

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.pid, self.fd, self.size, self.token, self.members, rings = state
        self.rings = []
        for writer, readers, slots, size, cells_at, bytes_at in rings:
            ring = RingPlan(writer, readers, slots, size)
            ring.cells_at, ring.bytes_at = cells_at, bytes_at
            self.rings.append(ring)


class RingFile:
    """The file of rings as seen by one member. Raises OSError if the process that created it has ended."""

    def __init__(self, place: Place, member: int, create: bool = False) -> None:
        self.place = place
        self.member = member
        if create:
            place.fd = self._fd = os.memfd_create("skate-graph", os.MFD_CLOEXEC)
            os.ftruncate(self._fd, place.size)
        else:
            self._fd = os.open(f"/proc/{place.pid}/fd/{place.fd}", os.O_RDWR | os.O_CLOEXEC)
        self.mapping = Mapping(self._fd, place.size)
        #: A second mapping of everything, for small accesses: slices of an mmap are fastest.
        self.memory = mmap.mmap(self._fd, place.size)
        self.cells = memoryview(self.memory)[: place.cells_end()].cast("q")
        if create:
            self.cells[_TOKEN] = place.token
        elif self.cells[_TOKEN] != place.token:
            self.close()
            raise OSError("the process that created the graph has ended")
        base = address_of(self.cells)
        self.bells = []
        self.rooms = []
        for index in range(place.members):
            at = base + (_MEMBERS + index * _MEMBER_CELLS) * CELL
            self.bells.append(Semaphore(at, create))
            self.rooms.append(Semaphore(at + SEMAPHORE_BYTES, create))
        self._own = _MEMBERS + member * _MEMBER_CELLS
        #: Called when a wait has lasted a while: returns True if further waiting is useless.
        self.look: Callable[[], bool] = lambda: False
        self.bell = self.bells[member]
        self.room = self.rooms[member]

    # -- members

    def enter(self) -> None:
        """Record that this member has joined."""
        self.cells[self._own + _PID] = os.getpid()

    def leave(self) -> None:
        """Record that this member is done."""
        self.cells[self._own + _ENDED] = 1

    def pid_of(self, member: int) -> int:
        """Return the process of a member; 0 until it joins."""
        return self.cells[_MEMBERS + member * _MEMBER_CELLS + _PID]

    def has_left(self, member: int) -> bool:
        """True once a member is done."""
        return bool(self.cells[_MEMBERS + member * _MEMBER_CELLS + _ENDED])

    @property
    def closed(self) -> bool:
        """True once a member has ended the traffic."""
        return bool(self.cells[_CLOSED])

    def end(self) -> None:
        """End the traffic: every member that waits, now or later, is notified."""
        self.cells[_CLOSED] = 1
        for semaphore in (*self.bells, *self.rooms):
            semaphore.post()

    def close(self) -> None:
        """Close the file; views of messages stay valid."""
        fd, self._fd = self._fd, -1
        if fd < 0:
            return
        os.close(fd)
        self.mapping.close()
        # The memory is released with its last view; later accesses see a closed ring.
        self.bells = []
        self.rooms = []
        self.cells = memoryview(bytearray(self.place.cells_end())).cast("q")
        self.cells[_CLOSED] = 1
        self.memory = mmap.mmap(-1, PAGE)

    # -- waiting

    def wait(self, ready: Callable[[], bool], until: float | None) -> bool:
        """Wait for a message until `ready` returns true; return False after the deadline (monotonic time).

        Raises Closed when the traffic has ended.
        """
        bell = self.bell
        held = self.memory  # keeps the semaphore's memory alive during the wait
        while not ready():
            if self.cells[_CLOSED]:
                raise Closed
            seconds = LOOK_SECONDS
            if until is not None:
                seconds = min(seconds, until - time.monotonic())
                if seconds <= 0:
                    return False
            if not bell.wait(seconds) and self.look():
                raise Closed
        del held
        return True


class _Spare:
    """A separate file for a message that did not fit into its slot; its first cells record the readers that hold it."""

    def __init__(self, size: int, readers: int) -> None:
        self.size = PAGE + -(-size // PAGE) * PAGE
        self.fd = os.memfd_create("skate-graph-spare", os.MFD_CLOEXEC)
        os.ftruncate(self.fd, self.size)
        self.mapping = Mapping(self.fd, self.size)
        self.cells = memoryview(mmap.mmap(self.fd, PAGE)).cast("q")
        self.readers = readers
        self.serial = 0

    def held(self) -> bool:
        return any(self.cells[index] for index in range(self.readers))

    def close(self) -> None:
        os.close(self.fd)
        self.mapping.close()


class RingWriter:
    """The writing end of a ring."""

    def __init__(self, file: RingFile, index: int) -> None:
        plan = file.place.rings[index]
        self.file = file
        self.plan = plan
        self._count = len(plan.readers)
        self._at = plan.cells_at
        self._slots_at = self._at + 1 + self._count
        self._holds_at = self._slots_at + plan.slots * _SLOT_CELLS
        self._bells = [file.bells[reader] for reader in plan.readers]
        self.written = 0
        #: The last known count of the slowest reader.
        self._read = 0
        #: Slots whose last message may be held.
        self._large: set[int] = set()
        self._taken: dict[int, _Spare] = {}
        self._spares: list[_Spare] = []
        self._serial = 0

    def has_room(self) -> bool:
        """True if every reader has read the message that the next one will overwrite."""
        oldest = self.written - self.plan.slots
        if self._read > oldest:
            return True
        first = self._at + 1
        self._read = min(self.file.cells[first : first + self._count])
        return self._read > oldest

    def wait_for_room(self, until: float | None) -> bool:
        """Wait for a free slot; return False after the deadline (monotonic time). Raises Closed."""
        if self.has_room():
            return True
        file = self.file
        wants = file._own + _WANTS
        held = file.memory, file.room
        file.cells[wants] += 1
        try:
            looked = time.monotonic()
            while not self.has_room():
                now = time.monotonic()
                if file.closed or (now - looked > LOOK_SECONDS and file.look()):
                    raise Closed
                if until is not None and now >= until:
                    return False
                held[1].wait(ROOM_SECONDS)
        finally:
            file.cells[wants] -= 1
        return True

    def write(self, parts: Sequence[Any], size: int, kind: int) -> int:
        """Write a message into the next slot, which must be free; return the slot's number."""
        plan = self.plan
        cells = self.file.cells
        slot = self.written % plan.slots
        at = self._slots_at + slot * _SLOT_CELLS
        start = plan.bytes_at + slot * plan.slot_bytes
        was_large = slot in self._large
        if size <= COPIED_BYTES_MAX and size <= plan.slot_bytes and not was_large:
            for part in parts:
                end = start + len(part)
                self.file.memory[start:end] = part
                start = end
            cells[at + 2] = -1
        else:
            self._write_large(parts, size, slot, start)
        cells[at] = size
        cells[at + 1] = kind
        self.written += 1
        cells[self._at] = self.written
        for bell in self._bells:
            bell.post()
        return slot

    def _write_large(self, parts: Sequence[Any], size: int, slot: int, start: int) -> None:
        """Write a message that may be held, or into a slot that may be held."""
        cells = self.file.cells
        at = self._slots_at + slot * _SLOT_CELLS
        before = self._taken.pop(slot, None)
        if before is not None:
            self._spares.append(before)
        held = self._held(slot)
        if size <= self.plan.slot_bytes and not held:
            self.file.mapping.write(start, parts)
            cells[at + 2] = -1
        else:
            spare = self._taken[slot] = self._spare(size)
            spare.mapping.write(PAGE, parts)
            cells[at + 2] = spare.fd
            cells[at + 3] = spare.serial
        if held or size > COPIED_BYTES_MAX:
            self._large.add(slot)
        else:
            self._large.discard(slot)

    def _held(self, slot: int) -> bool:
        cells = self.file.cells
        first = self._holds_at + slot * self._count
        return any(cells[first + reader] for reader in range(self._count))

    def _spare(self, size: int) -> _Spare:
        found = None
        kept = []
        for spare in self._spares:
            if spare.held():
                kept.append(spare)
            elif found is None and spare.size >= PAGE + size:
                found = spare
            elif len(kept) < self.plan.slots and spare.size >= PAGE + size:
                kept.append(spare)
            else:
                spare.close()
        self._spares = kept
        if found is None:
            found = _Spare(size, self._count)
            self._serial += 1
            found.serial = self._serial
        return found

    def close(self) -> None:
        """Close spare files."""
        for spare in (*self._spares, *self._taken.values()):
            spare.close()
        self._spares = []
        self._taken = {}


class RingReader:
    """The reading end of a ring, of one of its readers."""

    def __init__(self, file: RingFile, index: int) -> None:
        plan = file.place.rings[index]
        self.file = file
        self.plan = plan
        count = len(plan.readers)
        self._reader = plan.readers.index(file.member)
        self._at = plan.cells_at
        self._slots_at = self._at + 1 + count
        self._holds_at = self._slots_at + plan.slots * _SLOT_CELLS + self._reader
        self._step = count
        self._writer_wants = _MEMBERS + plan.writer * _MEMBER_CELLS + _WANTS
        self._writer_room = file.rooms[plan.writer]
        self.taken = 0
        self._spares: dict[int, tuple[Mapping, Any]] = {}

    def ready(self) -> bool:
        """True if a message is available."""
        return self.file.cells[self._at] > self.taken

    def peek(self) -> tuple[Any, int]:
        """Return the bytes and the kind of the next message; call `done` afterwards. Raises Closed if its
        writer has ended.
        """
        cells = self.file.cells
        slot = self.taken % self.plan.slots
        at = self._slots_at + slot * _SLOT_CELLS
        size, kind, fd, _ = cells[at : at + _SLOT_CELLS]
        if fd < 0:
            start = self.plan.bytes_at + slot * self.plan.slot_bytes
            if size <= COPIED_BYTES_MAX:
                return self.file.memory[start : start + size], kind
            mapping = self.file.mapping
            holds, hold = cells, self._holds_at + slot * self._step
        else:
            mapping, holds = self._spare(fd, cells[at + 3])
            start, hold = PAGE, self._reader
        if size <= COPIED_BYTES_MAX:
            return mapping.copy(start, size), kind
        holds[hold] = 1
        return mapping.view(start, size, _Release(holds, hold)), kind

    def done(self) -> None:
        """Record that the next message has been read or skipped."""
        self.taken += 1
        # A waiter checks the counts first, so taking one post too many does no harm.
        self.file.bell.take()
        cells = self.file.cells
        cells[self._at + 1 + self._reader] = self.taken
        if cells[self._writer_wants]:
            self._writer_room.post()

    def _spare(self, fd: int, serial: int) -> tuple[Mapping, Any]:
        found = self._spares.get(serial)
        if found is not None:
            return found
        pid = self.file.pid_of(self.plan.writer)
        try:
            opened = os.open(f"/proc/{pid}/fd/{fd}", os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            raise Closed from None
        try:
            mapping = Mapping(opened, os.fstat(opened).st_size, writable=False)
            holds = memoryview(mmap.mmap(opened, PAGE)).cast("q")
        finally:
            os.close(opened)
        while len(self._spares) >= 2 * self.plan.slots:
            self._spares.pop(next(iter(self._spares)))[0].close()
        self._spares[serial] = mapping, holds
        return mapping, holds

    def close(self) -> None:
        """Close spare files."""
        for mapping, _ in self._spares.values():
            mapping.close()
        self._spares = {}


class _Release:
    """Clears the mark of a slot; runs in finalizers, so it takes no locks."""

    __slots__ = ("_cells", "_at")

    def __init__(self, cells: Any, at: int) -> None:
        self._cells = cells
        self._at = at

    def __call__(self) -> None:
        self._cells[self._at] = 0
