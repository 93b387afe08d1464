"""Concatenation of several columns into one column of arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from skate.data.block import columns as values_of
from skate.data.block.names import UnknownColumn
from skate.data.preprocessor import Preprocessor
from skate.data.preprocessors.base import put


class Concatenator(Preprocessor):
    """Puts columns of numbers side by side into one column of arrays, and drops them.

    Args:
        columns: the columns, in the order of their values in the arrays.
        output_column_name: the name of the result.
        dtype: the numpy dtype of the arrays; by default one that all columns fit into.
        raise_if_missing: raise UnknownColumn for missing columns, rather than leaving them out.
        flatten: flatten columns of arrays; otherwise all columns must have values of one shape.
    """

    _result_form = "pandas"
    _is_fittable = False
    _shown = ("columns", "output_column_name", "dtype", "raise_if_missing", "flatten")

    def __init__(
        self,
        columns: Sequence[str],
        output_column_name: str = "concat_out",
        dtype: Any = None,
        raise_if_missing: bool = False,
        flatten: bool = False,
    ) -> None:
        self.columns = self._derive_and_validate_output_columns(columns, None)
        self.output_column_name = output_column_name
        self.dtype = dtype
        self.raise_if_missing = raise_if_missing
        self.flatten = flatten

    def get_output_columns(self) -> list[str]:
        """The column that the preprocessor writes."""
        return [self.output_column_name]

    def _transform_arrow(self, table: pa.Table) -> pa.Table:
        missing = [name for name in self.columns if name not in table.column_names]
        if missing and (self.raise_if_missing or len(missing) == len(self.columns)):
            raise UnknownColumn.of(missing[0], table.column_names)
        names = [name for name in self.columns if name not in missing]
        parts = [_stacked(values_of.to_numpy(table.column(name))) for name in names]
        if self.flatten:
            made = np.concatenate([part.reshape(len(part), -1) for part in parts], axis=1)
        else:
            shapes = {name: part.shape[1:] for name, part in zip(names, parts, strict=True)}
            if len(set(shapes.values())) > 1:
                raise ValueError(
                    f"the columns have values of different shapes, {shapes}; set flatten=True to flatten them"
                )
            made = np.stack(parts, axis=1)
        if self.dtype is not None:
            made = made.astype(self.dtype)
        rest = table.drop_columns(names)
        return put(rest, self.output_column_name, values_of.from_array(made))


def _stacked(values: np.ndarray) -> np.ndarray:
    if values.dtype == object and len(values) and all(isinstance(row, np.ndarray) for row in values):
        if all(row.shape == values[0].shape for row in values):
            return np.stack(list(values))
    return values
