"""The result or frame of an aggregation that needs only the distinct texts of a Parquet column."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from skate.data.exchange.aggregate import AggregateKernel
from skate.data.exchange.lists import Distinct, DistinctCount, ListValues
from skate.data.exchange.measures import Plain
from skate.data.plan import operators as logical
from skate.data.relational.csv_scans import TasksOf
from skate.data.relational.dictionaries import KINDS, distinct_texts
from skate.data.relational.frames import Frame, Frames, count_of

_EXTREMES = ("min", "max")
#: Up to this many values are aggregated sooner than Polars starts.
_FEW = 1 << 14


class DistinctFrame:
    """A frame of the distinct texts alone, if the files have dictionaries of them; otherwise that of all rows."""

    def __init__(
        self, frames: Frames, frame: Frame, kernel: AggregateKernel, paths: list[str], field: pa.Field
    ) -> None:
        self._frames = frames
        self._frame = frame
        self._kernel = kernel
        self._paths = paths
        self._field = field

    def counted(self) -> Frame:
        """Return the frame of the number of rows."""
        return count_of(self._frames.polars, self._frame)

    def now(self, tasks_of: TasksOf, is_wanted: Callable[[], bool]) -> Frame | pa.Table:
        """Read the texts, and return the result, or the frame of many texts or of all rows."""
        tables = distinct_texts(self._paths, self._field, is_wanted)
        if tables is None:
            return self._frame
        if sum(table.num_rows for table in tables) > _FEW:
            return self._frames.aggregated(self._kernel, tables)
        states = self._kernel.states(pa.concat_tables(tables))
        return next(iter(self._kernel.merge([[states]], 0, None)))


def of_texts(frames: Frames, frame: Frame, plan: logical.Operator) -> DistinctFrame | None:
    """Return a frame of distinct texts for a plan that needs no more, whose own frame is given; otherwise None."""
    if not isinstance(plan, logical.Exchange) or type(plan.kernel) is not AggregateKernel:
        return None
    (scan,) = plan.inputs
    columns = {each.on for each in plan.kernel.aggregations}
    if plan.kernel.keys or len(columns) != 1 or not isinstance(scan, logical.Read):
        return None
    (name,) = columns
    if name is None or "." in name or scan.predicate is not None:
        return None
    if not all(_needs_distinct(each.measure()) for each in plan.kernel.aggregations):
        return None
    paths, schema, _ = scan.datasource.plain_scan(None)
    field = schema.field(name).remove_metadata()
    return DistinctFrame(frames, frame, plan.kernel, paths, field) if field.type in KINDS else None


def _needs_distinct(measure: Any) -> bool:
    """True for measures whose results stay the same if values are repeated."""
    if type(measure) is ListValues:
        measure = measure.then
    return type(measure) in (Distinct, DistinctCount) or (
        type(measure) is Plain and measure.function in _EXTREMES
    )
