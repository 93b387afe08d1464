"""Arrow datasets (`pyarrow.dataset`), read one fragment at a time; used for Delta tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from skate.data.block.objects import refuse_pickles
from skate.data.source.datasource import BlockMetadata, Datasource, ReadTask
from skate.data.source.files.file_groups import shared_out

_SIZE_GUESSED = 8 << 20
_BATCH_ROWS = 1 << 17


class FragmentsDatasource(Datasource):
    """Fragments with the schema of their dataset; reads only the columns and rows that are needed."""

    def __init__(
        self,
        name: str,
        dataset: Any,
        columns: Sequence[str] | None = None,
        wanted: Any = None,
        include_paths: bool = False,
    ) -> None:
        self._name = name
        self.fragments = list(dataset.get_fragments())
        self._schema: pa.Schema = dataset.schema
        self._columns = None if columns is None else list(columns)
        self._filter = wanted
        self._include_paths = include_paths
        for column in self._columns or ():
            if column not in self._schema.names:
                raise ValueError(
                    f"there is no column {column!r}; the columns are {', '.join(self._schema.names)}"
                )

    def get_name(self) -> str:
        return self._name

    def input_files(self) -> list[str]:
        return [fragment.path for fragment in self.fragments]

    def estimate_inmemory_data_size(self) -> int | None:
        return _SIZE_GUESSED * len(self.fragments)

    def known_schema(self) -> pa.Schema | None:
        names = self._schema.names if self._columns is None else self._columns
        schema = pa.schema([self._schema.field(name) for name in names])
        return schema.append(pa.field("path", pa.string())) if self._include_paths else schema

    def known_rows(self) -> int | None:
        if self._filter is not None:
            return None
        return sum(int(fragment.count_rows()) for fragment in self.fragments)

    def get_read_tasks(
        self, parallelism: int, per_task_row_limit: int | None = None, data_context: Any = None
    ) -> list[ReadTask]:
        groups = shared_out(self.fragments, [1] * len(self.fragments), parallelism)
        given = (self._schema, self._columns, self._filter, self._include_paths)
        found = [
            ReadTask(
                _Scan(group, *given),
                BlockMetadata(
                    size_bytes=_SIZE_GUESSED * len(group), input_files=[fragment.path for fragment in group]
                ),
                None,
                per_task_row_limit,
            )
            for group in groups
        ]
        return found or [ReadTask(_Scan([], *given), BlockMetadata(0, 0))]


class _Scan:
    def __init__(
        self, fragments: list[Any], schema: pa.Schema, columns: Any, wanted: Any, paths: bool
    ) -> None:
        self.fragments = fragments
        self.given = (schema, columns, wanted, paths)

    def __call__(self) -> Iterator[pa.Table]:
        schema, columns, wanted, paths = self.given
        names = schema.names if columns is None else columns
        if not self.fragments:
            yield pa.schema([schema.field(name) for name in names]).empty_table()
        for fragment in self.fragments:
            options = {
                "schema": schema,
                "columns": names,
                "filter": wanted if wanted is not None else pc.scalar(True),
            }
            for batch in fragment.to_batches(batch_size=_BATCH_ROWS, batch_readahead=2, **options):
                table = pa.Table.from_batches([batch])
                if paths:
                    table = table.append_column("path", pa.repeat(pa.scalar(fragment.path), table.num_rows))
                yield refuse_pickles(table, fragment.path)
