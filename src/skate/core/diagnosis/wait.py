"""One wait of a thread, as reported by its process."""

from __future__ import annotations

from skate.protocol.fields import WaitFacts


class Wait:
    """One waiting thread: it waits for `needed` of `ids`, in a task or in a driver's own code."""

    __slots__ = ("cid", "number", "ids", "needed", "task_id", "facts", "since", "deadlock_reported")

    def __init__(self, cid: int, number: int, since: float) -> None:
        self.cid = cid
        self.number = number
        self.since = since
        self.deadlock_reported = False  # its process knows that it can never end, and is about to fail
        self.ids: tuple[bytes, ...] = ()
        self.needed = 0
        self.task_id = b""
        self.facts: WaitFacts = {}

    @property
    def threads_free(self) -> int:
        """The number of other user threads in the process, which might do anything."""
        return self.facts.get("free") or 0

    def __repr__(self) -> str:
        return f"<Wait {self.number} of {self.cid} for {self.needed} of {len(self.ids)}>"


#: The waits of each process, by the number that the process gave each of them.
Waits = dict[int, dict[int, Wait]]
