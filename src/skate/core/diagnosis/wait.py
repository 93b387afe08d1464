"""One wait of a thread, as its process has told of it."""

from __future__ import annotations

from skate.protocol.fields import WaitFacts


class Wait:
    """One thread that waits: for `needed` of `ids`, in a task or in a driver's own code."""

    __slots__ = ("cid", "number", "ids", "needed", "task_id", "facts", "since", "told")

    def __init__(self, cid: int, number: int, since: float) -> None:
        self.cid = cid
        self.number = number
        self.since = since
        self.told = False  # it was told that it never ends, and is about to
        self.ids: tuple[bytes, ...] = ()
        self.needed = 0
        self.task_id = b""
        self.facts: WaitFacts = {}

    @property
    def threads_free(self) -> int:
        """How many other threads of the user's the process has, that might do anything."""
        return self.facts.get("free") or 0

    def __repr__(self) -> str:
        return f"<Wait {self.number} of {self.cid} for {self.needed} of {len(self.ids)}>"


#: The waits of each process, by the numbers that it gave them.
Waits = dict[int, dict[int, Wait]]
