"""How a worker says in its output who prints from here on."""

from __future__ import annotations

#: Stands in front of "pid name", up to the end of the line; no text that anybody prints.
MARK = b"\0\x1eskate\x1e"
