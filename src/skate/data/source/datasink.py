"""The contract of a datasink: it is told of the start, writes the blocks of each task, and is told of the end."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa


@dataclass
class TaskContext:
    """What a writer may know of its task: a name of its own, how many blocks went before, and values of the operation."""

    task_idx: int = 0
    op_name: str = ""
    kwargs: dict[str, Any] = field(default_factory=dict)
    #: The same for every attempt at one piece of work, so that a repeated write replaces what the first has left.
    write_id: str = ""

    @classmethod
    def new(cls, task_idx: int = 0) -> TaskContext:
        """The context of a task that begins now."""
        return cls(task_idx=task_idx, write_id=uuid.uuid4().hex)


@dataclass
class WriteResult:
    """What all writers together have done: rows, bytes, and what each `write` returned, in the order of the tasks."""

    num_rows: int = 0
    size_bytes: int = 0
    write_returns: list[Any] = field(default_factory=list)


class Datasink:
    """Something that can be written in parallel. Subclasses write the blocks of one task."""

    def get_name(self) -> str:
        """How it is called in plans: the class's name without "Datasink"."""
        name = type(self).__name__.lstrip("_")
        return name[: -len("Datasink")] if name.endswith("Datasink") and name != "Datasink" else name

    def on_write_start(self, schema: pa.Schema | None = None) -> None:
        """Called once, before anything is written."""

    def write(self, blocks: Iterable[pa.Table], ctx: TaskContext) -> Any:
        """Write the blocks of one task; what is returned reaches `on_write_complete`."""
        raise NotImplementedError

    def on_write_complete(self, write_result: WriteResult) -> None:
        """Called once, after everything is written."""

    def on_write_failed(self, error: Exception) -> None:
        """Called once, if the run has failed."""

    @property
    def supports_distributed_writes(self) -> bool:
        """Whether any node may write."""
        return True

    @property
    def min_rows_per_write(self) -> int | None:
        """How many rows each call of `write` should have at least; None for a block."""
        return None
