"""Blocks of a sensible size: large ones cut, small ones joined."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from skate.data import block as blocks
from skate.data.block.batcher import batches_of

#: A block may be this many times the wanted size before it is cut.
_SLACK = 1.5
#: The first block of a piece of work has at most about this many bytes, so that its consumer need not wait long.
_FIRST_BYTES = 16 << 20


class SizeStep:
    """Joins blocks up to `most` bytes and cuts larger ones; yields at least one block if there was any input."""

    def __init__(self, most: int) -> None:
        self.most = most

    def __call__(self, given: Iterable[pa.Table]) -> Iterator[pa.Table]:
        waiting: list[pa.Table] = []
        size, wanted = 0, min(self.most, _FIRST_BYTES)
        for table in given:
            bytes_in = blocks.size_of(table)
            if bytes_in > self.most * _SLACK:
                if waiting:
                    yield blocks.concat(waiting)
                    waiting, size = [], 0
                yield from _cut(table, bytes_in, self.most)
                continue
            waiting.append(table)
            size += bytes_in
            if size >= wanted:
                yield blocks.concat(waiting)
                waiting, size, wanted = [], 0, self.most
        if waiting:
            yield blocks.concat(waiting)


def _cut(table: pa.Table, size: int, most: int) -> Iterator[pa.Table]:
    pieces = -(-size // most)
    rows = max(1, -(-table.num_rows // pieces))
    for at in range(0, table.num_rows, rows):
        yield table.slice(at, rows)


class SplitStep:
    """Cuts each block into `parts` blocks with about as many rows, or into single rows if there are fewer."""

    def __init__(self, parts: int) -> None:
        self.parts = parts

    def __call__(self, given: Iterable[pa.Table]) -> Iterator[pa.Table]:
        for table in given:
            rows = table.num_rows
            count = max(1, min(self.parts, rows))
            for part in range(count):
                first = rows * part // count
                yield table.slice(first, rows * (part + 1) // count - first)


class RebatchStep:
    """A step that makes blocks of a given number of rows."""

    def __init__(self, rows: int) -> None:
        self.rows = rows

    def __call__(self, given: Iterable[pa.Table]) -> Iterator[pa.Table]:
        return batches_of(given, self.rows)
