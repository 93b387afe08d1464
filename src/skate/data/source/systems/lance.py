"""Lance datasets, through pylance."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from skate.data.block.objects import refuse_pickles
from skate.data.source.datasink import Datasink, SaveMode, TaskContext, WriteResult
from skate.data.source.datasource import BlockMetadata, Datasource, ReadTask
from skate.data.source.files.file_groups import shared_out
from skate.data.source.files.sink import chained
from skate.installed import require


def lance(what: str) -> Any:
    """Import the library."""
    return require("lance", what, "pylance")


class LanceDatasource(Datasource):
    """Reads the rows of a dataset, its fragments divided among tasks."""

    def __init__(
        self,
        uri: str,
        version: Any = None,
        columns: Any = None,
        wanted: str | None = None,
        storage: Any = None,
        scanner: Any = None,
    ) -> None:
        self._uri, self._storage = uri, storage
        self._dataset = lance("read_lance").dataset(uri, version=version, storage_options=storage)
        self._options = dict(scanner or {})
        if columns is not None:
            self._options["columns"] = columns
        if wanted is not None:
            self._options["filter"] = wanted

    def get_name(self) -> str:
        return "Lance"

    def estimate_inmemory_data_size(self) -> int | None:
        return None

    def known_rows(self) -> int | None:
        return None if self._options.get("filter") else int(self._dataset.count_rows())

    def bytes_of_work(self) -> int | None:
        return int(self._dataset.count_rows()) * 64

    def get_read_tasks(
        self, parallelism: int, per_task_row_limit: int | None = None, data_context: Any = None
    ) -> list[ReadTask]:
        fragments = self._dataset.get_fragments()
        rows = [fragment.count_rows() for fragment in fragments]
        ids = shared_out([fragment.fragment_id for fragment in fragments], rows, parallelism)
        given = (self._uri, self._dataset.version, self._storage, self._options)
        return [
            ReadTask(_Fragments(group, given), BlockMetadata(), None, per_task_row_limit) for group in ids
        ]


class _Fragments:
    def __init__(self, ids: Sequence[int], given: tuple[Any, ...]) -> None:
        self.ids = list(ids)
        self.given = given

    def __call__(self) -> Iterator[pa.Table]:
        uri, version, storage, options = self.given
        dataset = lance("read_lance").dataset(uri, version=version, storage_options=storage)
        fragments = [dataset.get_fragment(number) for number in self.ids]
        scanner = dataset.scanner(fragments=fragments, **options)
        for batch in scanner.to_batches():
            yield refuse_pickles(pa.Table.from_batches([batch]), uri)


class LanceDatasink(Datasink[Any]):
    """Writes rows into a Lance dataset: tasks write fragments, and a single commit at the end adds them to the
    dataset.
    """

    def __init__(
        self,
        uri: str,
        mode: SaveMode = SaveMode.CREATE,
        schema: Any = None,
        storage: Any = None,
        options: Any = None,
    ) -> None:
        lance("write_lance")
        self.mode = SaveMode(mode)
        if self.mode not in (SaveMode.CREATE, SaveMode.APPEND, SaveMode.OVERWRITE):
            raise NotImplementedError(
                f"write_lance supports the modes 'create', 'append' and 'overwrite', got {self.mode.value!r}"
            )
        self._uri, self._schema, self._storage = uri, schema, storage
        self._options = {name: value for name, value in (options or {}).items() if value is not None}
        self._version: int | None = None

    def get_name(self) -> str:
        return "Lance"

    @property
    def min_rows_per_write(self) -> int | None:
        found: int | None = self._options.get("min_rows_per_file")
        return found

    def on_write_start(self, schema: pa.Schema | None = None) -> None:
        try:
            self._version = lance("write_lance").dataset(self._uri, storage_options=self._storage).version
        except ValueError:  # the dataset does not exist
            self._version = None
        if self._version is not None and self.mode is SaveMode.CREATE:
            raise ValueError(f"{self._uri} exists already; write it with mode='append' or 'overwrite'")

    def write(self, blocks: Iterable[pa.Table], ctx: TaskContext) -> Any:
        tables = (
            table if self._schema is None else table.cast(self._schema) for table in blocks if table.num_rows
        )
        first = next(tables, None)
        if first is None:
            return None
        schema = first.schema
        batches = (batch for table in chained(first, tables) for batch in table.cast(schema).to_batches())
        reader = pa.RecordBatchReader.from_batches(schema, batches)
        options = {name: value for name, value in self._options.items() if name != "min_rows_per_file"}
        fragments = lance("write_lance").fragment.write_fragments(
            reader, self._uri, schema=schema, storage_options=self._storage, **options
        )
        return fragments, schema

    def on_write_complete(self, write_result: WriteResult[Any]) -> None:
        made = [each for each in write_result.write_returns if each is not None]
        if not made:
            return
        fragments = [fragment for some, _ in made for fragment in some]
        module = lance("write_lance")
        if self._version is None or self.mode is SaveMode.OVERWRITE:
            operation = module.LanceOperation.Overwrite(made[0][1], fragments)
        else:
            operation = module.LanceOperation.Append(fragments)
        module.LanceDataset.commit(
            self._uri, operation, read_version=self._version, storage_options=self._storage
        )
