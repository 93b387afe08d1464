"""The marker with which a worker announces in its output who prints next."""

from __future__ import annotations

#: Precedes "pid name" up to the end of the line; programs do not print it.
MARK = b"\0\x1eskate\x1e"
