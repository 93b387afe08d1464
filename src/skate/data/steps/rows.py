"""A function of a row: `map`, `flat_map` and `filter`."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa

from skate.data import block as blocks
from skate.data.steps.place import Watch, watched
from skate.data.steps.retries import Retries
from skate.data.steps.udf import Udf, explain, wrong_result


class RowStep:
    """Calls a function for each row."""

    def __init__(self, kind: str, udf: Udf, retries: Retries | None = None) -> None:
        self.kind = kind
        self.udf = udf
        self.retries = retries
        #: True if rows may be left to workers when the function proves slow, in multiples of `unit`.
        self.may_leave = False
        self.unit = 1

    def __call__(self, given: Iterable[pa.Table]) -> Iterator[pa.Table]:
        call = self.udf.load()
        if self.udf.is_async:
            call = _awaited(call)
        if self.kind == "flat_map":
            call = _listed(call)
        work = {"map": self._map, "flat_map": self._flat_map, "filter": self._filter}[self.kind]
        watch = watched() if self.may_leave else None
        source = iter(given)
        for block in source:
            if not block.num_rows:
                if self.kind == "filter":
                    yield block
                continue
            rows = _Rows(block, watch, self.unit)
            yield from work(call, block, rows)
            if watch is not None and rows.left is not None:
                watch.leave(self, itertools.chain([block.slice(rows.left)], source))
                return

    def _map(self, call: Callable[[Any], Any], block: pa.Table, rows: _Rows) -> Iterator[pa.Table]:
        made: list[Mapping[str, Any]] = []
        for index, row in rows:
            value = self._call(call, row, index, block)
            if not isinstance(value, Mapping):
                raise wrong_result(
                    f"Error validating {value!r:.80}: {self.udf.name} returned this {type(value).__name__} for row {index}, but "
                    f"Standalone Python objects are not allowed: a row is a dict of column name to value; return "
                    f"{{'item': value}}"
                )
            made.append(value)
        yield blocks.from_rows(made)

    def _flat_map(self, call: Callable[[Any], Any], block: pa.Table, rows: _Rows) -> Iterator[pa.Table]:
        made: list[Mapping[str, Any]] = []
        for index, row in rows:
            values = self._call(call, row, index, block)
            if isinstance(values, (Mapping, str, bytes)) or not isinstance(values, Iterable):
                raise wrong_result(
                    f"{self.udf.name} returned {values!r:.80} (of type {type(values).__name__}) for row "
                    f"{index}, but flat_map needs a list of rows; return [row] for one"
                )
            for value in values:
                if not isinstance(value, Mapping):
                    raise wrong_result(
                        f"Error validating {value!r:.80}: {self.udf.name} returned a list with this {type(value).__name__} for "
                        f"row {index}, but Standalone Python objects are not allowed: a row is a dict of column name to value; "
                        f"return [{{'item': value}}, ...]"
                    )
                made.append(value)
        if made:
            yield blocks.from_rows(made)

    def _filter(self, call: Callable[[Any], Any], block: pa.Table, rows: _Rows) -> Iterator[pa.Table]:
        kept = [bool(self._call(call, row, index, block)) for index, row in rows]
        seen = block if len(kept) == block.num_rows else block.slice(0, len(kept))
        yield seen if all(kept) else seen.filter(pa.array(kept, pa.bool_()))

    def _call(self, call: Callable[[Any], Any], row: dict[str, Any], index: int, block: pa.Table) -> Any:
        tried = 0
        while True:
            try:
                return call(row)
            except Exception as error:  # the user's function may raise anything; its input is added
                if self.retries is not None and self.retries.again(error, tried):
                    tried += 1
                    continue
                what = f"raised by {self.udf.name} for row {index} of a block of {block.num_rows}"
                explain(error, what, block.schema)
                raise


class _Rows:
    """Yield the rows of a block with their numbers, up to those left to workers: `left` is the number of the first."""

    def __init__(self, block: pa.Table, watch: Watch | None, unit: int) -> None:
        self.block = block
        self.watch = watch
        self.unit = unit
        self.left: int | None = None

    def __iter__(self) -> Iterator[tuple[int, dict[str, Any]]]:
        rows = enumerate(blocks.rows_of(self.block))
        if self.watch is None:
            yield from rows
            return
        started = time.perf_counter()
        for index, row in rows:
            if index and not index % self.unit and self.watch.is_slow(started, index, self.block.num_rows):
                self.left = index
                return
            yield index, row


def _listed(call: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Wrap a generator function so that it runs to completion, and raises, within the call."""

    def listed(row: Any) -> Any:
        made = call(row)
        return list(made) if isinstance(made, Iterator) else made

    return listed


def _awaited(call: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Convert a coroutine function to a plain one."""
    loop = asyncio.new_event_loop()

    async def collect(row: Any) -> Any:
        made = call(row)
        if hasattr(made, "__aiter__"):
            return [value async for value in made]
        return await made

    return lambda row: loop.run_until_complete(collect(row))
