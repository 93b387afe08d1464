"""Execution of small amounts of work in this process, one piece at a time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from skate.data.execution import work as works
from skate.data.execution.bundle import Bundle
from skate.data.execution.operators import Work
from skate.data.relational.refusals import StageRefused
from skate.data.relational.stage_operator import STAGE
from skate.data.steps import place

#: After this many seconds of work in this process, the rest of the plan goes to workers.
LOCAL_SECONDS = 0.05
#: The most bytes to read or compute in this process at a time.
LOCAL_BYTES = 64 << 20
#: Blocks made by workers are fetched for work in this process if their total size is at most this.
FETCH_BYTES = 1 << 20

Event = tuple[str, Work, Any]


class LocalRunner:
    """Runs one piece of work at a time, in this process."""

    def __init__(self) -> None:
        self._active: tuple[Work, Iterator[Any]] | None = None
        self._watch = place.Watch()
        self.seconds = 0.0

    @property
    def busy(self) -> bool:
        """True while a piece of work is under way."""
        return self._active is not None

    def takes(self, work: Work) -> bool:
        """True if a piece of work is small enough, and earlier work here was quick."""
        if work.kind == STAGE:
            return True
        if (
            work.operator.apart
            or self.seconds >= LOCAL_SECONDS
            or not work.operator.compute.plain
            or work.bytes > LOCAL_BYTES
        ):
            return False
        away = sum(each.bytes for each in work.bundles if isinstance(each, Bundle) and not each.here)
        if away > FETCH_BYTES:
            return False
        sources = [each for each in work.bundles if not isinstance(each, Bundle)]
        return sum(getattr(each, "bytes", 0) or 0 for each in sources) <= LOCAL_BYTES

    def start(self, work: Work) -> None:
        """Begin a piece of work; `events` continues it."""
        work.operator.counters.here += 1
        self._watch = place.Watch()
        self._active = (work, self._run(work))

    def events(self) -> list[Event]:
        """Return the next event: ("block", work, bundle), ("done", work, result) or ("failed", work, error)."""
        assert self._active is not None
        work, flow = self._active
        started = time.perf_counter()
        self._watch.deadline = started + max(0.0, LOCAL_SECONDS - self.seconds)
        place.begin(work.sequence, self._watch)
        try:
            found = next(flow, None)
        except StageRefused:
            self._active = None
            raise
        except Exception as error:  # the user's function may raise anything
            from skate.util.debug import as_of_a_task  # only failures need it

            self._active = None
            return [("failed", work, as_of_a_task(work.operator.name, error))]
        except BaseException:  # mainly Ctrl-C: the piece of work has ended, and the function has not failed
            self._active = None
            raise
        finally:
            spent = time.perf_counter() - started
            if work.kind != STAGE:  # its threads are Polars's
                self.seconds += spent
            work.seconds += spent
        if isinstance(found, Bundle):
            return [("block", work, found)]
        self._active = None
        if self._watch.left:
            left = [(step, list(map(Bundle.of, tables))) for step, tables in self._watch.left]
            operator: Any = work.operator
            operator.put_back(left)
        return [("done", work, None if found is None else found[0])]

    @staticmethod
    def _run(work: Work) -> Iterator[Any]:
        operator: Any = work.operator
        if work.kind == "chain":
            sources = [each.table() if isinstance(each, Bundle) else each for each in work.bundles]
            steps = operator.steps if work.extra is None else work.extra
            for table in works.run_steps(works.inputs(sources), steps, work.sequence):
                yield Bundle.of(table)
            return
        if work.kind == STAGE:
            for table in operator.tables():
                yield Bundle.of(table)
            return
        tables = [bundle.table() for bundle in work.bundles]
        if work.kind == "sample":
            yield (operator.kernel.sample(tables[0]),)
        elif work.kind == "split":
            parts = works.parts_of(operator.kernel, tables, work.extra, operator.plan, operator.partitions)
            yield ([Bundle.of(part) for part in parts],)
        else:
            for table in works.merged(operator.kernel, tables, work.extra, operator.plan):
                yield Bundle.of(table)

    def close(self) -> None:
        """Drop the work in progress."""
        self._active = None
