"""Transforms to a distribution closer to normal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from skate.data.preprocessors.base import ColumnPreprocessor, numbers

_METHODS = ("yeo-johnson", "box-cox")


class PowerTransformer(ColumnPreprocessor):
    """A power transform with a given power: "yeo-johnson" (Yeo and Johnson, 2000) or "box-cox" (Box and Cox, 1964)."""

    _is_fittable = False
    _shown = ("columns", "power", "method", "output_columns")

    def __init__(
        self,
        columns: Sequence[str],
        power: float,
        method: str = "yeo-johnson",
        *,
        output_columns: Sequence[str] | None = None,
    ) -> None:
        super().__init__(columns, output_columns)
        if method not in _METHODS:
            raise ValueError(f"method must be one of {', '.join(map(repr, _METHODS))}, not {method!r}")
        self.power = power
        self.method = method

    def _column(self, name: str, column: pa.ChunkedArray) -> Any:
        values = numbers(name, column).to_numpy()
        with np.errstate(invalid="ignore", divide="ignore"):
            made = (
                _box_cox(values, self.power) if self.method == "box-cox" else _yeo_johnson(values, self.power)
            )
        return pa.array(made, mask=np.isnan(values))


def _box_cox(values: Any, power: float) -> Any:
    return np.log(values) if power == 0 else (np.power(values, power) - 1) / power


def _yeo_johnson(values: Any, power: float) -> Any:
    above = np.maximum(values, 0) + 1
    below = 1 - np.minimum(values, 0)
    if power == 0:
        up = np.log(above)
    else:
        up = (np.power(above, power) - 1) / power
    if power == 2:
        down = -np.log(below)
    else:
        down = -(np.power(below, 2 - power) - 1) / (2 - power)
    return np.where(values >= 0, up, down)
