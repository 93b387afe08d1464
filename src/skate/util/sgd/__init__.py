"""Removed from Ray long ago; importing it raises an error with the replacement."""

from __future__ import annotations

raise DeprecationWarning(
    "Ray SGD has been deprecated, and ray.util.sgd has been removed; use ray.train instead"
)
