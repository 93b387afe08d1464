"""Columns of several datasets combined."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa

from skate.data.block import concat
from skate.data.block.names import free_name


class ZipStep:
    """Joins datasets column by column: `counts` is the number of input blocks of each dataset; all datasets have
    the same number of rows.
    """

    def __init__(self, counts: Sequence[int]) -> None:
        self.counts = counts

    def __call__(self, given: Iterable[pa.Table]) -> Iterator[pa.Table]:
        blocks = iter(given)
        made: dict[str, pa.ChunkedArray] = {}
        for count in self.counts:
            table = concat([next(blocks) for _ in range(count)])
            for name in table.column_names:
                made[free_name(name, made)] = table.column(name)
        yield pa.table(made)
