"""Blocks to a datasink; what comes out is one row with what the writer returned."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from skate.data.block import from_rows
from skate.data.source.datasink import TaskContext


class WriteStep:
    """Has a datasink write the blocks of one task."""

    def __init__(self, datasink: Any) -> None:
        self.datasink = datasink

    def __call__(self, given: Iterable[pa.Table]) -> Iterator[pa.Table]:
        counted = [0, 0]

        def passing() -> Iterator[pa.Table]:
            for table in given:
                counted[0] += table.num_rows
                counted[1] += table.nbytes
                yield table

        result = self.datasink.write(passing(), TaskContext.new())
        yield from_rows([{"result": _Opaque(result), "rows": counted[0], "bytes": counted[1]}])


class _Opaque:
    """What a writer returned, kept as it is."""

    def __init__(self, value: Any) -> None:
        self.value = value
