"""`set_resource`, which Ray removed, under its older name."""

from __future__ import annotations

from skate.experimental import set_resource

__all__ = ["set_resource"]
