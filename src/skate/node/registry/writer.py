"""The thread that writes a head's records: one commit for all that has come since the last.

The loop of the node never waits for a disk. It queues numbered changes and continues; the writer reports which are durable, and
which the store has refused.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from skate.node.registry.store import Change, Store, StoreLostError


class Reports(Protocol):
    """Receives what a writer reports, in the writer's own thread and in the order of the numbers."""

    def stored(self, number: int) -> None:
        """Note that the changes up to this number are durable, but for those that were refused."""

    def refused(self, number: int, problem: str) -> None:
        """Note that the changes of this number are not in the store, and never will be."""

    def lost(self, problem: str) -> None:
        """Note that another head has the store: nothing is written any more."""


class _Unit(NamedTuple):
    number: int
    changes: Sequence[Change]


class RecordWriter:
    """Writes the records of a head.

    Args:
        store: An open store, which the writer closes at the end.
        reports: Receives the outcome of each change.
    """

    def __init__(self, store: Store, reports: Reports) -> None:
        self.store = store
        self._reports = reports
        self._queue: list[_Unit] = []
        self._changed = threading.Condition()
        self._ending = False
        self._thread = threading.Thread(target=self._run, name="skate-records", daemon=True)
        self._thread.start()

    def append(self, number: int, changes: Sequence[Change]) -> None:
        """Queue changes under a number, which has to be greater than the last; nothing is reported of number 0."""
        with self._changed:
            self._queue.append(_Unit(number, changes))
            self._changed.notify()

    def close(self, timeout: float = 5.0) -> None:
        """Write what is queued, and close the store. Safe to call more than once."""
        with self._changed:
            self._ending = True
            self._changed.notify()
        self._thread.join(timeout)

    def _run(self) -> None:
        try:
            while True:
                with self._changed:
                    self._changed.wait_for(lambda: bool(self._queue) or self._ending)
                    queue, self._queue = self._queue, []
                if not queue:
                    return
                self._write(queue)
        except StoreLostError as error:
            self._reports.lost(str(error))
        finally:
            self.store.close()

    def _write(self, queue: list[_Unit]) -> None:
        problem = self._append(queue)
        for unit in queue if problem else ():  # perhaps some of them fit
            problem = self._append([unit])
            if problem and unit.number:
                self._reports.refused(unit.number, problem)
        numbers = [unit.number for unit in queue if unit.number]
        if numbers:
            self._reports.stored(numbers[-1])

    def _append(self, units: Sequence[_Unit]) -> str:
        """Write as one unit; return the problem if the store refuses."""
        try:
            self.store.append([change for unit in units for change in unit.changes])
        except StoreLostError:
            raise
        except OSError as error:
            return str(error)
        return ""
