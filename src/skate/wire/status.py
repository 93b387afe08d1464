"""Shared memory that a worker leaves behind if it dies: a page or two each, the worker's slot.

It records which of the tasks sent ahead the worker has begun, so that the others can run elsewhere without
costing a retry. It also contains the answers that were not yet written to the socket because several are sent
together, so that a task which had succeeded does not run again, or fail, because of a later one. An actor
that runs calls concurrently may begin them out of order, because one concurrency group may be busy and
another not: those begun ahead of the first that was not have a bit each.
"""

from __future__ import annotations

import mmap
import struct
from typing import Any, TypeAlias

import msgpack

STATUS_SLOT = struct.Struct("<Q")  # at 0: the number of the last task begun, and of all before it
_KEPT = struct.Struct("<I")  # at 8: the size of the answers, which begin at 16
_KEPT_AT = 8
_AHEAD = struct.Struct("<I")  # at 12: 1 if there are bits for tasks begun out of turn
_AHEAD_AT = 12
_ANSWERS_AT = 16

#: A slot, or the copy of one that a test or the simulator keeps.
SlotMemory: TypeAlias = mmap.mmap | bytearray

SLOT_BYTES = 1 << 14
#: The bits, at the end of the slot: one per task after the last one up to which all have begun.
_BITS_BYTES = 1 << 11
_BITS_AT = SLOT_BYTES - _BITS_BYTES
AHEAD_MAX = _BITS_BYTES * 8
SLOTS = 1 << 13
#: All slots together; untouched memory costs nothing.
STATUS_TABLE_BYTES = SLOT_BYTES * SLOTS


class Slot:
    """A worker's own slot, to write to."""

    def __init__(self, fd: int, offset: int) -> None:
        self.memory = mmap.mmap(fd, SLOT_BYTES, offset=offset)
        self._size = 0
        self._count = 0

    def keep(self, queued: list[bytes]) -> bool:
        """Keep the answer that was queued last; return False if it does not fit, or if an earlier queued one
        was not kept."""
        count = len(queued)
        if count == 1:
            self._size = self._count = 0
        elif count != self._count + 1:
            return False
        blob = queued[-1]
        start = _ANSWERS_AT + self._size
        end = start + len(blob)
        if end > _BITS_AT:
            return False
        self.memory[start:end] = blob
        self._size += len(blob)
        self._count = count
        _KEPT.pack_into(self.memory, _KEPT_AT, self._size)
        return True

    def forget(self) -> None:
        """Clear the kept answers once they have been written to the socket."""
        if self._size:
            self._size = self._count = 0
            _KEPT.pack_into(self.memory, _KEPT_AT, 0)


class OutOfTurn:
    """Records which calls have begun if they begin in any order; used under a lock."""

    def __init__(self, memory: SlotMemory) -> None:
        self._memory = memory
        (self._upto,) = STATUS_SLOT.unpack_from(self._memory, 0)
        self._ahead: set[int] = set()

    def begin(self, sequence: int) -> None:
        """Record that a call begins or is dropped; in both cases it need not run again."""
        if sequence <= self._upto:
            return
        if sequence - self._upto >= AHEAD_MAX:
            # Too far ahead for the bits: all before it count as begun, so that none runs twice.
            self._move(sequence)
            return
        self._ahead.add(sequence)
        if self._upto + 1 == sequence:
            upto = sequence
            while upto + 1 in self._ahead:
                upto += 1
            self._move(upto)
        else:
            _AHEAD.pack_into(self._memory, _AHEAD_AT, 1)
            self._mark(sequence, True)

    def _move(self, upto: int) -> None:
        first, self._upto = self._upto + 1, upto
        STATUS_SLOT.pack_into(self._memory, 0, upto)
        if self._ahead:
            for each in range(first, upto + 1):
                if each in self._ahead:
                    self._ahead.discard(each)
                    self._mark(each, False)

    def _mark(self, sequence: int, begun: bool) -> None:
        at, bit = divmod(sequence % AHEAD_MAX, 8)
        byte = self._memory[_BITS_AT + at]
        self._memory[_BITS_AT + at] = byte | (1 << bit) if begun else byte & ~(1 << bit)


class StatusTable:
    """All slots of a node, as read by the node."""

    def __init__(self, fd: int, offset: int) -> None:
        self._memory = mmap.mmap(fd, STATUS_TABLE_BYTES, offset=offset)
        self._free: list[int] = []
        self._used = 0

    def take(self) -> int:
        """Allocate a slot for a new worker; raises OSError if all are in use."""
        if self._free:
            slot = self._free.pop()
        elif self._used < SLOTS:
            slot = self._used
            self._used += 1
        else:
            raise OSError(f"a node supports at most {SLOTS} workers at once")
        self._memory[slot * SLOT_BYTES : slot * SLOT_BYTES + _ANSWERS_AT] = bytes(_ANSWERS_AT)
        return slot

    def give_back(self, slot: int) -> tuple[int, frozenset[int], list[tuple[Any, ...]]]:
        """Return the state of an ended worker's slot: the last task begun in order, those begun beyond it,
        and its unsent answers.
        """
        at = slot * SLOT_BYTES
        begun, ahead = begun_in(self._memory, at)
        (size,) = _KEPT.unpack_from(self._memory, at + _KEPT_AT)
        self._free.append(slot)
        if not 0 < size <= _BITS_AT - _ANSWERS_AT:
            return begun, ahead, []
        unpacker = msgpack.Unpacker(use_list=False, strict_map_key=False, raw=False)
        unpacker.feed(self._memory[at + _ANSWERS_AT : at + _ANSWERS_AT + size])
        return begun, ahead, list(unpacker)

    def close(self) -> None:
        """Release the memory."""
        self._memory.close()


def begun_in(memory: SlotMemory, at: int = 0) -> tuple[int, frozenset[int]]:
    """Return the number of the last task begun in order, and those of tasks begun beyond it; the slot at `at` is ready anew."""
    (upto,) = STATUS_SLOT.unpack_from(memory, at)
    if not _AHEAD.unpack_from(memory, at + _AHEAD_AT)[0]:
        return upto, frozenset()
    start, end = at + _BITS_AT, at + SLOT_BYTES
    bits = memory[start:end]
    memory[start:end] = bytes(_BITS_BYTES)
    found = []
    for place in (place for place, byte in enumerate(bits) if byte):
        for bit in range(8):
            if bits[place] >> bit & 1:
                ahead = (place * 8 + bit - upto) % AHEAD_MAX
                found.append(upto + ahead)
    return upto, frozenset(found)
