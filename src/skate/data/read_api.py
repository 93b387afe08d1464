"""The functions that create datasets, under the module name of Ray: those of `skate.data` itself."""

from __future__ import annotations

from typing import Any

import skate.data
from skate import lazy_loader

__all__ = [name for name in skate.data.__all__ if name.startswith(("from_", "read_", "range"))]
_load = lazy_loader.getter(
    globals(),
    {"skate.data.datasource": ("DefaultFileMetadataProvider", "Partitioning"), "skate.data": __all__},
)


def __getattr__(name: str) -> Any:
    if name == "INT32_MAX":  # the longest list that Arrow counts in 32 bits
        return (1 << 31) - 1
    return _load(name)
