"""Columns of several datasets side by side."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa

from skate.data.block import concat


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
                free = name
                number = 1
                while free in made:
                    free = f"{name}_{number}"
                    number += 1
                made[free] = table.column(name)
        yield pa.table(made)
