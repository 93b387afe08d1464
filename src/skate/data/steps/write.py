"""Writes blocks to a datasink; the output is one row with the writer's return value."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pyarrow as pa

from skate.data.block import columns, size_of
from skate.data.block.objects import from_objects
from skate.data.source.datasink import TaskContext


class WriteStep:
    """Has a datasink write the blocks of one task."""

    def __init__(self, datasink: Any, checkpoint: Any = None) -> None:
        self.datasink = datasink
        self.checkpoint = checkpoint
        self.name = uuid.uuid4().hex

    def __call__(self, given: Iterable[pa.Table]) -> Iterator[pa.Table]:
        return self._write(given, 0)

    def of_piece(self, number: int) -> Callable[[Iterable[pa.Table]], Iterator[pa.Table]]:
        """Bind the step to a piece of work, whose number is the task's: a retry overwrites the output of the
        first attempt.
        """
        return lambda given: self._write(given, number)

    def _write(self, given: Iterable[pa.Table], number: int) -> Iterator[pa.Table]:
        counted = [0, 0]
        ids: list[pa.Array] = []

        def passing() -> Iterator[pa.Table]:
            for table in given:
                counted[0] += table.num_rows
                counted[1] += size_of(table)
                if self.checkpoint is not None:
                    ids.extend(self.checkpoint.ids_of(table).chunks)
                yield table

        write_id = getattr(self.datasink, "write_uuid", "") or ""
        context = TaskContext(
            task_idx=number, kwargs={"write_uuid": write_id}, write_id=f"{write_id}_{number:06d}"
        )
        result = self.datasink.write(passing(), context)
        if ids:
            name = f"{write_id or self.name}_{number:06d}"
            self.checkpoint.enter(pa.chunked_array(ids), self.datasink, name, result)
        yield pa.table(
            {
                "result": from_objects([(result,)]),
                "rows": pa.array([counted[0]]),
                "bytes": pa.array([counted[1]]),
            }
        )


def results_of(tables: Iterable[pa.Table]) -> Iterator[tuple[Any, int, int]]:
    """Yield each writer's return value, its rows and its bytes."""
    for table in tables:
        for (result,), rows, size in zip(
            columns.to_values(table.column("result")),
            table.column("rows").to_pylist(),
            table.column("bytes").to_pylist(),
            strict=True,
        ):
            yield result, rows, size
