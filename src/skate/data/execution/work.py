"""Code that runs in workers: a chain of steps over blocks, and the parts of an exchange."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from skate.data import block as blocks
from skate.data.exchange.parts import joined
from skate.data.steps import place

Step = Callable[[Iterable[pa.Table]], Iterator[pa.Table]]
#: A range of rows of a block, as (first row, rows); None for the whole block.
Cut = tuple[int, int] | None

#: Chains and kernels that this process has received, by key. There are few: each belongs to one operator of a plan.
_received: dict[str, Any] = {}
_RECEIVED_MAX = 64


class Meta:
    """Return the metadata of a block that stays where it was made."""

    __slots__ = ("rows", "bytes", "schema", "seconds")

    def __init__(self, rows: int, size: int, schema: pa.Schema, seconds: float) -> None:
        self.rows = rows
        self.bytes = size
        self.schema = schema
        self.seconds = seconds

    def __reduce__(self) -> Any:
        return Meta, (self.rows, self.bytes, self.schema, self.seconds)


def run_steps(source: Iterable[pa.Table], steps: Sequence[Any], number: int = 0) -> Iterator[pa.Table]:
    """Yield the output blocks of a chain; `number` counts the pieces of work of its operator."""
    flow: Any = source
    for step in steps:
        of_piece = getattr(step, "of_piece", None)
        flow = step(flow) if of_piece is None else of_piece(number)(flow)
    return iter(flow)


def inputs(sources: Iterable[Any]) -> Iterator[pa.Table]:
    """Yield the input blocks of a chain: read tasks are called, blocks are passed on."""
    for source in sources:
        if isinstance(source, pa.Table):
            yield source
        else:
            for made in source():
                yield made if isinstance(made, pa.Table) else blocks.from_batch(made)


def chain(
    key: str, steps: list[Any], number: int, sources: list[Any], cuts: Sequence[Cut], *given: pa.Table
) -> Iterator[Any]:
    """Run a chain of steps as a task: yield each output block, then its metadata.

    `steps` is a ref in a list, fetched once per process; `number` is the number of the piece of work.
    """
    found = received(key, steps)
    started = time.perf_counter()
    place.begin(number)
    for table in run_steps(inputs((*sources, *map(_part, given, cuts))), found, number):
        kept = blocks.compact(table)
        seconds = time.perf_counter() - started
        yield kept
        yield Meta(kept.num_rows, blocks.size_of(kept), kept.schema, seconds)
        started = time.perf_counter()


def _part(table: pa.Table, cut: Cut) -> pa.Table:
    return table if cut is None else table.slice(*cut)


def received(key: str, holder: list[Any]) -> Any:
    """Return the value of a ref in a list, cached in this process."""
    if key not in _received:
        import skate  # workers have it

        while len(_received) >= _RECEIVED_MAX:
            del _received[next(iter(_received))]
        _received[key] = skate.get(holder[0])
    return _received[key]


def sample(key: str, holder: list[Any], cut: Cut, block: pa.Table) -> Any:
    """Sample a block for an exchange, as a task."""
    return received(key, holder).sample(_part(block, cut))


def split(
    key: str,
    holder: list[Any],
    where: Any,
    plan: Any,
    count: tuple[int, int],
    cuts: Sequence[Cut],
    *given: pa.Table,
) -> list[Any]:
    """Split blocks as a task: return the sizes of the parts, then the parts. `count` holds the number of
    partitions and of returned values, see `runs_of`."""
    parts = parts_of(received(key, holder), list(map(_part, given, cuts)), where, plan, count[0])
    sizes = [(part.num_rows, blocks.size_of(part)) for part in parts]
    return [sizes, *(blocks.compact(joined(parts[low:high])) for low, high in runs_of(*count))]


def runs_of(partitions: int, runs: int) -> list[tuple[int, int]]:
    """Group adjacent partitions into one value each: the first partition of each run, and the one after its last."""
    ends = [partitions * run // runs for run in range(runs + 1)]
    return list(zip(ends, ends[1:], strict=False))


def merge(
    key: str, holder: list[Any], extra: Any, plan: Any, cuts: Sequence[Cut], *parts: pa.Table
) -> Iterator[Any]:
    """Merge one partition as a task: yield its blocks, each followed by its metadata."""
    kernel = received(key, holder)
    started = time.perf_counter()
    for table in merged(kernel, list(map(_part, parts, cuts)), extra, plan):
        kept = blocks.compact(table)
        yield kept
        yield Meta(kept.num_rows, blocks.size_of(kept), kept.schema, time.perf_counter() - started)
        started = time.perf_counter()


def parts_of(
    kernel: Any, given: Sequence[pa.Table], where: Any, plan: Any, partitions: int
) -> list[pa.Table]:
    """Split neighbouring blocks of an exchange by partition; `where` is their input, their first row and
    their number."""
    source, start, _ = where
    found: list[pa.Table] = kernel.split(joined(given), source, start, plan, partitions)
    return found


def merged(kernel: Any, parts: Sequence[pa.Table], extra: Any, plan: Any) -> Iterable[pa.Table]:
    """Merge a partition with a kernel; `extra` is its number and the number of parts of each input."""
    partition, counts = extra
    grouped: list[Sequence[pa.Table]] = []
    at = 0
    for count in counts:
        grouped.append(parts[at : at + count])
        at += count
    found: Iterable[pa.Table] = kernel.merge(grouped, partition, plan)
    return found


class MapActor:
    """An actor of a pool, which holds the instance of the user's class; see `actor_class`."""

    def __init__(self, key: str, steps: list[Any]) -> None:
        self._error: Exception | None = None
        for step in received(key, steps):
            udf = getattr(step, "udf", None)
            try:
                if udf is not None:
                    udf.load()
            except Exception as error:  # the user's class may raise anything; `ready` raises it with its type
                self._error = error
                return

    def ready(self) -> bool:
        """True once the user's class is constructed. Raises the error of its constructor."""
        if self._error is not None:
            raise self._error
        return True

    def submit(
        self,
        key: str,
        steps: list[Any],
        number: int,
        sources: list[Any],
        cuts: Sequence[Cut],
        *given: pa.Table,
    ) -> Iterator[Any]:
        """Run `chain` in this actor."""
        yield from chain(key, steps, number, sources, cuts, *given)

    def __repr__(self) -> str:
        return type(self).__name__


def actor_class(operator: str) -> type[MapActor]:
    """Return the class of the actors of an operator: its name, which lists of actors and errors show, names the operator."""
    return type(f"MapWorker({operator})", (MapActor,), {})
