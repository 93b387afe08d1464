"""Encoding of categories as numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skate.data.block import columns as values_of
from skate.data.block.names import known
from skate.data.expressions.namespaces.lists import list_over
from skate.data.preprocessor import Preprocessor, is_list
from skate.data.preprocessors.base import ColumnPreprocessor, counts_of, hashable, lists_of, put

if TYPE_CHECKING:
    from skate.data.dataset import Dataset

Index = dict[Any, int]


def fitted(
    ds: Dataset,
    columns: Sequence[str],
    most: Mapping[str, int] | None = None,
    inside_lists: bool = True,
) -> dict[str, Index]:
    """Number the distinct values of columns in sorted order; with `most`, only the most frequent ones.

    Raises ValueError for values without an order, and for nulls.
    """
    for name in most or {}:
        if name not in columns:
            raise ValueError(
                f"max_categories names {name!r}, which is not one of the columns {', '.join(columns)}"
            )
    found: dict[str, Index] = {}
    for name, counts in counts_of(ds, columns, inside_lists).items():
        missing = [value for value in counts if value is None or value != value]
        if missing:
            raise ValueError(
                f"column {name!r} has nulls, which are not a category; fill them first, for example with SimpleImputer"
            )
        kept = list(counts)
        if most and name in most:  # of equally frequent ones the first
            kept = [value for value, _ in Counter(counts).most_common(most[name])]
        try:
            found[name] = {value: at for at, value in enumerate(sorted(kept))}
        except TypeError as error:
            raise ValueError(
                f"the values of column {name!r} have no order, so they cannot be encoded: {error}"
            ) from None
    return found


def numbered(column: pa.ChunkedArray, index: Index) -> pa.ChunkedArray:
    """Return the number of each value, null for unknown values."""
    if pa.types.is_dictionary(column.type):
        column = pa.chunked_array(
            [chunk.cast(column.type.value_type) for chunk in column.chunks], column.type.value_type
        )
    plain = not (pa.types.is_nested(column.type) or isinstance(column.type, pa.BaseExtensionType))
    if plain and index:
        try:
            known_values = pa.array(list(index)).cast(column.type)
            found = pc.index_in(column, value_set=known_values)
            return found.cast(pa.int64())
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
            pass  # of a different type than the fitted values: compared as in Python
    made = [index.get(hashable(value)) for value in column.to_pylist()]
    return pa.chunked_array([pa.array(made, pa.int64())])


class _Encoder(ColumnPreprocessor):
    def _transform_arrow(self, table: pa.Table) -> pa.Table:
        given = [known(table.column_names, name) for name in self.columns]
        missing = [name for name in given if _has_missing(table.column(name))]
        if missing:
            raise ValueError(
                f"Unable to transform columns {missing} because they contain null values, which are not a category; "
                f"fill them first, for example with SimpleImputer"
            )
        return super()._transform_arrow(table)

    def _index(self, name: str) -> Index:
        found: Index = self.stats_[f"unique_values({name})"]
        return found

    def _learn(self, found: dict[str, Index]) -> Preprocessor:
        self.stats_ = {f"unique_values({name})": index for name, index in found.items()}
        return self


def _has_missing(column: pa.ChunkedArray) -> bool:
    """True if a column has a null or a NaN."""
    if pa.types.is_floating(column.type):
        return bool(pc.any(pc.is_null(column, nan_is_null=True)).as_py())
    return bool(column.null_count)


class OrdinalEncoder(_Encoder):
    """Encodes each value as its position among the sorted distinct values; null for values unknown at fitting.

    With `encode_lists` the values inside lists are encoded, otherwise a whole list is one value.
    """

    _result_form = "arrow"
    _shown = ("columns", "encode_lists", "output_columns")

    def __init__(
        self,
        columns: Sequence[str],
        *,
        encode_lists: bool = True,
        output_columns: Sequence[str] | None = None,
    ) -> None:
        super().__init__(columns, output_columns)
        self.encode_lists = encode_lists

    def _fit(self, ds: Dataset) -> Preprocessor:
        return self._learn(fitted(ds, self.columns, None, self.encode_lists))

    def _column(self, name: str, column: pa.ChunkedArray) -> Any:
        index = self._index(name)
        if is_list(column.type) and self.encode_lists:
            if pa.types.is_fixed_size_list(column.type):
                column = column.cast(pa.list_(column.type.value_type))
            return list_over(
                column, lambda chunk: numbered(pa.chunked_array([chunk.values]), index).combine_chunks()
            )
        return numbered(column, index)


class OneHotEncoder(_Encoder):
    """Encodes each value as an array with a 1 at its position and 0 elsewhere; all 0 for values unknown at fitting.

    `max_categories` limits, by column, how many of the most frequent values get a position.
    """

    _result_form = "arrow"
    _shown = ("columns", "max_categories", "output_columns")

    def __init__(
        self,
        columns: Sequence[str],
        *,
        max_categories: Mapping[str, int] | None = None,
        output_columns: Sequence[str] | None = None,
    ) -> None:
        super().__init__(columns, output_columns)
        self.max_categories = dict(max_categories or {})

    def _fit(self, ds: Dataset) -> Preprocessor:
        return self._learn(fitted(ds, self.columns, self.max_categories, False))

    def _column(self, name: str, column: pa.ChunkedArray) -> Any:
        index = self._index(name)
        places = pc.fill_null(numbered(column, index), -1).to_numpy()
        made = np.zeros((len(places), len(index)), np.uint8)
        rows = np.nonzero(places >= 0)[0]
        made[rows, places[rows]] = 1
        return pa.FixedSizeListArray.from_arrays(made.ravel(), len(index))


class MultiHotEncoder(OneHotEncoder):
    """Encodes each list as an array with the count of each value at its position."""

    _result_form = "pandas"

    def _fit(self, ds: Dataset) -> Preprocessor:
        return self._learn(fitted(ds, self.columns, self.max_categories, True))

    def _column(self, name: str, column: pa.ChunkedArray) -> Any:
        index = self._index(name)
        made = np.zeros((len(column), len(index)), np.int64)
        for row, value in enumerate(values_of.to_values(column)):
            if value is None:
                continue
            if isinstance(value, (str, bytes)) or not hasattr(value, "__iter__"):
                value = [value]
            for each in value:
                place = index.get(hashable(each))
                if place is not None:
                    made[row, place] += 1
        return lists_of(made)


class LabelEncoder(_Encoder):
    """Encodes one column of labels as numbers; `inverse_transform` reverses it."""

    _shown = ("label_column", "output_column")

    def __init__(self, label_column: str, *, output_column: str | None = None) -> None:
        super().__init__([label_column], None if output_column is None else [output_column])
        self.label_column = label_column
        self.output_column = output_column or label_column

    def _fit(self, ds: Dataset) -> Preprocessor:
        return self._learn(fitted(ds, self.columns, None, False))

    def _column(self, name: str, column: pa.ChunkedArray) -> Any:
        return numbered(column, self._index(name))

    def inverse_transform(self, ds: Dataset) -> Dataset:
        """Convert the numbers in a dataset back to labels."""
        self._need_fit("inverse_transform")
        return ds.map_batches(_Labels(self), batch_format="pyarrow", batch_size=None)


class _Labels:
    __name__ = "labels_of_numbers"

    def __init__(self, encoder: LabelEncoder) -> None:
        self.column = encoder.output_column
        self.into = encoder.label_column
        self.labels = list(encoder._index(encoder.label_column))

    def __call__(self, table: pa.Table) -> pa.Table:
        numbers = table.column(known(table.column_names, self.column))
        return put(table, self.into, pc.take(pa.array(self.labels), numbers))


class Categorizer(ColumnPreprocessor):
    """Converts columns to categories: those of `dtypes` (pandas.CategoricalDtype by column) if given, else
    all values seen at fitting."""

    _shown = ("columns", "dtypes", "output_columns")

    def __init__(
        self,
        columns: Sequence[str],
        dtypes: Mapping[str, Any] | None = None,
        output_columns: Sequence[str] | None = None,
    ) -> None:
        super().__init__(columns, output_columns)
        self.dtypes = dict(dtypes or {})

    def _fit(self, ds: Dataset) -> Preprocessor:
        import pandas as pd  # 300 ms that only this class needs

        open_columns = [name for name in self.columns if name not in self.dtypes]
        found = counts_of(ds, open_columns, False) if open_columns else {}
        met = {
            name: pd.CategoricalDtype(sorted(value for value in counts if value is not None))
            for name, counts in found.items()
        }
        self.stats_ = {**self.dtypes, **met}
        return self

    def _column(self, name: str, column: pa.ChunkedArray) -> Any:
        dtype = self.stats_[name]
        categories = list(dtype.categories)
        places = numbered(column, {value: at for at, value in enumerate(categories)}).combine_chunks()
        return pa.DictionaryArray.from_arrays(
            places.cast(pa.int32()), pa.array(categories), ordered=bool(dtype.ordered)
        )
