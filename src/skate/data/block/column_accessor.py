"""Access to a column for user code in aggregations:
`BlockColumnAccessor.for_column(block["x"]).sum(ignore_nulls=True)`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skate.data.block import columns


class BlockColumnAccessor:
    """Aggregates of a column, an Arrow array or a pandas Series.

    `ignore_nulls=False` makes the result null where the column has one; `as_py=False` gives an Arrow scalar.
    """

    def __init__(self, col: Any) -> None:
        self._column = col if isinstance(col, (pa.Array, pa.ChunkedArray)) else columns.from_series(col)
        self._series = None if self._column is col else col

    @staticmethod
    def for_column(col: Any) -> BlockColumnAccessor:
        """Return an accessor for a column. Raises TypeError for anything but an Arrow array or a pandas Series."""
        is_series = type(col).__module__.startswith("pandas") and type(col).__name__ == "Series"
        if not is_series and not isinstance(col, (pa.Array, pa.ChunkedArray)):
            raise TypeError(
                f"Expected either a pandas.Series or pyarrow.Array (ChunkedArray) (got {type(col)})"
            )
        return BlockColumnAccessor(col)

    def _back(self, column: Any) -> Any:
        """The column in its original form."""
        return column if self._series is None else column.to_pandas()

    def count(self, *, ignore_nulls: bool, as_py: bool = True) -> Any:
        """The number of values, or of all rows unless nulls are ignored."""
        return _scalar(pc.count(self._column, mode="only_valid" if ignore_nulls else "all"), as_py)

    def sum(self, *, ignore_nulls: bool, as_py: bool = True) -> Any:
        """The sum of the values."""
        return _scalar(pc.sum(self._column, skip_nulls=ignore_nulls), as_py)

    def min(self, *, ignore_nulls: bool, as_py: bool = True) -> Any:
        """The smallest value."""
        return _scalar(pc.min(self._column, skip_nulls=ignore_nulls), as_py)

    def max(self, *, ignore_nulls: bool, as_py: bool = True) -> Any:
        """The largest value."""
        return _scalar(pc.max(self._column, skip_nulls=ignore_nulls), as_py)

    def mean(self, *, ignore_nulls: bool, as_py: bool = True) -> Any:
        """The mean of the values."""
        return _scalar(pc.mean(self._column, skip_nulls=ignore_nulls), as_py)

    def quantile(self, *, q: float, ignore_nulls: bool, as_py: bool = True) -> Any:
        """The `q` quantile (0 to 1) of the values."""
        return _scalar(pc.quantile(self._column, q=q, skip_nulls=ignore_nulls)[0], as_py)

    def sum_of_squared_diffs_from_mean(
        self, *, ignore_nulls: bool, mean: float | None = None, as_py: bool = True
    ) -> Any:
        """The sum of squared differences from the mean, or from `mean` if given."""
        middle = self.mean(ignore_nulls=ignore_nulls) if mean is None else mean
        if middle is None:
            return None
        apart = pc.subtract(pc.cast(self._column, pa.float64()), float(middle))
        return _scalar(pc.sum(pc.multiply(apart, apart), skip_nulls=ignore_nulls), as_py)

    def unique(self) -> Any:
        """The distinct values, in order of first appearance."""
        return self._back(pc.unique(self._column))

    def value_counts(self) -> dict[str, list[Any]] | None:
        """The distinct values and how often each occurs: {"values": [...], "counts": [...]}; None without rows."""
        found = pc.value_counts(self._column)
        if not len(found):
            return None
        return {"values": found.field(0).to_pylist(), "counts": found.field(1).to_pylist()}

    def flatten(self) -> Any:
        """The elements of all lists in one column; a Series without lists is returned unchanged."""
        if self._series is not None and not self.is_composed_of_lists():
            return self._series
        return self._back(pc.list_flatten(self._column))

    def dropna(self) -> Any:
        """The values without nulls."""
        return self._back(pc.drop_null(self._column))

    def is_composed_of_lists(self) -> bool:
        """Return True if the values are lists."""
        kind = self._column.type
        return bool(
            pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
        )

    def to_pylist(self) -> list[Any]:
        """The values as Python objects."""
        return list(self._column.to_pylist())

    def to_numpy(self, zero_copy_only: bool = False) -> np.ndarray:
        """The values as an array. Raises pyarrow.ArrowInvalid if that requires a copy and copies are not allowed."""
        # the underlying method does not accept zero_copy_only=True
        if isinstance(self._column, pa.ChunkedArray):
            return np.asarray(self._column.to_numpy())
        return np.asarray(self._column.to_numpy(zero_copy_only=zero_copy_only))


def _scalar(found: Any, as_py: bool) -> Any:
    return found.as_py() if as_py else found
