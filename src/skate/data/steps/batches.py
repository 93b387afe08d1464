"""A function of a batch: `map_batches`."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from skate.data import block as blocks
from skate.data.block.batcher import batches_of
from skate.data.steps.place import watched
from skate.data.steps.retries import Retries
from skate.data.steps.udf import Udf, explain, wrong_result

#: The assumed number of remaining batches if a function proves slow.
_BATCHES_LEFT = 4


class BatchStep:
    """Calls a function for each batch of `batch_size` rows, or for each block if that is None."""

    def __init__(
        self,
        udf: Udf,
        batch_size: int | None,
        batch_format: str | None,
        zero_copy: bool,
        retries: Retries | None = None,
    ) -> None:
        self.udf = udf
        self.batch_size = batch_size
        self.batch_format = batch_format
        self.zero_copy = zero_copy
        self.retries = retries
        #: True if batches may be left to workers when the function proves slow.
        self.may_leave = False

    def __call__(self, given: Iterable[pa.Table]) -> Iterator[pa.Table]:
        call = self.udf.load()
        if self.udf.is_async:
            yield from self._side_by_side(call, given)
            return
        if self.retries is not None:
            call = _tried_again(call, self.retries)
        watch = watched() if self.may_leave else None
        started = time.perf_counter()
        tables = batches_of(given, self.batch_size)
        for index, (table, batch) in enumerate(self._batches(tables)):
            if watch is not None and index and watch.is_slow(started, index, index + _BATCHES_LEFT):
                watch.leave(self, itertools.chain([table], tables))
                return
            try:
                made = call(batch)
            except Exception as error:  # the user's function may raise anything; its input is added
                self._explain(error, index, table)
                raise
            yield from self._blocks(made, index, table)

    def _batches(self, given: Iterable[pa.Table]) -> Iterator[tuple[pa.Table, Any]]:
        for table in given:
            batch = blocks.to_batch(table, self.batch_format, for_function=True)
            yield table, batch if self.zero_copy else _writable(batch)

    def _blocks(self, made: Any, index: int, table: pa.Table) -> Iterator[pa.Table]:
        if isinstance(made, (Generator, Iterator)):
            yield from self._generated(made, index, table)
        else:
            yield self._block(made, index)

    def _generated(self, made: Iterator[Any], index: int, table: pa.Table) -> Iterator[pa.Table]:
        while True:
            try:
                value = next(made)
            except StopIteration:
                return
            except Exception as error:  # the user's code may raise anything
                self._explain(error, index, table)
                raise
            yield self._block(value, index)

    def _block(self, made: Any, index: int) -> pa.Table:
        try:
            return blocks.from_batch(made)
        except ValueError as error:
            raise wrong_result(
                f"Error validating {made!r:.200}: {self.udf.name} returned for batch {index} something that "
                f"is not a batch: {error}"
            ) from None

    def _explain(self, error: BaseException, index: int, table: pa.Table) -> None:
        explain(error, f"raised by {self.udf.name} for batch {index}, of {table.num_rows} rows", table.schema)

    def _side_by_side(self, call: Callable[[Any], Any], given: Iterable[pa.Table]) -> Iterator[pa.Table]:
        """Run the batches of an async function concurrently and yield the results in order."""
        loop = asyncio.new_event_loop()
        try:
            batches = list(self._batches(batches_of(given, self.batch_size)))
            results = loop.run_until_complete(_gather(call, [batch for _, batch in batches], self.retries))
        finally:
            loop.close()
        for index, (result, (table, _)) in enumerate(zip(results, batches, strict=True)):
            if isinstance(result, BaseException):
                self._explain(result, index, table)
                raise result
            for made in result:
                yield self._block(made, index)


def _tried_again(call: Callable[[Any], Any], retries: Retries) -> Callable[[Any], Any]:
    """Wrap a function in retries; a generator continues after the values it has already yielded."""

    def again(batch: Any) -> Any:
        tried = 0
        while True:
            try:
                made = call(batch)
            except Exception as error:  # the settings decide about retries
                if not retries.again(error, tried):
                    raise
                tried += 1
                continue
            return resumed(made, batch, tried) if isinstance(made, Iterator) else made

    def resumed(made: Iterator[Any], batch: Any, tried: int) -> Iterator[Any]:
        given = 0
        while True:
            try:
                for value in itertools.islice(made, given, None):
                    given += 1
                    yield value
                return
            except Exception as error:  # the settings decide about retries
                if not retries.again(error, tried):
                    raise
                tried += 1
                made = call(batch)

    return again


async def _gather(call: Callable[[Any], Any], batches: list[Any], retries: Retries | None) -> list[Any]:
    async def one(batch: Any) -> list[Any]:
        tried = 0
        while True:
            try:
                made = call(batch)
                if hasattr(made, "__aiter__"):
                    return [value async for value in made]
                return [await made]
            except Exception as error:  # as for functions that are not async
                if retries is None or not retries.again(error, tried):
                    raise
                tried += 1

    found: list[Any] = await asyncio.gather(*(one(batch) for batch in batches), return_exceptions=True)
    return found


def _writable(batch: Any) -> Any:
    if isinstance(batch, dict):
        return {
            name: values if values.flags.writeable else np.array(values) for name, values in batch.items()
        }
    if hasattr(batch, "copy") and not isinstance(batch, pa.Table):
        return batch.copy()
    return batch
