"""Private names of Ray's datasets that the documentation's programs use: builders of blocks, ranges of numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from skate.data.block import Batch, concat, from_batch, from_rows, size_of
from skate.data.source.ranges import RangeDatasource as Ranges


class DelegatingBlockBuilder:
    """Builds a block of rows, batches and blocks, in the order in which they are added."""

    def __init__(self) -> None:
        self._blocks: list[pa.Table] = []
        self._rows: list[Mapping[str, Any]] = []

    def add(self, item: Mapping[str, Any]) -> None:
        """Add a row. Raises TypeError for anything but a mapping of names to values."""
        if not isinstance(item, Mapping):
            raise TypeError(
                f"a row is a mapping of column names to values, got {type(item).__name__}: {item!r:.80}"
            )
        self._rows.append(item)

    def add_batch(self, batch: Batch) -> None:
        """Add the rows of a batch: a dict of arrays, a DataFrame or a pyarrow Table."""
        self.add_block(batch)

    def add_block(self, block: Batch) -> None:
        """Add the rows of a block: a pyarrow Table or a DataFrame."""
        self._end_rows()
        self._blocks.append(from_batch(block))

    def build(self, *, additional_blocks: Sequence[Any] = ()) -> pa.Table:
        """Return one block of all rows, those of `additional_blocks` last."""
        self._end_rows()
        return concat([*self._blocks, *map(from_batch, additional_blocks)])

    def num_rows(self) -> int:
        """Return the number of rows so far."""
        return int(sum(block.num_rows for block in self._blocks)) + len(self._rows)

    def get_estimated_memory_usage(self) -> int:
        """Return the bytes of the rows so far."""
        self._end_rows()
        return sum(map(size_of, self._blocks))

    def will_build_yield_copy(self) -> bool:
        """Return False if `build` returns the very block that was added."""
        return bool(self._rows) or len(self._blocks) != 1

    def _end_rows(self) -> None:
        if self._rows:
            self._blocks.append(from_rows(self._rows))
            self._rows = []


class RangeDatasource(Ranges):
    """The integers below `n`: in the column "value", or with block_format="tensor" as arrays in the column "data"."""

    def __init__(
        self,
        n: int,
        block_format: str = "arrow",
        tensor_shape: tuple[int, ...] = (1,),
        column_name: str | None = None,
    ) -> None:
        if block_format not in ("arrow", "tensor"):
            raise ValueError(f"block_format must be 'arrow' or 'tensor', got {block_format!r}")
        is_tensor = block_format == "tensor"
        super().__init__(
            n, column_name or ("data" if is_tensor else "value"), tensor_shape if is_tensor else None
        )


def is_null(value: object) -> bool:
    """Return True for None and NaN."""
    return value is None or bool(value != value)
