"""Everything that makes datasets, as programs written for Ray import it: the functions of `skate.data` itself."""

from __future__ import annotations

import importlib
from typing import Any

import skate.data

__all__ = [name for name in skate.data.__all__ if name.startswith(("from_", "read_", "range"))]


def __getattr__(name: str) -> Any:
    if name == "INT32_MAX":  # the length of lists that Arrow counts in 32 bits
        return (1 << 31) - 1
    if name in ("Partitioning", "DefaultFileMetadataProvider"):
        return getattr(importlib.import_module("skate.data.datasource"), name)
    if name not in __all__:
        raise AttributeError(f"module 'skate.data.read_api' has no attribute {name!r}")
    return getattr(skate.data, name)
