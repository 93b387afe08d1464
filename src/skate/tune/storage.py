"""The default storage of results."""

from __future__ import annotations

import os

_DEFAULT = "~/ray_results"


def default_storage() -> str:
    """`RAY_STORAGE` or `RAY_AIR_LOCAL_CACHE_DIR`, else ~/ray_results."""
    return os.environ.get("RAY_STORAGE") or os.environ.get("RAY_AIR_LOCAL_CACHE_DIR") or _DEFAULT
