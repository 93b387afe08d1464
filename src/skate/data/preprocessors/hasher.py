"""Hashing of columns into arrays by their names."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from skate.data.block import tensors
from skate.data.block.names import known
from skate.data.preprocessor import Preprocessor
from skate.data.preprocessors.base import numbers, put
from skate.data.preprocessors.tokenizer import simple_split_tokenizer as simple_split_tokenizer


def simple_hash(value: object, num_features: int) -> int:
    """Return a position below `num_features`, the same in every process: SHA-256 of the value as text."""
    return int(hashlib.sha256(str(value).encode()).hexdigest(), 16) % num_features


class FeatureHasher(Preprocessor):
    """Adds columns up in an array of `num_features`, each at the position given by the hash of its name."""

    _result_form = "pandas"
    _is_fittable = False
    _shown = ("columns", "num_features", "output_column")

    def __init__(self, columns: Sequence[str], num_features: int, output_column: str) -> None:
        self.columns = self._derive_and_validate_output_columns(columns, None)
        if num_features < 1:
            raise ValueError(f"num_features must be >= 1, got {num_features}")
        self.num_features = num_features
        self.output_column = output_column

    def get_output_columns(self) -> list[str]:
        """The column that the preprocessor writes."""
        return [self.output_column]

    def _transform_arrow(self, table: pa.Table) -> pa.Table:
        columns = {name: table.column(known(table.column_names, name)) for name in self.columns}
        whole = all(pa.types.is_integer(column.type) and not column.null_count for column in columns.values())
        made = np.zeros((table.num_rows, self.num_features), np.int64 if whole else np.float64)
        for name, column in columns.items():
            values = column if whole else numbers(name, column)
            made[:, simple_hash(name, self.num_features)] += values.to_numpy().astype(made.dtype)
        return put(table, self.output_column, tensors.from_ndarray(made))
