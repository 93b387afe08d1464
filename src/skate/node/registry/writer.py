"""The thread that writes a head's records: one commit for all that has come since the last.

The loop of the node never waits for a disk. It queues numbered changes and continues; the writer reports which are durable, and
which the store has refused. Removals are never refused: they wait, before everything that is newer, until the store takes them.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from skate.node.registry.store import Change, Store, StoreLostError

#: The pause before another attempt to write removals.
RETRY_SECONDS = 1.0


class Reports(Protocol):
    """Receives what a writer reports, in the writer's own thread and in the order of the numbers."""

    def stored(self, number: int) -> None:
        """Note that the changes up to this number are durable, but for those that were refused, and removals that wait."""

    def refused(self, number: int, problem: str) -> None:
        """Note that the changes of this number are not in the store, and never will be."""

    def lost(self, problem: str) -> None:
        """Note that another head has the store: nothing is written any more."""


class _Unit(NamedTuple):
    number: int
    changes: Sequence[Change]

    @property
    def only_removes(self) -> bool:
        return all(value is None for _, value in self.changes)


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
        """Queue changes under a number, which has to be greater than the last."""
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
        waiting: list[_Unit] = []  # removals that the store has not taken yet
        try:
            while True:
                with self._changed:
                    seconds = RETRY_SECONDS if waiting else None
                    self._changed.wait_for(lambda: bool(self._queue) or self._ending, seconds)
                    queue, self._queue = self._queue, []
                    ending = self._ending
                if queue or waiting:
                    waiting = self._write(waiting, queue)
                if ending and not queue:
                    return
        except StoreLostError as error:
            self._reports.lost(str(error))
        finally:
            self.store.close()

    def _write(self, waiting: list[_Unit], queue: list[_Unit]) -> list[_Unit]:
        """Write removals that have waited, and then what is new; return the removals that have to wait on."""
        units = waiting + queue
        left: list[_Unit] = []
        problem = self._append(units)
        for unit in units if problem else ():  # perhaps some of them fit
            if not left:  # nothing overtakes a removal
                problem = self._append([unit])
            if problem and unit.only_removes:
                left.append(unit)
            elif problem:
                self._reports.refused(unit.number, problem)
        if queue:
            self._reports.stored(queue[-1].number)
        return left

    def _append(self, units: Sequence[_Unit]) -> str:
        """Write as one unit; return the problem if the store refuses."""
        try:
            self.store.append([change for unit in units for change in unit.changes])
        except StoreLostError:
            raise
        except OSError as error:
            return str(error)
        return ""
