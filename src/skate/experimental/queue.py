"""The older name of `ray.util.queue`."""

from __future__ import annotations

from skate.util.queue import Empty, Full, Queue

__all__ = ["Empty", "Full", "Queue"]
