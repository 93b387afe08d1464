"""The older name of `ray.util.multiprocessing`."""

from __future__ import annotations

from skate.util.multiprocessing import Pool, TimeoutError

__all__ = ["Pool", "TimeoutError"]
