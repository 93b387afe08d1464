"""Sorts and groups of more rows than fit into memory: files are read several times, each time for the keys of one range.

The ranges are in order, so each pass yields the next part of the result. Nothing is written to disk: to decode the keys again
costs less than to write all rows and to read them back.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from skate.data.exchange.aggregate import AggregateKernel
from skate.data.exchange.sort import SortKernel
from skate.data.plan import operators as logical
from skate.data.relational.csv_scans import FirstRows
from skate.data.relational.frames import Frame, Frames, check_result
from skate.data.relational.held_bytes import flowing_bytes
from skate.data.relational.held_rows import Place, RowBudget
from skate.data.relational.join_filters import PlannedInputs
from skate.data.relational.kinds import is_text
from skate.data.relational.refusals import StageRefused, Unproven
from skate.data.relational.used_columns import columns_used
from skate.data.source.formats.parquet import ParquetDatasource

#: The most passes over files that the kernel keeps in memory, and over larger ones, which come from the disk each time.
_PASSES = 64
_PASSES_FROM_DISK = 6
#: The share of the machine's memory that files may have so that the kernel is likely to keep them.
_KEPT = 0.5
#: The bytes of groups, at most as many as rows, are so many times those of the rows.
GROUPS_TIMES = 4
#: The rows whose keys are sampled.
_SAMPLE = 1 << 16
#: A range may have this many times its share of the rows of a sort, because of rows with one key.
_SLACK = 1.5


class Passes:
    """A sort or groups to be made in several passes."""

    def __init__(self, polars: Any, plan: logical.Exchange, most: int, count: int) -> None:
        self._polars = polars
        self._plan = plan
        self._most = most
        self._count = count

    def check(self) -> None:
        """Raise Unproven if the result may differ from that of the ordinary way, or if there are no ranges of the keys."""
        frames, before = self._before()
        name, _ = self._first_key()
        kind = before.schema.field(name).type
        if not (
            before.is_scan
            and (
                pa.types.is_integer(kind)
                or kind in (pa.float32(), pa.float64())
                or pa.types.is_date32(kind)
                or is_text(kind)
            )
        ):
            raise Unproven(f"ranges of {kind}")
        check_result(frames.held(self._plan.kernel, before))

    def frames(self, is_wanted: Callable[[], bool]) -> Iterator[Frame]:
        """Yield the frame of each part of the result, in order. Raises Unproven if a part does not fit into memory."""
        frames, before = self._before()
        name, is_down = self._first_key()
        key = frames.key(before, name)
        if is_down and pa.types.is_floating(before.schema.field(name).type):
            key, is_down = -key, False  # NaN comes after all numbers in either direction
        sampled, step = self._sampled(before, key)
        ranges = self._ranges(sampled, step * len(sampled) / max(1, before.rows), is_down)
        if type(self._plan.kernel) is SortKernel:
            self._check_parts(ranges, sampled, before.rows / self._count / step)
        for each in ranges:
            if not is_wanted():
                raise StageRefused("the stage was closed")
            yield frames.held(self._plan.kernel, before._replace(lazy=each.of(before.lazy, key)))

    def _before(self) -> tuple[Frames, Frame]:
        """Return a translator, and the frame of the rows to sort or group."""
        used = columns_used(self._plan, None, True)
        frames = Frames(self._polars, RowBudget(self._most), FirstRows(used), PlannedInputs(), used)
        return frames, frames.of(self._plan.inputs[0], Place.GATED)

    def _first_key(self) -> tuple[str, bool]:
        """Return the name of the first key, and whether it is descending."""
        kernel: Any = self._plan.kernel
        if type(kernel) is AggregateKernel:
            return kernel.keys[0], False
        return kernel.order.keys[0], kernel.order.descending[0]

    def _sampled(self, before: Frame, key: Any) -> tuple[Any, int]:
        """Return the keys of rows at equal distances, and the distance."""
        step = max(1, before.rows // _SAMPLE)
        keys = before.lazy.select(key.alias("key")).with_row_index("row")
        chosen = keys.filter(self._polars.col("row") % step == 0).select("key")
        return chosen.collect(engine="streaming").to_series(), step

    def _ranges(self, sampled: Any, share: float, is_down: bool) -> list[_Range]:
        """Return the ranges of keys in the order of the result; `share` is that of the rows that filters have left."""
        known = sampled.drop_nulls()
        ordered = (known.drop_nans() if known.dtype.is_float() else known).sort()
        parts = max(1, math.ceil(self._count * min(1.0, share)))
        places = [at * len(ordered) // parts for at in range(1, parts)] if len(ordered) else []
        starts = sorted({ordered[at] for at in places if ordered[at] > ordered[0]})
        literals = [self._polars.lit(each, dtype=sampled.dtype) for each in starts]
        bounds = list(zip([None, *literals], [*literals, None], strict=True))
        if is_down:
            bounds.reverse()
        return [_Range(low, high, at == len(starts)) for at, (low, high) in enumerate(bounds)]

    def _check_parts(self, ranges: Sequence[_Range], sampled: Any, expected: float) -> None:
        """Raise Unproven if a range has many more rows than are expected of the sample."""
        rows, key = sampled.alias("key").to_frame().lazy(), self._polars.col("key")
        if any(each.of(rows, key).collect().height > _SLACK * expected for each in ranges):
            raise Unproven("too many rows have one key")


class _Range(NamedTuple):
    """Keys from `low` to before `high`, which are expressions or None; also null if it is the last one."""

    low: Any
    high: Any
    is_last: bool

    def of(self, lazy: Any, key: Any) -> Any:
        """Return the rows of a frame whose keys are in the range. NaN is larger than all numbers."""
        found = None if self.low is None else key >= self.low
        if self.high is not None:
            found = key < self.high if found is None else found & (key < self.high)
        if found is None:
            return lazy
        return lazy.filter(found | key.is_null() if self.is_last else found)


def in_passes(polars: Any, plan: logical.Operator, most: int) -> Passes | None:
    """Return passes that make a sort or groups and hold at most some bytes at a time; None for other plans."""
    kernel = getattr(plan, "kernel", None)
    if not isinstance(plan, logical.Exchange) or type(kernel) not in (AggregateKernel, SortKernel):
        return None
    if (
        plan.partitions is not None
        or not getattr(kernel, "keys", True)
        or getattr(kernel, "boundaries", None)
    ):
        return None
    size = flowing_bytes(plan)
    if size is None:
        return None
    if type(kernel) is AggregateKernel:
        size *= GROUPS_TIMES
    count = math.ceil(size / most)
    if count > (_PASSES if _are_kept(plan) else _PASSES_FROM_DISK):
        return None
    found = Passes(polars, plan, most, count)
    found.check()
    return found


def _are_kept(plan: logical.Operator) -> bool:
    """True if the kernel is likely to keep the files in memory."""
    sources = (each.datasource for each in plan.walk() if isinstance(each, logical.Read))
    size = sum(each.bytes_in_files() for each in sources if type(each) is ParquetDatasource)
    return size <= _KEPT * os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
