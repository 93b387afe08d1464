"""The older name of `ray.util.multiprocessing.pool`."""

from __future__ import annotations

from skate.util.multiprocessing import Pool

__all__ = ["Pool"]
