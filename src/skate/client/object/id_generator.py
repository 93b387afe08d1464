"""The ids that a process generates, for tasks, put values and actors."""

from __future__ import annotations


class IdGenerator:
    """Generates the ids of a process; `tail` is the last 16 bytes of each of its task ids."""

    __slots__ = (
        "count", "job", "puts", "tail",
    )  # fmt: skip

    tail: bytes
    job: bytes
    count: int
    puts: int

    def next_task_id(self) -> bytes:
        """Return a new task id. The lock is held."""
        self.count = count = self.count + 1
        return count.to_bytes(8, "little") + self.tail

    def next_object_id(self) -> bytes:
        """Return a new id for a put value. The lock is held."""
        self.puts = count = self.puts + 1
        return (
            b"\xff" * 4
            + (count >> 31).to_bytes(4, "little")
            + self.tail
            + ((count & 0x7FFFFFFF) | 0x80000000).to_bytes(4, "little")
        )

    def next_actor_id(self) -> bytes:
        """Return a new actor id. The lock is held."""
        self.count = count = self.count + 1
        return self.tail[:3] + self.tail[8:12] + count.to_bytes(5, "little") + self.job
