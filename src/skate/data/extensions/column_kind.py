"""Columns of pandas that hold arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd


def column_needs_tensor_extension(s: pd.Series[Any]) -> bool:
    """Return True if a column of objects holds arrays, judged by its first value."""
    return bool(s.dtype.type is np.object_ and not s.empty and isinstance(s.iloc[0], np.ndarray))
