"""Avro: read by fastavro."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from skate.data.block import from_rows
from skate.data.source.files.source import FileBasedDatasource
from skate.installed import require

_ROWS_AT_ONCE = 8192


class AvroDatasource(FileBasedDatasource):
    """Reads the records of Avro files."""

    _INFLATION = 2.0
    _APART = True

    def __init__(self, paths: Any, **files: Any) -> None:
        require("fastavro", "read_avro")
        super().__init__(paths, **files)

    def get_name(self) -> str:
        return "Avro"

    def _read_stream(self, f: pa.NativeFile, path: str) -> Iterator[pa.Table]:
        records = require("fastavro", "read_avro").reader(f)
        while rows := list(itertools.islice(records, _ROWS_AT_ONCE)):
            yield from_rows([row if isinstance(row, dict) else {"value": row} for row in rows])
