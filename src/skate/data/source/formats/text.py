"""Text: one row per line."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from skate.data.source.files import streams
from skate.data.source.files.source import FileBasedDatasource, Piece

_CHUNK = 8 << 20
_SMALL = 64 << 10


class TextDatasource(FileBasedDatasource):
    """Reads lines into a column "text", without line ends; empty and blank lines are skipped if requested."""

    _SPLITS = True
    _INFLATION = 1.3

    def __init__(
        self, paths: Any, *, encoding: str = "utf-8", drop_empty_lines: bool = True, **files: Any
    ) -> None:
        self._encoding = codecs.lookup(encoding).name
        self._drop_empty = drop_empty_lines
        super().__init__(paths, **files)
        # In other encodings the line-end byte may be part of a character.
        self._SPLITS = self._encoding in ("utf-8", "ascii", "iso8859-1")

    def get_name(self) -> str:
        return "Text"

    def _read_stream(self, f: pa.NativeFile, path: str) -> Iterator[pa.Table]:
        if not self._SPLITS:
            text = f.read().decode(self._encoding)
            yield self._table(pa.array(text.split("\n"), pa.string()), text.endswith("\n"))
            return
        for data in streams.lines_at_once(f, _CHUNK):
            yield self._lines(data)

    def _read_range(self, f: pa.NativeFile, piece: Piece) -> Iterator[pa.Table]:
        for data in streams.lines_of_range(f, piece.start, piece.end or 0, _CHUNK):
            yield self._lines(data)

    def _lines(self, data: bytes) -> pa.Table:
        if self._encoding != "utf-8":
            data = data.decode(self._encoding).encode()
        elif data.startswith(codecs.BOM_UTF8):
            data = data[3:]
        if len(data) < _SMALL:
            return self._few(data.decode())
        # raises for anything that is not UTF-8
        whole = pa.array([data], pa.large_binary()).cast(pa.large_string())
        parts = pc.split_pattern(whole, "\n").flatten().cast(pa.string())
        return self._table(parts, data.endswith(b"\n"))

    def _few(self, text: str) -> pa.Table:
        """Like `_table`, but faster for small texts, where the overhead of each Arrow call matters."""
        lines = text.split("\n")
        if text.endswith("\n"):
            lines.pop()
        if "\r" in text:
            lines = [line.rstrip("\r") for line in lines]
        if self._drop_empty:
            lines = [line for line in lines if line.strip()]
        return pa.table({"text": pa.array(lines, pa.string())})

    def _table(self, lines: pa.Array, ended: bool) -> pa.Table:
        if ended:  # there is no line after the last line end
            lines = lines.slice(0, len(lines) - 1)
        lines = pc.utf8_rtrim(lines, "\r")
        if self._drop_empty:
            lines = lines.filter(pc.not_equal(pc.utf8_trim_whitespace(lines), ""))
        return pa.table({"text": lines})
