"""The contract of a datasink: it is notified of the start, writes the blocks of each task, and is notified of the
end.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Generic, TypeVar

import pyarrow as pa

WriteReturnType = TypeVar("WriteReturnType")


class SaveMode(str, Enum):
    """How a write treats existing data.

    CREATE and ERROR raise ValueError, APPEND adds to it, OVERWRITE replaces it once everything new is written,
    IGNORE writes nothing, UPSERT replaces rows with the same key (for table formats that support it).
    """

    CREATE = "create"
    APPEND = "append"
    OVERWRITE = "overwrite"
    IGNORE = "ignore"
    ERROR = "error"
    UPSERT = "upsert"


@dataclass
class TaskContext:
    """Information for a writer about its task: its number within the write, and values of the operation."""

    task_idx: int = 0
    op_name: str = ""
    kwargs: dict[str, Any] = field(default_factory=dict)
    #: The same for every attempt at one piece of work, so that a retried write replaces the output of the first.
    write_id: str = ""

    @classmethod
    def new(cls, task_idx: int = 0) -> TaskContext:
        """Create the context of a task that is about to begin."""
        return cls(task_idx=task_idx, write_id=uuid.uuid4().hex)


@dataclass
class WriteResult(Generic[WriteReturnType]):
    """The combined result of all writers: rows, bytes, and the return value of each `write`, in task order."""

    num_rows: int = 0
    size_bytes: int = 0
    write_returns: list[WriteReturnType] = field(default_factory=list)

    @classmethod
    def combine(cls, *results: WriteResult[WriteReturnType]) -> WriteResult[WriteReturnType]:
        """Combine several results into one."""
        returns = [each for result in results for each in result.write_returns]
        rows = sum(result.num_rows for result in results)
        return cls(rows, sum(result.size_bytes for result in results), returns)


class Datasink(Generic[WriteReturnType]):
    """Something that can be written in parallel. Subclasses write the blocks of one task."""

    #: Set by `on_write_start` if there is nothing to do, as with SaveMode.IGNORE.
    nothing_to_write = False

    def get_name(self) -> str:
        """Return its name in plans: the class's name without "Datasink"."""
        name = type(self).__name__.lstrip("_")
        return name[: -len("Datasink")] if name.endswith("Datasink") and name != "Datasink" else name

    def on_write_start(self, schema: pa.Schema | None = None) -> None:
        """Called once, before anything is written; the schema is None if it is not known yet."""

    def write(self, blocks: Iterable[pa.Table], ctx: TaskContext) -> WriteReturnType:
        """Write the blocks of one task; the return value is passed to `on_write_complete`."""
        raise NotImplementedError(f"{type(self).__name__} must define write(blocks, ctx)")

    def on_write_complete(self, write_result: WriteResult[WriteReturnType]) -> None:
        """Called once, after everything is written."""

    def on_write_failed(self, error: Exception) -> None:
        """Called once, if the run has failed."""

    @property
    def supports_distributed_writes(self) -> bool:
        """True if any node may write."""
        return True

    @property
    def min_rows_per_write(self) -> int | None:
        """The least number of rows for each call of `write`; None for one block."""
        return None

    @property
    def min_bytes_per_write(self) -> int | None:
        """The least number of bytes for each call of `write`; None for one block."""
        return None


class DummyOutputDatasink(Datasink[None]):
    """Counts what is written and discards it: for tests."""

    def __init__(self) -> None:
        import skate  # the package's names are looked up when a session exists

        self.num_ok = 0
        self.num_failed = 0
        self.rows_written = 0
        self.enabled = True
        #: An actor that counts the rows as the tasks write them.
        self.data_sink = skate.remote(_Counter).options(num_cpus=0).remote()

    def write(self, blocks: Iterable[pa.Table], ctx: TaskContext) -> None:
        import skate  # as above

        if not self.enabled:
            raise ValueError("this datasink is disabled")
        skate.get([self.data_sink.add.remote(block.num_rows) for block in blocks])

    def on_write_complete(self, write_result: WriteResult[None]) -> None:
        self.num_ok += 1
        self.rows_written += write_result.num_rows

    def on_write_failed(self, error: Exception) -> None:
        self.num_failed += 1


class _Counter:
    """Counts rows."""

    def __init__(self) -> None:
        self._rows = 0

    def add(self, rows: int) -> None:
        """Add the rows of a block."""
        self._rows += rows

    def get_rows_written(self) -> int:
        """Return the number of all rows so far."""
        return self._rows
