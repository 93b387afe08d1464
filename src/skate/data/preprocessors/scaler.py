"""Scaling of numbers, column by column. Nulls stay null; a constant column becomes 0."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from skate.data.aggregate import Max, Mean, Min, Quantile, Std
from skate.data.preprocessor import Preprocessor
from skate.data.preprocessors.base import ColumnPreprocessor, numbers

if TYPE_CHECKING:
    from skate.data.dataset import Dataset


#: A column that varies by less than this counts as constant, as in Ray: the rest is rounding.
CONSTANT_BELOW = 1e-8


class _Scaler(ColumnPreprocessor):
    def fit(self, ds: Dataset) -> Preprocessor:
        """Fit to a dataset, which runs. Raises TypeError for columns that are not numeric."""
        schema = ds.schema()
        kinds = {} if schema is None else dict(zip(schema.names, schema.types, strict=True))
        for name in self.columns:
            if name in kinds:
                numbers(name, pa.chunked_array([], kinds[name]))
        return super().fit(ds)

    def _bounds(self, name: str) -> tuple[Any, Any]:
        """Return the number to subtract from each value and the number to divide the result by."""
        raise NotImplementedError

    def _column(self, name: str, column: pa.ChunkedArray) -> Any:
        middle, width = self._bounds(name)
        values = numbers(name, column)
        if middle is None or width is None or middle != middle:  # the column had only nulls
            return pa.nulls(len(values), pa.float64())
        return pc.divide(pc.subtract(values, float(middle)), float(width) or 1.0)


def _or_one(width: float | None) -> float | None:
    """Return the divisor: 1 for a constant column."""
    return 1.0 if width is not None and width < CONSTANT_BELOW else width


class StandardScaler(_Scaler):
    """Scales to mean 0 and standard deviation 1 (of the population, without correction)."""

    _result_form = "arrow"

    def _fit(self, ds: Dataset) -> Preprocessor:
        wanted = [Mean(name) for name in self.columns] + [Std(name, ddof=0) for name in self.columns]
        self.stats_ = ds._figures(*wanted)
        return self

    def _bounds(self, name: str) -> tuple[Any, Any]:
        return self.stats_[f"mean({name})"], _or_one(self.stats_[f"std({name})"])


class MinMaxScaler(_Scaler):
    """Scales to the range from 0 (smallest value) to 1 (largest value)."""

    def _fit(self, ds: Dataset) -> Preprocessor:
        self.stats_ = ds._figures(*(kind(name) for kind in (Min, Max) for name in self.columns))
        return self

    def _bounds(self, name: str) -> tuple[Any, Any]:
        low, high = self.stats_[f"min({name})"], self.stats_[f"max({name})"]
        return low, None if low is None else _or_one(high - low)


class MaxAbsScaler(_Scaler):
    """Divides by the largest absolute value."""

    def _fit(self, ds: Dataset) -> Preprocessor:
        ends = ds._figures(*(kind(name) for kind in (Min, Max) for name in self.columns))
        self.stats_ = {}
        for name in self.columns:
            low, high = ends[f"min({name})"], ends[f"max({name})"]
            self.stats_[f"abs_max({name})"] = None if low is None else max(abs(low), abs(high))
        return self

    def _bounds(self, name: str) -> tuple[Any, Any]:
        return 0.0, self.stats_[f"abs_max({name})"]


class RobustScaler(_Scaler):
    """Scales to median 0 and a distance of 1 between two quantiles.

    Args:
        columns: the columns to scale.
        quantile_range: the two quantiles.
        output_columns: names of the results, those of `columns` by default.
        quantile_precision: taken for compatibility; quantiles are exact.
    """

    DEFAULT_QUANTILE_PRECISION = 800
    _shown = ("columns", "quantile_range", "output_columns")

    def __init__(
        self,
        columns: Sequence[str],
        quantile_range: tuple[float, float] = (0.25, 0.75),
        output_columns: Sequence[str] | None = None,
        quantile_precision: int = DEFAULT_QUANTILE_PRECISION,
    ) -> None:
        super().__init__(columns, output_columns)
        low, high = quantile_range
        if not 0 <= low < high <= 1:
            raise ValueError(
                f"quantile_range must be two quantiles between 0 and 1, the smaller first, got {quantile_range!r}"
            )
        self.quantile_range = (low, high)
        self.quantile_precision = quantile_precision

    def _fit(self, ds: Dataset) -> Preprocessor:
        low, high = self.quantile_range
        words = (("low_quantile", low), ("median", 0.5), ("high_quantile", high))
        self.stats_ = ds._figures(
            *(Quantile(name, q=q, alias_name=f"{word}({name})") for name in self.columns for word, q in words)
        )
        return self

    def _bounds(self, name: str) -> tuple[Any, Any]:
        low, high = self.stats_[f"low_quantile({name})"], self.stats_[f"high_quantile({name})"]
        return self.stats_[f"median({name})"], None if low is None else high - low
