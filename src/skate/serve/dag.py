"""The names of compiled graphs that programs of Serve import from here."""

from __future__ import annotations

from skate.dag import InputNode

__all__ = ["InputNode"]
