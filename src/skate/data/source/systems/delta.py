"""Delta tables, through deltalake: its log lists the files; Arrow reads and writes them."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from skate.data.source.datasink import Datasink, SaveMode, TaskContext, WriteResult
from skate.data.source.files.path_partitions import PathPartitionParser
from skate.data.source.formats.parquet_footers import read_footers
from skate.data.source.formats.parquet_writer import ParquetDatasink
from skate.data.source.systems.fragments import FragmentsDatasource
from skate.installed import require


def delta_source(
    path: str,
    version: Any,
    storage_options: Any,
    columns: Any,
    include_paths: bool,
    wanted: Any,
    shuffle: Any,
) -> FragmentsDatasource:
    """Build a datasource for a Delta table, in its latest or in a given version."""
    table = require("deltalake", "read_delta").DeltaTable(
        path, version=version, storage_options=storage_options
    )
    source = FragmentsDatasource("Delta", table.to_pyarrow_dataset(), columns, wanted, include_paths)
    source.fragments.sort(key=lambda fragment: str(fragment.path))
    if shuffle is not None:
        random.Random(getattr(shuffle, "seed", None)).shuffle(source.fragments)
    return source


class DeltaDatasink(Datasink[Any]):
    """Writes rows into a Delta table: tasks write files, and a single commit at the end adds them to the table."""

    def __init__(
        self,
        path: str,
        mode: SaveMode = SaveMode.APPEND,
        partition_by: Sequence[str] | None = None,
        storage_options: dict[str, str] | None = None,
        filesystem: Any = None,
        about: dict[str, Any] | None = None,
        schema_mode: str = "merge",
    ) -> None:
        require("deltalake", "write_delta")
        self.mode = SaveMode(mode)
        if self.mode is SaveMode.UPSERT:
            raise NotImplementedError(
                "write_delta does not support upsert; merge the rows with deltalake's DeltaTable.merge"
            )
        self.path = path
        self._partition_by = [partition_by] if isinstance(partition_by, str) else list(partition_by or ())
        self._storage = storage_options
        self._about = about or {}
        self._merges = schema_mode == "merge"
        self._filesystem = filesystem
        self._files = self._file_sink()

    def _file_sink(self) -> ParquetDatasink:
        return ParquetDatasink(
            self.path,
            partition_cols=self._partition_by,
            filesystem=self._filesystem,
            # Delta counts time in microseconds.
            arrow_parquet_args={"coerce_timestamps": "us", "allow_truncated_timestamps": True},
        )

    def get_name(self) -> str:
        return "Delta"

    def on_write_start(self, schema: pa.Schema | None = None) -> None:
        exists = require("deltalake", "write_delta").DeltaTable.is_deltatable(self.path, self._storage)
        if exists and self.mode in (SaveMode.ERROR, SaveMode.CREATE):
            raise ValueError(
                f"{self.path} is already a Delta table, and mode={self.mode.value!r} only creates new ones"
            )
        self.nothing_to_write = exists and self.mode is SaveMode.IGNORE
        if self.nothing_to_write:
            return
        if exists:
            self._take_partitions()
        self._files.on_write_start(schema)

    def _take_partitions(self) -> None:
        """Partition as the table that is there. Raises ValueError if other columns were given."""
        table = require("deltalake", "write_delta").DeltaTable(self.path, storage_options=self._storage)
        there = list(table.metadata().partition_columns)
        if self._partition_by and self._partition_by != there:
            raise ValueError(
                f"{self.path} is partitioned by {there}, but partition_by={self._partition_by} was given; leave it out"
            )
        if there != self._partition_by:
            self._partition_by = there
            self._files = self._file_sink()

    def write(self, blocks: Iterable[pa.Table], ctx: TaskContext) -> Any:
        """The files written by a task, and the schema of their rows."""
        schemas: list[pa.Schema] = []

        def passing() -> Iterator[pa.Table]:
            for table in blocks:
                missing = [name for name in self._partition_by if name not in table.column_names]
                if missing and table.num_rows:
                    raise ValueError(
                        f"{self.path} is partitioned by {self._partition_by}, but the rows have no columns {missing}; "
                        f"they have {table.column_names}"
                    )
                if table.num_rows and table.schema not in schemas:
                    schemas.append(table.schema)
                yield table

        return self._files.write(passing(), ctx), schemas

    def on_write_complete(self, write_result: WriteResult[Any]) -> None:
        paths = [path for some, _ in write_result.write_returns for path in some]
        schemas = [schema for _, some in write_result.write_returns for schema in some]
        if not schemas:
            return
        schema = _in_delta(pa.unify_schemas(schemas, promote_options="permissive"))
        actions = self._actions(paths)
        deltalake = require("deltalake", "write_delta")
        if not deltalake.DeltaTable.is_deltatable(self.path, self._storage):
            require("deltalake.transaction", "write_delta").create_table_with_add_actions(
                self.path,
                deltalake.Schema.from_arrow(schema),
                actions,
                "error",
                self._partition_by or None,
                storage_options=self._storage,
                **self._about,
            )
            return
        table = deltalake.DeltaTable(self.path, storage_options=self._storage)
        fields = deltalake.Schema.from_arrow(schema).fields
        if self.mode is not SaveMode.OVERWRITE:
            known = {field.name for field in table.schema().fields}
            added = [field for field in fields if field.name not in known]
            if added and not self._merges:
                names = ", ".join(field.name for field in added)
                raise ValueError(
                    f"{self.path} has no columns {names}; write with schema_mode='merge' to add them"
                )
            if added:
                table.alter.add_columns(added)
        mode = "overwrite" if self.mode is SaveMode.OVERWRITE else "append"
        table.create_write_transaction(
            actions, mode, deltalake.Schema.from_arrow(schema), self._partition_by or None
        )

    def _actions(self, paths: Sequence[str]) -> list[Any]:
        make = require("deltalake.transaction", "write_delta").AddAction
        parse = PathPartitionParser.of(base_dir=self._files.path, filesystem=self._files.filesystem)
        footers = read_footers(paths, self._files.filesystem, ())
        actions = []
        for path, info in zip(paths, self._files.filesystem.get_file_info(list(paths)), strict=True):
            values = {name: None if value is None else str(value) for name, value in parse(path).items()}
            relative = path[len(self._files.path) :].lstrip("/")
            stats = json.dumps({"numRecords": footers[path].rows})
            actions.append(make(relative, info.size, values, int(time.time() * 1000), True, stats))
        return actions

    def on_write_failed(self, error: Exception) -> None:
        self._files.on_write_failed(error)


def _in_delta(schema: pa.Schema) -> pa.Schema:
    """Convert the times of a schema to Delta's."""
    kinds = [
        pa.timestamp("us", field.type.tz) if pa.types.is_timestamp(field.type) else field.type
        for field in schema
    ]
    return pa.schema([(field.name, kind) for field, kind in zip(schema, kinds, strict=True)])
