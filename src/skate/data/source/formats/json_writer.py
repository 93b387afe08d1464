"""JSON output: one object per line. Arrow formats plain columns as a whole; other columns are formatted value
by value."""

from __future__ import annotations

import base64
import datetime
import decimal
import json
import math
from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skate.data.block import columns
from skate.data.block.table import to_pandas
from skate.data.source.files.sink import BlockBasedFileDatasink, arguments_of

_ROWS_AT_ONCE = 100_000


class JSONDatasink(BlockBasedFileDatasink):
    """Writes blocks as files with one JSON object per line; with `pandas_json_args`, as `DataFrame.to_json` does."""

    def __init__(
        self,
        path: str,
        *,
        pandas_json_args_fn: Any = None,
        pandas_json_args: dict[str, Any] | None = None,
        **files: Any,
    ) -> None:
        self.args_fn = pandas_json_args_fn
        self.args = dict(pandas_json_args or {})
        super().__init__(path, file_format="json", **files)

    def get_name(self) -> str:
        return "JSON"

    def write_tables(self, tables: Iterable[pa.Table], file: Any) -> None:
        given = arguments_of(self.args_fn, self.args)
        if given:
            self._by_pandas(tables, file, given)
            return
        for table in tables:
            for at in range(0, table.num_rows, _ROWS_AT_ONCE):
                for chunk in json_lines(table.slice(at, _ROWS_AT_ONCE)).chunks:
                    file.write(_bytes_of(chunk))

    def _by_pandas(self, tables: Iterable[pa.Table], file: Any, given: dict[str, Any]) -> None:
        args = {"orient": "records", "lines": given.get("orient", "records") == "records", **given}
        if args["lines"]:
            for table in tables:
                file.write(to_pandas(table).to_json(**args).encode())
        else:
            from skate.data.block import concat  # only other forms need all rows at once

            file.write(to_pandas(concat(tables)).to_json(**args).encode())


def json_lines(table: pa.Table) -> pa.ChunkedArray:
    """Return a table's rows as JSON objects, each with its line end."""
    parts: list[Any] = []
    for at, name in enumerate(table.column_names):
        lead = ("{" if not at else ",") + json.dumps(name) + ":"
        parts += [pa.scalar(lead), pc.fill_null(_texts(table.column(at)), "null")]
    parts.append(pa.scalar("}\n"))
    return pc.binary_join_element_wise(*parts, "")


def _texts(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column's values as JSON text; null stays null."""
    kind = column.type
    if pa.types.is_null(kind):
        return pa.chunked_array([pa.nulls(len(column), pa.string())])
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        return column.cast(pa.string())
    if pa.types.is_float32(kind) or pa.types.is_float64(kind):
        finite = pc.if_else(pc.is_finite(column), column, pa.scalar(None, kind))
        text = finite.cast(pa.string())
        whole = pc.invert(pc.match_substring_regex(text, "[.eE]"))
        return pc.if_else(whole, pc.binary_join_element_wise(text, ".0", ""), text)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        text = column.cast(pa.string())
        if not pc.any(pc.match_substring_regex(text, '[\\x00-\\x1f"\\\\]')).as_py():
            return pc.binary_join_element_wise('"', text, '"', "")
    values = [
        None if value is None else json.dumps(_plain(value), allow_nan=False)
        for value in columns.to_values(column)
    ]
    return pa.chunked_array([pa.array(values, pa.string())])


def _plain(value: Any) -> Any:
    """Convert a value to types that JSON has."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, (str, int, bool)):
        return value
    if isinstance(value, dict):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, (list, tuple, set)):
        return [_plain(each) for each in value]
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, np.generic):
        return _plain(value.item())
    if isinstance(value, (datetime.datetime, datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, datetime.timedelta):
        return value.total_seconds()
    if isinstance(value, decimal.Decimal):
        return str(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        data = bytes(value)
        try:
            return data.decode()
        except UnicodeDecodeError:
            return base64.b64encode(data).decode()
    raise ValueError(
        f"JSON cannot represent a {type(value).__name__}: {value!r:.80}; convert it to text or numbers first"
    )


def _bytes_of(lines: pa.Array) -> Any:
    """Concatenate the texts of an array."""
    lines = lines.cast(pa.large_string()) if not pa.types.is_large_string(lines.type) else lines
    offsets = np.frombuffer(lines.buffers()[1], np.int64)[lines.offset : lines.offset + len(lines) + 1]
    return lines.buffers()[2][int(offsets[0]) : int(offsets[-1])]
