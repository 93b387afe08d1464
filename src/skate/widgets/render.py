"""`Template`, under the module in which Ray defines it."""

from __future__ import annotations

from skate.widgets import Template

__all__ = ["Template"]
