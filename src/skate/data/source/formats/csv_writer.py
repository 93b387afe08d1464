"""CSV, written block by block by Arrow."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pyarrow.csv as pacsv

from skate.data.source.files.sink import BlockBasedFileDatasink, arguments_of


class CSVDatasink(BlockBasedFileDatasink):
    """Writes blocks as CSV files; `arrow_csv_args` are write_options, or single options of
    `pyarrow.csv.WriteOptions`."""

    def __init__(
        self,
        path: str,
        *,
        arrow_csv_args_fn: Any = None,
        arrow_csv_args: dict[str, Any] | None = None,
        **files: Any,
    ) -> None:
        self.args_fn = arrow_csv_args_fn
        self.args = dict(arrow_csv_args or {})
        super().__init__(path, file_format="csv", **files)

    def get_name(self) -> str:
        return "CSV"

    def write_tables(self, tables: Iterable[pa.Table], file: Any) -> None:
        given = arguments_of(self.args_fn, self.args)
        given.pop("memory_pool", None)
        options = given.pop("write_options", None) or pacsv.WriteOptions(**given)
        writer = None
        try:
            for table in tables:
                if writer is None:
                    _check(table.schema)
                    writer = pacsv.CSVWriter(file, table.schema, write_options=options)
                writer.write_table(table)
        finally:
            if writer is not None:
                writer.close()


def _check(schema: pa.Schema) -> None:
    """Raise ValueError for columns that CSV cannot represent: only scalar values are supported."""
    for field in schema:
        if pa.types.is_nested(field.type) or isinstance(field.type, pa.BaseExtensionType):
            raise ValueError(
                f"column {field.name!r} is {field.type}, which CSV cannot represent; write Parquet or JSON, or "
                "convert it to scalars "
                f"or text"
            )
