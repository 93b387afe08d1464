"""Values in a form that two libraries' results are compared in: arrays with their types, NaN as text."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa


def plain(value: Any) -> Any:
    """The value made of lists, dicts, numbers and text."""
    if isinstance(value, np.ndarray):
        return ["nd", str(value.dtype), plain(value.tolist())]
    if isinstance(value, np.generic):
        return ["np", str(value.dtype), plain(value.item())]
    if isinstance(value, dict):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    if isinstance(value, float) and value != value:
        return "NaN"
    if isinstance(value, (int, float, str, type(None))):
        return value
    if isinstance(value, pa.Schema):
        return ["schema", str(value).split("\n-- schema")[0]]
    return repr(value)
