"""The ids that a process makes: of tasks, of values that are put, of actors."""

from __future__ import annotations


class IdGenerator:
    """Generates the ids of a process; `tail` is the last 16 bytes of every task id made here."""

    tail: bytes
    job: bytes
    count: int
    puts: int

    def next_task_id(self) -> bytes:
        """A new task id; the lock is held."""
        self.count = count = self.count + 1
        return count.to_bytes(8, "little") + self.tail

    def next_object_id(self) -> bytes:
        """A new id for a value that is put; the lock is held."""
        self.puts = count = self.puts + 1
        return (
            b"\xff" * 4
            + (count >> 31).to_bytes(4, "little")
            + self.tail
            + ((count & 0x7FFFFFFF) | 0x80000000).to_bytes(4, "little")
        )

    def next_actor_id(self) -> bytes:
        """A new actor id; the lock is held."""
        self.count = count = self.count + 1
        return self.tail[:3] + self.tail[8:12] + count.to_bytes(5, "little") + self.job
