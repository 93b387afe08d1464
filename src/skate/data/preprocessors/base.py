"""Base of preprocessors that map one column to one column: numeric conversion, setting columns, counting values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skate.data.block.names import known
from skate.data.preprocessor import Preprocessor, is_list

if TYPE_CHECKING:
    from skate.data.dataset import Dataset


class ColumnPreprocessor(Preprocessor):
    """Base of preprocessors that convert each of `columns` separately, into the output column at the same position."""

    _result_form = "pandas"
    _shown: ClassVar[tuple[str, ...]] = ("columns", "output_columns")

    def __init__(self, columns: Sequence[str], output_columns: Sequence[str] | None = None) -> None:
        self.columns = list(columns)
        self.output_columns = self._derive_and_validate_output_columns(columns, output_columns)

    def _transform_arrow(self, table: pa.Table) -> pa.Table:
        made = [
            (new, self._column(name, table.column(known(table.column_names, name))))
            for name, new in zip(self.columns, self.output_columns, strict=True)
        ]
        for new, column in made:
            table = put(table, new, column)
        return table

    def _column(self, name: str, column: pa.ChunkedArray) -> Any:
        """Return the converted values of one column."""
        raise NotImplementedError


def put(table: pa.Table, name: str, column: Any) -> pa.Table:
    """Set or add a column of a block."""
    if name in table.column_names:
        return table.set_column(table.column_names.index(name), name, column)
    return table.append_column(name, column)


def numbers(name: str, column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Convert a column to doubles; nulls stay null. Raises TypeError if the values are not numbers."""
    kind = column.type
    if not (
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_decimal(kind)
    ):
        if not pa.types.is_null(kind):
            raise TypeError(f"column {name!r} must contain numbers, but its values are {kind}")
    return column.cast(pa.float64())


def counts_of(ds: Dataset, columns: Sequence[str], inside_lists: bool = True) -> dict[str, dict[Any, int]]:
    """Count the values of some columns in one pass. Values inside lists count individually, unless lists are values.

    Null counts as None.
    """
    counted = _CountBlock(list(columns), inside_lists)
    found: dict[str, dict[Any, int]] = {name: {} for name in columns}
    for table in ds.map_batches(counted, batch_format="pyarrow", batch_size=None)._tables():
        for row in table.to_pylist():
            into = found[columns[row["column"]]]
            for value, count in _pairs(row):
                into[value] = into.get(value, 0) + count
    return found


class _CountBlock:
    """Count the values of each column of a block: one row per column, with pickled pairs."""

    __name__ = "count_values"

    def __init__(self, columns: list[str], inside_lists: bool) -> None:
        self.columns = columns
        self.inside_lists = inside_lists

    def __call__(self, table: pa.Table) -> pa.Table:
        from skate import cloudpickle  # the values of a column may be of any type

        pairs = []
        for name in self.columns:
            column = table.column(known(table.column_names, name))
            pairs.append(cloudpickle.dumps(_counted(column, self.inside_lists)))
        return pa.table({"column": list(range(len(pairs))), "pairs": pa.array(pairs, pa.large_binary())})


def _pairs(row: dict[str, Any]) -> list[tuple[Any, int]]:
    import pickle  # written by _CountBlock

    found: list[tuple[Any, int]] = pickle.loads(row["pairs"])
    return found


def _counted(column: pa.ChunkedArray, inside_lists: bool) -> list[tuple[Any, int]]:
    if is_list(column.type) and inside_lists:
        column = pc.list_flatten(column)
    if pa.types.is_dictionary(column.type):
        column = pa.chunked_array([chunk.cast(column.type.value_type) for chunk in column.chunks])
    if pa.types.is_nested(column.type) or isinstance(column.type, pa.BaseExtensionType):
        counts: dict[Any, int] = {}
        for value in column.to_pylist():
            key = hashable(value)
            counts[key] = counts.get(key, 0) + 1
        return list(counts.items())
    tallied = pc.value_counts(column)
    return list(zip(tallied.field("values").to_pylist(), tallied.field("counts").to_pylist(), strict=True))


def lists_of(numbers: np.ndarray) -> pa.ListArray:
    """Return the rows of a two-dimensional array as lists."""
    rows, width = numbers.shape
    return pa.ListArray.from_arrays(np.arange(rows + 1, dtype=np.int32) * width, numbers.ravel())


def hashable(value: Any) -> Any:
    """Convert a list to a tuple, so that it can be a category."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    return tuple(hashable(each) for each in value) if isinstance(value, list) else value
