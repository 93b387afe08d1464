"""What a worker leaves behind if it dies: a page or two of shared memory each, the worker's slot.

It says which of the tasks sent ahead the worker has begun, so that the others may run elsewhere at no cost in retries;
and it repeats the answers that were not written to the socket yet because several go out together, so that a task which
had ended well does not end a second time, or fail, because of what ran after it.
"""

from __future__ import annotations

import mmap
import struct
from typing import Any

import msgpack

STATUS_SLOT = struct.Struct("<Q")  # at 0: the number of the last task begun
_KEPT = struct.Struct("<I")  # at 8: bytes of answers, which begin at 16
_KEPT_AT = 8
_ANSWERS_AT = 16

SLOT_BYTES = 1 << 14
SLOTS = 1 << 13
#: All slots together; memory that nobody touches costs nothing.
BOARD_BYTES = SLOT_BYTES * SLOTS


class Slot:
    """A worker's own slot, to write to."""

    def __init__(self, fd: int, offset: int) -> None:
        self.memory = mmap.mmap(fd, SLOT_BYTES, offset=offset)
        self._size = 0
        self._count = 0

    def keep(self, queued: list[bytes]) -> bool:
        """Keep the answer that was queued last; False if it cannot be, as what is queued before it is not all kept."""
        count = len(queued)
        if count == 1:
            self._size = self._count = 0
        elif count != self._count + 1:
            return False
        blob = queued[-1]
        start = _ANSWERS_AT + self._size
        end = start + len(blob)
        if end > SLOT_BYTES:
            return False
        self.memory[start:end] = blob
        self._size += len(blob)
        self._count = count
        _KEPT.pack_into(self.memory, _KEPT_AT, self._size)
        return True

    def forget(self) -> None:
        """What was kept has been written to the socket."""
        if self._size:
            self._size = self._count = 0
            _KEPT.pack_into(self.memory, _KEPT_AT, 0)


class Board:
    """All slots of a node, as the node reads them."""

    def __init__(self, fd: int, offset: int) -> None:
        self._memory = mmap.mmap(fd, BOARD_BYTES, offset=offset)
        self._free: list[int] = []
        self._used = 0

    def take(self) -> int:
        """A slot for a new worker; raises OSError when all are in use."""
        if self._free:
            slot = self._free.pop()
        elif self._used < SLOTS:
            slot = self._used
            self._used += 1
        else:
            raise OSError(f"{SLOTS} workers at once are the most that a node has")
        self._memory[slot * SLOT_BYTES : slot * SLOT_BYTES + _ANSWERS_AT] = bytes(_ANSWERS_AT)
        return slot

    def give_back(self, slot: int) -> tuple[int, list[tuple[Any, ...]]]:
        """The worker of a slot is gone: the number of the last task it began, and the answers that it still owed."""
        at = slot * SLOT_BYTES
        (begun,) = STATUS_SLOT.unpack_from(self._memory, at)
        (size,) = _KEPT.unpack_from(self._memory, at + _KEPT_AT)
        self._free.append(slot)
        if not 0 < size <= SLOT_BYTES - _ANSWERS_AT:
            return begun, []
        unpacker = msgpack.Unpacker(use_list=False, strict_map_key=False, raw=False)
        unpacker.feed(self._memory[at + _ANSWERS_AT : at + _ANSWERS_AT + size])
        return begun, list(unpacker)

    def close(self) -> None:
        """Let go of the memory."""
        self._memory.close()
