"""A stage of a plan that Polars runs, in threads of the driver."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from skate.data.execution.operators import Running, Work
from skate.data.steps.block_size import SizeStep

#: The kind of its only piece of work, which always runs in the driver.
STAGE = "stage"


class RelationalRunning(Running):
    """Yields the rows of a frame of `skate.data.relational`; `tasks_of` returns the read tasks of a scan."""

    def __init__(
        self, name: str, frame: Any, block_bytes: Callable[[], int], tasks_of: Callable[[Any], Any]
    ) -> None:
        super().__init__(name, 0)
        self._frame = frame
        self._tasks_of = tasks_of
        self._block_bytes = block_bytes
        self._begun = False
        self._run: Any = None

    def has_work(self) -> bool:
        return not self._begun and not self.stopped

    def next_work(self) -> Work:
        self._begun = True
        self.running += 1
        self.tasks += 1
        return Work(self, STAGE, 0, ())

    def tables(self) -> Iterator[pa.Table]:
        """Run the frame, and yield blocks; end early if no consumer needs more."""
        from skate.data.relational.polars_run import FrameRun  # only plans with such a stage need it

        self._run = FrameRun(self._frame, self._tasks_of)
        self._run.start()  # Polars works while the session is asked for its limits
        tables = self._run.tables()
        try:
            for table in SizeStep(self._block_bytes())(tables):
                yield table
                if self.stopped:
                    return
        finally:
            tables.close()

    def interrupt(self) -> None:
        """End the run from another thread."""
        self.stopped = True
        if self._run is not None:
            self._run.close()
