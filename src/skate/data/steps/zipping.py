"""Columns of several datasets side by side."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa

from skate.data.block import concat


class ZipStep:
    """`cuts` says, by dataset, which rows of which of its blocks are wanted: (from row, rows)."""

    def __init__(self, cuts: Sequence[Sequence[tuple[int, int]]]) -> None:
        self.cuts = cuts

    def __call__(self, given: Iterable[pa.Table]) -> Iterator[pa.Table]:
        blocks = iter(given)
        made: dict[str, pa.ChunkedArray] = {}
        for cuts in self.cuts:
            table = concat([next(blocks).slice(at, rows) for at, rows in cuts])
            for name in table.column_names:
                free = name
                number = 1
                while free in made:
                    free = f"{name}_{number}"
                    number += 1
                made[free] = table.column(name)
        yield pa.table(made)
