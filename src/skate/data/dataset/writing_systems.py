"""Datasets into databases, table formats and queues."""

from __future__ import annotations

import inspect
from typing import Any

import pyarrow as pa

from skate.data.compute import Compute
from skate.data.dataset.base import DatasetBase
from skate.data.plan.operators import Read, Write
from skate.data.source.datasink import WriteResult
from skate.data.steps.writing import results_of

Options = dict[str, Any] | None


class SystemWriting(DatasetBase):
    """Datasets into databases, table formats and queues; and the writing that all datasinks have in common."""

    def _write(self, datasink: Any, remote_args: Options, concurrency: int | None) -> None:
        """Run the plan into a datasink. The datasink is told of the start, and of the end or the failure."""
        if concurrency is not None and concurrency < 1:
            raise ValueError(f"concurrency is 1 or more, not {concurrency}")
        _start(datasink, self._schema_beforehand())
        if getattr(datasink, "nothing_to_write", False):
            return
        compute = Compute(tasks=concurrency, remote_args=dict(remote_args or {}))
        written = self._with(Write((self._plan,), datasink=datasink, compute=compute))
        result: WriteResult[Any] = WriteResult()
        try:
            for value, rows, size in results_of(written._tables()):
                result.num_rows += rows
                result.size_bytes += size
                result.write_returns.append(value)
            datasink.on_write_complete(result)
        except (
            Exception
        ) as error:  # whatever a step before, or the datasink, raises: it is told, and the error goes on
            datasink.on_write_failed(error)
            raise
        finally:
            self._last_run = written._last_run

    def _schema_beforehand(self) -> pa.Schema | None:
        """The schema of what is written, if it can be told without running anything."""
        plan = self._plan
        known = getattr(plan.datasource, "known_schema", None) if isinstance(plan, Read) else None
        found: pa.Schema | None = known() if known is not None else None
        return found


def _start(datasink: Any, schema: pa.Schema | None) -> None:
    """Tell a datasink of the start, also one of the older kind that is not told the schema."""
    start = datasink.on_write_start
    if inspect.signature(start).parameters:
        start(schema)
    else:
        start()
