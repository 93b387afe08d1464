"""The largest whole number of 32 bits, which programs import from here."""

from __future__ import annotations

INT32_MAX = (1 << 31) - 1
