"""JSON: one value per line, or one array of values; read by Arrow where it can, else by Python."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.json as pajson

from skate.data.block import from_rows
from skate.data.source.files import streams
from skate.data.source.files.source import FileBasedDatasource, Piece
from skate.data.steps.place import watched

_CHUNK = 16 << 20
_ROWS_AT_ONCE = 10_000
#: Values nested deeper than this are rejected before they reach Arrow, whose reader is recursive.
DEPTH_MAX = 500
_LOOKED_THROUGH = 1 << 20
_QUOTED = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
_OPEN, _CLOSE = (np.frombuffer(each, np.uint8) for each in (b"[{", b"]}"))
_BLANKS = re.compile(r"[ \t\r\n]*")
JSON_EXTENSIONS = [
    base + packed for packed in ("", ".gz", ".br", ".zst", ".lz4") for base in ("json", "jsonl")
]  # fmt: skip


class JSONDatasource(FileBasedDatasource):
    """Reads the rows of JSON files; `arrow_json_args` are the read_options and parse_options of `pyarrow.json`."""

    _FILE_EXTENSIONS = JSON_EXTENSIONS
    _SPLITS = True
    _INFLATION = 1.2

    def __init__(
        self, paths: Any, *, lines: bool = False, arrow_json_args: dict[str, Any] | None = None, **files: Any
    ) -> None:
        given = dict(arrow_json_args or {})
        for name in given:
            if name not in ("read_options", "parse_options", "memory_pool"):
                raise TypeError(
                    f"read_json() has no argument {name!r}; the arguments for Arrow are read_options, parse_options"
                )
        self._reading: Any = given.get("read_options")
        self._parsing: Any = given.get("parse_options")
        self._only_lines = lines
        super().__init__(paths, **files)

    def get_name(self) -> str:
        return "JSON"

    def _pieces(self, files: Any, parallelism: int) -> list[Piece]:
        pieces = super()._pieces(files, parallelism)
        if not any(piece.end is not None for piece in pieces) or self._only_lines:
            return pieces
        # An array cannot be divided at line ends, so a file is inspected before it is divided.
        arrays = {piece.path for piece in pieces if piece.end is not None and piece.start == 0}
        arrays = {path for path in arrays if self._is_array(path)}
        whole = {each.path: Piece(each.path, self._bytes_of(each)) for each in files}
        return [
            whole[piece.path] if piece.path in arrays else piece
            for piece in pieces
            if piece.path not in arrays or piece.start == 0
        ]

    def _is_array(self, path: str) -> bool:
        with streams.open_file(self._filesystem, path, {}) as file:
            head: bytes = file.read(4096)
            return head.removeprefix(codecs.BOM_UTF8).lstrip()[:1] == b"["

    def _read_stream(self, f: pa.NativeFile, path: str) -> Iterator[pa.Table]:
        head = f.read(4096)
        if head.removeprefix(codecs.BOM_UTF8).lstrip()[:1] == b"[" and not self._only_lines:
            yield from self._array(head, f, path)
            return
        yield from self._parsed(streams.lines_at_once(_Prefixed(head, f), _CHUNK), path, True)

    def _read_range(self, f: pa.NativeFile, piece: Piece) -> Iterator[pa.Table]:
        yield from self._parsed(
            streams.lines_of_range(f, piece.start, piece.end or 0, _CHUNK), piece.path, not piece.start
        )

    def _parsed(self, parts: Iterator[bytes], path: str, from_start: bool) -> Iterator[pa.Table]:
        line = 1
        whole = from_start
        for data in parts:
            if data.strip():
                yield self._lines(data, path, line if from_start else None, whole)
            line += data.count(b"\n")
            whole = False

    def _lines(self, data: bytes, path: str, line: int | None, first: bool) -> pa.Table:
        if is_too_deep(data):
            raise ValueError(
                f"{path}: values are nested more than {DEPTH_MAX} deep, more than a column supports"
            )
        reading = self._reading or pajson.ReadOptions(block_size=min(max(len(data), 1 << 16), 1 << 30))
        try:
            return pajson.read_json(pa.BufferReader(data), read_options=reading, parse_options=self._parsing)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError):
            # Arrow needs one type per column and one object per line; Python reads the rest, and its errors
            # give the position.
            return from_rows(list(self._by_python(data, path, line, first)))

    def _by_python(self, data: bytes, path: str, line: int | None, first: bool) -> Iterator[dict[str, Any]]:
        text = data.decode("utf-8-sig")
        for number, each in enumerate(text.split("\n")):
            if not each.strip():
                continue
            try:
                value = json.loads(each)
            except ValueError as error:
                if first and number == 0 and not self._only_lines:
                    value = _one_value(text)
                    if value is not None:  # one object over several lines
                        yield _row(value, path, None)
                        return
                where = f", line {line + number}" if line is not None else ""
                raise ValueError(f"{path}{where}: {_error_text(error)}: {each.strip()[:80]!r}") from None
            if self._only_lines and isinstance(value, list):
                value = {str(at): item for at, item in enumerate(value)}
            yield _row(value, path, None if line is None else line + number)

    def _array(self, head: bytes, f: pa.NativeFile, path: str) -> Iterator[pa.Table]:
        """Yield the elements of an array, as many at a time as have been read."""
        rows: list[dict[str, Any]] = []
        for at, value in enumerate(_elements(_Prefixed(head, f), path)):
            rows.append(_row(value, path, None, at))
            if len(rows) >= _ROWS_AT_ONCE:
                yield from_rows(rows)
                rows = []
        if rows:
            yield from_rows(rows)


def is_too_deep(data: bytes) -> bool:
    """True if values are nested too deeply for Arrow, whose recursive reader would overflow the stack.

    Checked in the driver, which the overflow would end, and for small files; with a large file only a worker may crash.
    """
    if data.count(b"[") + data.count(b"{") <= DEPTH_MAX or (
        len(data) > _LOOKED_THROUGH and watched() is None
    ):
        return False
    bare = np.frombuffer(_QUOTED.sub(b"", data), np.uint8)  # ignore brackets in text
    steps = np.isin(bare, _OPEN).astype(np.int64) - np.isin(bare, _CLOSE)
    return bool(len(steps)) and int(np.cumsum(steps).max()) > DEPTH_MAX


def _row(value: Any, path: str, line: int | None, element: int | None = None) -> dict[str, Any]:
    if isinstance(value, dict):
        return value
    where = f", line {line}" if line is not None else "" if element is None else f", element {element}"
    raise ValueError(f"{path}{where}: a row must be a JSON object, got {type(value).__name__}: {value!r:.80}")


def _one_value(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _error_text(error: ValueError) -> str:
    return str(getattr(error, "msg", error))


def _elements(file: Any, path: str) -> Iterator[Any]:
    """Yield the elements of one JSON array, read as a stream."""
    decode = json.JSONDecoder().raw_decode
    parts = _texts(file)
    text = next(parts, "")
    at = _blanks(text, 1 if text.startswith("\ufeff") else 0) + 1
    count = 0
    complete = False  # True if all text has been read
    while True:
        start = at
        at = _blanks(text, at)
        error = f"the array does not end: {text[start : start + 80]!r}"
        if text[at : at + 1] == "]":
            if (text[at + 1 :] + "".join(parts)).strip():
                raise ValueError(f"{path}: unexpected data after the end of the array")
            return
        if count and at < len(text):
            if text[at] != ",":
                raise ValueError(f"{path}, element {count}: a ',' or ']' is missing: {text[at : at + 80]!r}")
            at = _blanks(text, at + 1)
        if at < len(text):
            try:
                value, end = decode(text, at)
            except RecursionError:
                raise ValueError(f"{path}, element {count}: values are nested too deeply") from None
            except ValueError as caught:
                error = f"{_error_text(caught)}: {text[at : at + 80]!r}"
            else:
                if end < len(text) or complete:  # a number may continue in the text not read yet
                    yield value
                    count += 1
                    at = end
                    continue
        if complete:
            raise ValueError(f"{path}, element {count}: {error}")
        more = next(parts, "")
        complete = not more
        text, at = text[start:] + more, 0


def _blanks(text: str, at: int) -> int:
    """Return the end of the whitespace that begins at a position."""
    found = _BLANKS.match(text, at)
    assert found is not None
    return found.end()


def _texts(file: Any) -> Iterator[str]:
    """Read text in pieces, which grow so that a long element is parsed only a few times."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    size = 1 << 16
    while data := file.read(size):
        yield decoder.decode(data)
        size = min(size * 2, _CHUNK)
    yield decoder.decode(b"", True)


class _Prefixed:
    """A stream with the bytes already read from it put back."""

    def __init__(self, head: bytes, rest: Any) -> None:
        self._head = head
        self._rest = rest

    def read(self, size: int) -> bytes:
        if self._head:
            data = self._head + self._rest.read(size)
            self._head = b""
            return bytes(data)
        found: bytes = self._rest.read(size)
        return found
