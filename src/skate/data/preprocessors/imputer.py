"""Imputation of missing values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from skate.data.aggregate import Mean
from skate.data.preprocessor import Preprocessor
from skate.data.preprocessors.base import ColumnPreprocessor, counts_of, numbers, put

if TYPE_CHECKING:
    from skate.data.dataset import Dataset

_STRATEGIES = ("mean", "most_frequent", "constant")


class SimpleImputer(ColumnPreprocessor):
    """Fills missing values (null or NaN) with the column's "mean", its "most_frequent" value, or a "constant".

    Of several equally frequent values the first one counts. A batch without the column gets it, filled with the value.
    """

    _shown = ("columns", "strategy", "fill_value", "output_columns")

    def __init__(
        self,
        columns: Sequence[str],
        strategy: str = "mean",
        fill_value: Any = None,
        *,
        output_columns: Sequence[str] | None = None,
    ) -> None:
        super().__init__(columns, output_columns)
        if strategy not in _STRATEGIES:
            raise ValueError(f"strategy must be one of {', '.join(map(repr, _STRATEGIES))}, got {strategy!r}")
        if strategy == "constant":
            self._is_fittable = False
            if fill_value is None:
                raise ValueError("strategy='constant' needs fill_value, the value to fill in")
        self.strategy = strategy
        self.fill_value = fill_value

    def _fit(self, ds: Dataset) -> Preprocessor:
        if self.strategy == "mean":
            self.stats_ = ds._figures(*(Mean(name) for name in self.columns))
            return self
        counts = counts_of(ds, self.columns)
        self.stats_ = {}
        for name in self.columns:
            present = {
                value: count for value, count in counts[name].items() if value is not None and value == value
            }
            best = max(present, key=present.__getitem__) if present else None
            self.stats_[f"most_frequent({name})"] = best
        return self

    def _transform_arrow(self, table: pa.Table) -> pa.Table:
        for name, new in zip(self.columns, self.output_columns, strict=True):
            if name in table.column_names:
                made = self._column(name, table.column(name))
            else:
                made = pa.repeat(pa.scalar(self._value(name)), len(table))
            table = put(table, new, made)
        return table

    def _value(self, name: str) -> Any:
        value = self.fill_value if self.strategy == "constant" else self.stats_[f"{self.strategy}({name})"]
        if value is None or value != value:
            raise ValueError(
                f"column {name!r} had no values when it was fitted, so there is no value to fill in"
            )
        return value

    def _column(self, name: str, column: pa.ChunkedArray) -> Any:
        value = self._value(name)
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        if pa.types.is_null(column.type):
            column = column.cast(pa.scalar(value).type)
        if pa.types.is_floating(column.type):
            column = pc.if_else(pc.is_nan(column), pa.scalar(None, column.type), column)
        if isinstance(value, float) and pa.types.is_integer(column.type) and column.null_count:
            column = numbers(name, column)
        if not column.null_count:
            return column
        try:
            return pc.fill_null(column, pa.scalar(value, column.type))
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
            raise TypeError(
                f"{value!r} cannot be filled into column {name!r} of {column.type}: {error}"
            ) from None
