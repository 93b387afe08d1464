"""Normalization of rows to length one, over several columns."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from skate.data.block.names import known
from skate.data.preprocessors.base import ColumnPreprocessor, numbers, put

_LENGTHS = {
    "l1": lambda values: np.abs(values).sum(axis=1),
    "l2": lambda values: np.sqrt(np.square(values).sum(axis=1)),
    "max": lambda values: np.abs(values).max(axis=1),
}


class Normalizer(ColumnPreprocessor):
    """Divides the values of each row by their length: "l1", "l2" or "max". Null counts as 0 and stays null."""

    _is_fittable = False
    _shown = ("columns", "norm", "output_columns")

    def __init__(
        self, columns: Sequence[str], norm: str = "l2", *, output_columns: Sequence[str] | None = None
    ) -> None:
        super().__init__(columns, output_columns)
        if norm not in _LENGTHS:
            raise ValueError(f"norm must be one of {', '.join(map(repr, _LENGTHS))}, not {norm!r}")
        self.norm = norm

    def _transform_arrow(self, table: pa.Table) -> pa.Table:
        given = [
            numbers(name, table.column(known(table.column_names, name))).to_numpy() for name in self.columns
        ]
        values = np.stack(given, axis=1)
        missing = np.isnan(values)
        lengths = _LENGTHS[self.norm](np.where(missing, 0.0, values))
        with np.errstate(invalid="ignore", divide="ignore"):
            values = values / lengths[:, None]  # a row of zeros has no direction: NaN
        for at, new in enumerate(self.output_columns):
            table = put(table, new, pa.array(values[:, at], mask=missing[:, at]))
        return table
