"""ORC: read a stripe at a time, written by Arrow."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.orc as paorc

from skate.data.source.files.sink import BlockBasedFileDatasink, arguments_of
from skate.data.source.files.source import FileBasedDatasource


class ORCDatasource(FileBasedDatasource):
    """Reads the rows of ORC files."""

    _FILE_EXTENSIONS = ["orc"]
    _SEEKS = True
    _INFLATION = 3.0
    _columns: list[str] | None = None

    def get_name(self) -> str:
        return "ORC"

    def with_columns(self, columns: tuple[str, ...]) -> ORCDatasource | None:
        if self._parser is not None or self._include_paths:
            return None
        made = copy.copy(self)
        made._columns = list(columns)
        return made

    def _read_stream(self, f: pa.NativeFile, path: str) -> Iterator[pa.Table]:
        file = paorc.ORCFile(f)
        if not file.nstripes:
            yield file.read(columns=self._columns)
        for at in range(file.nstripes):
            table = pa.Table.from_batches([file.read_stripe(at, columns=self._columns)])
            yield table if self._columns is None else table.select(self._columns)


class ORCDatasink(BlockBasedFileDatasink):
    """Writes blocks as ORC files."""

    def __init__(
        self, path: str, *, arrow_orc_args_fn: Any = None, arrow_orc_args: Any = None, **files: Any
    ) -> None:
        self.args_fn = arrow_orc_args_fn
        self.args = dict(arrow_orc_args or {})
        super().__init__(path, file_format="orc", **files)

    def get_name(self) -> str:
        return "ORC"

    def write_tables(self, tables: Iterable[pa.Table], file: Any) -> None:
        with paorc.ORCWriter(file, **arguments_of(self.args_fn, self.args)) as writer:
            for table in tables:
                if any(pa.types.is_nested(field.type) for field in table.schema):
                    # Arrow's writer loses the nulls of a struct that begins inside another array.
                    table = table.take(pa.array(np.arange(table.num_rows)))
                writer.write(table)
