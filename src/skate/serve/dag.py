"""Names of compiled graphs that Serve programs import from here."""

from __future__ import annotations

from skate.dag import InputNode

__all__ = ["InputNode"]
