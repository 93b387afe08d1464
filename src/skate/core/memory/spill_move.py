"""One value on its way from memory to disk."""

from __future__ import annotations

from skate.core.object.object_table import ObjectRecord

#: Minimum bytes moved at once to make a write worthwhile, if the arena is large enough.
BATCH_BYTES = 64 << 20
#: A process that has not answered after this time (stopped, or in a long C call) counts as refusing.
RECALL_SECONDS = 0.5
#: Seconds before a value that a process was reading is recalled again.
REFUSED_SECONDS = 0.2


class Move:
    """One value on its way to disk."""

    __slots__ = ("record", "number", "pending", "since")

    def __init__(self, record: ObjectRecord, number: int, pending: set[int], since: float) -> None:
        self.record = record
        self.number = number
        self.pending = pending  # processes that have yet to answer; empty once it is being written
        self.since = since

    def __repr__(self) -> str:
        return f"<Move {self.number} of {self.record} pending={self.pending}>"
