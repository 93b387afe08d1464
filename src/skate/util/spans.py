"""Custom spans in `ray.timeline()`: `record(name, category, start, seconds, row)`."""

from __future__ import annotations

from skate.client.spans import record

__all__ = ["record"]
