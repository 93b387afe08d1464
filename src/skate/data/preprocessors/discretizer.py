"""Conversion of numbers to bin indices. Values outside all bins become null."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from skate.data.aggregate import Max, Min
from skate.data.block import columns as values_of
from skate.data.preprocessor import Preprocessor
from skate.data.preprocessors.base import ColumnPreprocessor, numbers

if TYPE_CHECKING:
    from skate.data.dataset import Dataset

#: How far below the smallest value the first bin begins, as a fraction of the range, so that the bin includes it.
_MARGIN = 0.001


class _Discretizer(ColumnPreprocessor):
    _shown = ("columns", "bins", "right", "include_lowest", "duplicates", "dtypes", "output_columns")
    bins: Any

    def __init__(
        self,
        columns: Sequence[str],
        bins: Any,
        *,
        right: bool = True,
        include_lowest: bool = False,
        duplicates: str = "raise",
        dtypes: Mapping[str, Any] | None = None,
        output_columns: Sequence[str] | None = None,
    ) -> None:
        super().__init__(columns, output_columns)
        if duplicates not in ("raise", "drop"):
            raise ValueError(f"duplicates must be 'raise' or 'drop', got {duplicates!r}")
        self.bins = bins
        self.right = right
        self.include_lowest = include_lowest
        self.duplicates = duplicates
        self.dtypes = None if dtypes is None else dict(dtypes)
        if isinstance(bins, Mapping):
            absent = [name for name in columns if name not in bins]
            if absent:
                raise ValueError(
                    f"bins has none for column {absent[0]!r}; give bins for each of the columns, or one for all"
                )

    def _edges(self, name: str) -> Any:
        raise NotImplementedError

    def _column(self, name: str, column: pa.ChunkedArray) -> Any:
        import pandas as pd  # 300 ms that only these classes need

        kind = (self.dtypes or {}).get(name)
        categories = kind if isinstance(kind, pd.CategoricalDtype) else None
        values = pd.Series(numbers(name, column).to_numpy())
        edges = self._edges(name)
        found = pd.cut(
            values,
            edges if isinstance(edges, pd.IntervalIndex) else list(edges),
            right=self.right,
            labels=False if categories is None else list(categories.categories),
            include_lowest=self.include_lowest,
            duplicates=self.duplicates,
            ordered=True if categories is None else bool(categories.ordered),
        )
        if categories is not None:
            return values_of.from_series(found)
        if isinstance(found.dtype, pd.CategoricalDtype):  # of an IntervalIndex: the number of the interval
            found = pd.Series(np.where(found.cat.codes < 0, np.nan, found.cat.codes))
        whole = pa.array(found.to_numpy(float), from_pandas=True).cast(pa.int64())
        return whole if kind is None else whole.cast(pa.from_numpy_dtype(kind))


class CustomKBinsDiscretizer(_Discretizer):
    """Bins with given edges: a list of edges or a pandas.IntervalIndex, for all columns or by column.

    Args:
        columns: the columns.
        bins: the edges.
        right: True if bins include their right edge instead of their left one.
        include_lowest: True if the first bin also includes its left edge.
        duplicates: "raise" for edges given twice, or "drop" them.
        dtypes: by column a pandas.CategoricalDtype with a name for each bin, or a numpy integer type.
        output_columns: names of the results, those of `columns` by default.
    """

    _is_fittable = False

    def _edges(self, name: str) -> Any:
        return self.bins[name] if isinstance(self.bins, Mapping) else self.bins


class UniformKBinsDiscretizer(_Discretizer):
    """Bins of equal width between a column's smallest and largest value: `bins` is their number, or a dict by column.

    The other arguments are those of `CustomKBinsDiscretizer`.
    """

    def _fit(self, ds: Dataset) -> Preprocessor:
        ends = ds._figures(*(kind(name) for kind in (Min, Max) for name in self.columns))
        self.stats_ = {name: self._uniform(name, ends) for name in self.columns}
        return self

    def _uniform(self, name: str, ends: dict[str, Any]) -> Any:
        count = self.bins[name] if isinstance(self.bins, Mapping) else self.bins
        if not isinstance(count, int) or isinstance(count, bool) or count < 1:
            kind = ValueError if isinstance(count, int) else TypeError
            raise kind(
                f"bins of UniformKBinsDiscretizer must be a number >= 1, or a dict by column, got {self.bins!r}"
            )
        low, high = ends[f"min({name})"], ends[f"max({name})"]
        if low is None:
            raise ValueError(f"column {name!r} has no values to compute bins from")
        if low == high:
            margin = _MARGIN * abs(low) if low else _MARGIN
            return np.linspace(low - margin, high + margin, count + 1)
        edges = np.linspace(low, high, count + 1)
        margin = (high - low) * _MARGIN
        if self.right:
            edges[0] -= margin
        else:
            edges[-1] += margin
        return edges

    def _edges(self, name: str) -> Any:
        return self.stats_[name]
