"""`Template`, by the module that Ray defines it in."""

from __future__ import annotations

from skate.widgets import Template

__all__ = ["Template"]
