"""Small batches that the loop finishes itself, because handing them over one by one takes longer than finishing them."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import Any

import pyarrow as pa

from skate.data.block.columns import NUMBERS

#: A batch of more bytes is finished in the background: copying it takes longer than the change of threads.
QUICK_BYTES_MAX = 1 << 18


class BatchGroup:
    """Tables of a few batches, cut from one block."""

    __slots__ = ("tables",)

    def __init__(self, tables: list[pa.Table]) -> None:
        self.tables = tables

    @staticmethod
    def pays_for(table: pa.Table) -> bool:
        """Return True if a batch has only few numbers."""
        row_bits = 0
        for field in table.schema:
            if field.type.id not in NUMBERS:
                return False
            row_bits += field.type.bit_width
        return bool(row_bits * table.num_rows <= QUICK_BYTES_MAX * 8)


def finished(flow: Iterator[Any], finish: Callable[[pa.Table], Any]) -> Generator[Any]:
    """Yield batches that come one by one, and finish those that come as groups."""
    try:
        for value in flow:
            if type(value) is BatchGroup:
                waiting = value.tables[::-1]
                del value  # its tables keep a block alive
                while waiting:
                    yield finish(waiting.pop())
            else:
                yield value
                del value  # it may be large
    finally:
        close = getattr(flow, "close", None)
        if close is not None:
            close()
