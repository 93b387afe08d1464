"""A block as user code of datasources and datasinks handles it: `BlockAccessor.for_block(block).to_pandas()`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from skate.data.block import table as tables

#: What a datasource may give for a block.
Block = Any


class BlockAccessor:
    """Converts the rows of a block into other formats."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    @staticmethod
    def for_block(block: Block) -> BlockAccessor:
        """An accessor of a table, a DataFrame or a dict of columns. Raises ValueError for anything else."""
        return BlockAccessor(tables.from_batch(block))

    @staticmethod
    def batch_to_block(batch: Any, block_type: Any = None) -> pa.Table:
        """Convert a batch into a block."""
        return tables.from_batch(batch)

    def num_rows(self) -> int:
        """The number of rows in the block."""
        return int(self._table.num_rows)

    def size_bytes(self) -> int:
        """The size of the rows in bytes."""
        return tables.size_of(self._table)

    def schema(self) -> pa.Schema:
        """Names and types of the columns."""
        return self._table.schema

    def to_block(self) -> pa.Table:
        """The block itself, a `pyarrow.Table`."""
        return self._table

    def to_arrow(self) -> pa.Table:
        """The rows as a `pyarrow.Table`."""
        return self._table

    def to_default(self) -> Any:
        """The rows as a pandas DataFrame."""
        return self.to_pandas()

    def to_pandas(self) -> Any:
        """The rows as a pandas DataFrame."""
        return tables.to_pandas(self._table)

    def to_numpy(self, columns: str | Sequence[str] | None = None) -> Any:
        """The columns as a dict of arrays; one array if a single name is given."""
        if isinstance(columns, str):
            return tables.to_batch(self._table.select([columns]), "numpy")[columns]
        chosen = self._table if columns is None else self._table.select(list(columns))
        return tables.to_batch(chosen, "numpy")

    def to_batch_format(self, batch_format: str | None) -> Any:
        """The rows as a batch of a format; "default" and "native" are a DataFrame here."""
        return tables.to_batch(
            self._table, "pandas" if batch_format in ("default", "native") else batch_format
        )

    def iter_rows(self, public_row_format: bool = True) -> Iterator[dict[str, Any]]:
        """Iterate over the rows as dicts."""
        return tables.rows_of(self._table)

    def slice(self, start: int, end: int, copy: bool = False) -> pa.Table:
        """The rows from `start` to before `end`."""
        found = self._table.slice(start, end - start)
        return tables.compact(found) if copy else found

    def take(self, indices: Sequence[int]) -> pa.Table:
        """The rows at the given positions."""
        return self._table.take(pa.array(indices, pa.int64()))

    def select(self, columns: Sequence[str]) -> pa.Table:
        """The block with only the given columns."""
        return self._table.select(list(columns))

    def rename_columns(self, names: dict[str, str]) -> pa.Table:
        """The block with columns renamed by a dict of old to new names."""
        return self._table.rename_columns([names.get(name, name) for name in self._table.column_names])
