"""Access to a block for user code in datasources and datasinks: `BlockAccessor.for_block(block).to_pandas()`."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from skate.data.block import table as tables
from skate.data.block.column_accessor import BlockColumnAccessor
from skate.data.block.metadata import BlockExecStats, BlockMetadata, TaskExecWorkerStats
from skate.data.block.names import free_name, known

#: What a datasource may return as a block.
Block = Any


class BlockType(enum.Enum):
    """The library that a block belongs to."""

    ARROW = "arrow"
    PANDAS = "pandas"


class BlockAccessor:
    """The rows of a block in any form; operations return blocks of the kind that they were given."""

    def __init__(self, table: Any) -> None:
        self._given = table
        self._table = table if isinstance(table, pa.Table) else tables.from_batch(table)

    @staticmethod
    def for_block(block: Block) -> BlockAccessor:
        """Return an accessor for a table, a DataFrame or a dict of columns. Raises ValueError for anything else."""
        return BlockAccessor(block)

    @classmethod
    def batch_to_block(cls, batch: Any, block_type: BlockType | None = None) -> Block:
        """Build a block from a batch: a table, or a DataFrame on request."""
        return (
            cls.batch_to_pandas_block(batch)
            if block_type is BlockType.PANDAS
            else cls.batch_to_arrow_block(batch)
        )

    @classmethod
    def batch_to_arrow_block(cls, batch: Any) -> pa.Table:
        """A table from a batch."""
        return tables.from_batch(batch)

    @classmethod
    def batch_to_pandas_block(cls, batch: Any) -> Any:
        """A DataFrame from a batch."""
        return tables.to_pandas(tables.from_batch(batch))

    # -- facts

    def block_type(self) -> BlockType:
        """The library that the block belongs to."""
        return BlockType.PANDAS if hasattr(self._given, "iloc") else BlockType.ARROW

    def num_rows(self) -> int:
        """The number of rows in the block."""
        return int(self._table.num_rows)

    def size_bytes(self) -> int:
        """The size of the rows in bytes."""
        return tables.size_of(self._table)

    def schema(self) -> pa.Schema:
        """Names and types of the columns."""
        return self._table.schema

    def get_metadata(
        self,
        input_files: Sequence[str] | None = None,
        block_exec_stats: BlockExecStats | None = None,
        task_exec_stats: TaskExecWorkerStats | None = None,
    ) -> BlockMetadata:
        """Metadata of the block: rows, bytes, and the values given."""
        files = None if input_files is None else tuple(input_files)
        return BlockMetadata(self.num_rows(), self.size_bytes(), block_exec_stats, task_exec_stats, files)

    # -- the rows in other forms

    def to_block(self) -> Block:
        """The block itself, unconverted."""
        return self._given

    def to_arrow(self) -> pa.Table:
        """The rows as a `pyarrow.Table`."""
        return self._table

    def to_default(self) -> Any:
        """The rows as a pandas DataFrame."""
        return self.to_pandas()

    def to_pandas(self) -> Any:
        """The rows as a DataFrame."""
        return self._given if hasattr(self._given, "iloc") else tables.to_pandas(self._table)

    def to_numpy(self, columns: str | Sequence[str] | None = None) -> Any:
        """The columns as a dict of arrays; one array if a single name is given."""
        if isinstance(columns, str):
            return tables.to_batch(self._table.select([columns]), "numpy")[columns]
        chosen = self._table if columns is None else self._table.select(list(columns))
        return tables.to_batch(chosen, "numpy")

    def to_batch_format(self, batch_format: str | None) -> Any:
        """The rows as a batch in a format. None is the block itself; "default" and "native" are a DataFrame here."""
        if batch_format is None:
            return self._given
        if batch_format in ("default", "native", "pandas"):
            return self.to_pandas()
        if batch_format not in ("pyarrow", "numpy"):
            raise ValueError(
                "The batch format must be one of ['pandas', 'pyarrow', 'numpy', 'cudf', None], "
                f"got: {batch_format}"
            )
        return tables.to_batch(self._table, batch_format)

    def iter_rows(self, public_row_format: bool = True) -> Iterator[dict[str, Any]]:
        """Iterate over the rows as dicts."""
        return tables.rows_of(self._table)

    # -- derived blocks

    def _back(self, table: pa.Table) -> Block:
        """Convert a table to the kind of block that was given."""
        return tables.to_pandas(table) if self.block_type() is BlockType.PANDAS else table

    def slice(self, start: int, end: int, copy: bool = False) -> Block:
        """The rows from `start` to before `end`."""
        found = self._table.slice(start, end - start)
        return self._back(tables.compact(found) if copy else found)

    def take(self, indices: Sequence[int]) -> Block:
        """The rows at the given positions."""
        return self._back(self._table.take(pa.array(indices, pa.int64())))

    def random_shuffle(self, random_seed: int | None) -> Block:
        """The rows in random order; the same seed gives the same order."""
        return self.take(np.random.RandomState(random_seed).permutation(self.num_rows()).tolist())

    def select(self, columns: str | Sequence[str]) -> Block:
        """Select columns. Raises ValueError for anything that is not a name."""
        names = [columns] if isinstance(columns, str) else list(columns)
        if not all(isinstance(each, str) for each in names):
            raise ValueError(f"Columns must be a list of column name strings, but got: {columns}")
        return self._back(self._table.select(names))

    def drop(self, columns: Sequence[str]) -> Block:
        """Drop columns."""
        return self._back(self._table.drop_columns(list(columns)))

    def rename_columns(self, columns_rename: dict[str, str]) -> Block:
        """Rename columns."""
        names = [columns_rename.get(name, name) for name in self._table.column_names]
        return self._back(self._table.rename_columns(names))

    def upsert_column(self, column_name: str, column_data: Any) -> Block:
        """Add a column, or replace the one of that name."""
        made = tables.from_batch({column_name: column_data}).column(0)
        if column_name in self._table.column_names:
            at = self._table.column_names.index(column_name)
            return self._back(self._table.set_column(at, column_name, made))
        return self._back(self._table.append_column(column_name, made))

    def zip(self, other: Block) -> Block:
        """The columns of this block and of another with the same number of rows; a duplicate name gets a number."""
        found = BlockAccessor.for_block(other).to_arrow()
        if found.num_rows != self.num_rows():
            raise ValueError(
                f"Cannot zip self (length {self.num_rows()}) with block of length {found.num_rows}"
            )
        table = self._table
        for name, column in zip(found.column_names, found.columns, strict=True):
            table = table.append_column(free_name(name, table.column_names), column)
        return self._back(table)

    # -- aggregates of a column

    def _of(self, on: str) -> BlockColumnAccessor:
        return BlockColumnAccessor(self._table.column(known(self._table.column_names, on)))

    def count(self, on: str, ignore_nulls: bool = False) -> int | None:
        """The number of rows, or of values if nulls are ignored."""
        found: int | None = self._of(on).count(ignore_nulls=ignore_nulls)
        return found

    def sum(self, on: str, ignore_nulls: bool) -> Any:
        """The sum of a column."""
        return self._of(on).sum(ignore_nulls=ignore_nulls)

    def min(self, on: str, ignore_nulls: bool) -> Any:
        """The smallest value of a column."""
        return self._of(on).min(ignore_nulls=ignore_nulls)

    def max(self, on: str, ignore_nulls: bool) -> Any:
        """The largest value of a column."""
        return self._of(on).max(ignore_nulls=ignore_nulls)

    def mean(self, on: str, ignore_nulls: bool) -> Any:
        """The mean of a column."""
        return self._of(on).mean(ignore_nulls=ignore_nulls)

    def sum_of_squared_diffs_from_mean(self, on: str, ignore_nulls: bool, mean: float | None = None) -> Any:
        """The sum of squared differences from the mean of a column, or from `mean` if given."""
        return self._of(on).sum_of_squared_diffs_from_mean(ignore_nulls=ignore_nulls, mean=mean)
