"""A wait for objects, as reported to the node."""

from __future__ import annotations

from typing import Any

from skate.client.object.object_ref import ObjectRef
from skate.protocol import messages as m
from skate.protocol.fields import WaitFacts
from skate.protocol.messages import PENDING

IDS_MAX = 1000


class Wait:
    """One wait for `needed` of the refs and generators in `what`, or for all of them if it is 0."""

    def __init__(self, what: list[Any], needed: int, task_id: bytes) -> None:
        self.number = 0  # until it is reported
        self.what = what
        self.needed = needed
        self.task_id = task_id
        #: Why the wait can never end, once the node has found out.
        self.verdict: str | None = None

    def missing(self) -> list[bytes]:
        """Return the ids that are not ready; a stream is identified by its task id."""
        ids = [each._id for each in self.what if type(each) is ObjectRef and each._kind == PENDING]
        ids += [
            each._stream.task_id
            for each in self.what
            if type(each) is not ObjectRef and not each._stream.moved()
        ]
        return ids

    def facts(self) -> WaitFacts:
        """Return details about the waiting thread; a pure process has none."""
        return {}

    def message(self) -> m.Waits:
        """Build the WAITS message: the ids that are still missing."""
        ids = self.missing()
        needed = len(ids)
        if self.needed:
            needed = self.needed - (len(self.what) - len(ids))
            if len(ids) > IDS_MAX:
                needed = 0  # too many to check: assume that the wait ends
        return m.Waits(
            m.WAITS, self.number, tuple(ids[:IDS_MAX]), min(needed, IDS_MAX), self.task_id, self.facts()
        )
