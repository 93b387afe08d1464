"""The largest 32-bit integer, which programs import from here."""

from __future__ import annotations

INT32_MAX = (1 << 31) - 1
