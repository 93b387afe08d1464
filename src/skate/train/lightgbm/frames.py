"""Conversion of data frames for LightGBM."""

from __future__ import annotations

import pandas as pd
import pyarrow as pa


def normalize_pandas_for_lightgbm(df: pd.DataFrame) -> pd.DataFrame:
    """Convert columns of Arrow numbers and booleans to pandas' own nullable types; other columns stay unchanged."""
    wanted = {}
    for name, kind in df.dtypes.items():
        if isinstance(kind, pd.ArrowDtype) and (found := _of_pandas(kind.pyarrow_dtype)):
            wanted[name] = found
    return df.astype(wanted) if wanted else df


def _of_pandas(kind: pa.DataType) -> str | None:
    types = pa.types
    if types.is_boolean(kind):
        return "boolean"
    if types.is_integer(kind):
        return f"{'Int' if types.is_signed_integer(kind) else 'UInt'}{kind.bit_width}"
    if types.is_floating(kind):
        return f"Float{max(32, kind.bit_width)}"  # pandas has no 16-bit floats
    return None
