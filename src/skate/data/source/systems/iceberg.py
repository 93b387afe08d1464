"""Reading Iceberg tables, through pyiceberg: its catalog lists the files."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from skate.data.source.datasource import BlockMetadata, Datasource, ReadTask
from skate.data.source.files.file_groups import shared_out
from skate.installed import require


def table_of(identifier: str, catalog_kwargs: dict[str, Any] | None, what: str) -> Any:
    """Load a table from a catalog; `catalog_kwargs` are those of pyiceberg's `load_catalog`."""
    given = dict(catalog_kwargs or {})
    name = given.pop("name", "default")
    catalog = require("pyiceberg.catalog", what, "pyiceberg").load_catalog(name, **given)
    return catalog.load_table(identifier)


class IcebergDatasource(Datasource):
    """Reads the rows of a table; row_filter, selected_fields and snapshot_id are those of pyiceberg's `Table.scan`."""

    def __init__(self, identifier: str, catalog_kwargs: dict[str, Any] | None = None, **scan: Any) -> None:
        table = table_of(identifier, catalog_kwargs, "read_iceberg")
        if scan.get("row_filter") is None:
            scan["row_filter"] = require("pyiceberg.expressions", "read_iceberg", "pyiceberg").AlwaysTrue()
        self._scan = table.scan(**scan)
        self._files = list(self._scan.plan_files())

    def get_name(self) -> str:
        return "Iceberg"

    def input_files(self) -> list[str]:
        return [task.file.file_path for task in self._files]

    def estimate_inmemory_data_size(self) -> int | None:
        return 3 * sum(int(task.file.file_size_in_bytes) for task in self._files)

    def known_schema(self) -> pa.Schema | None:
        found: pa.Schema = self._scan.projection().as_arrow()
        return found

    def get_read_tasks(
        self, parallelism: int, per_task_row_limit: int | None = None, data_context: Any = None
    ) -> list[ReadTask]:
        scan = self._scan
        given = (scan.table_metadata, scan.io, scan.projection(), scan.row_filter)
        sizes = [task.file.file_size_in_bytes for task in self._files]
        tasks = [
            ReadTask(
                _Files(group, given),
                BlockMetadata(input_files=[task.file.file_path for task in group]),
                None,
                per_task_row_limit,
            )
            for group in shared_out(self._files, sizes, parallelism)
        ]
        return tasks or [ReadTask(_Files([], given), BlockMetadata(0, 0))]


class _Files:
    def __init__(self, files: list[Any], given: tuple[Any, ...]) -> None:
        self.files = files
        self.given = given

    def __call__(self) -> Iterator[pa.Table]:
        scan = require("pyiceberg.io.pyarrow", "read_iceberg", "pyiceberg").ArrowScan(*self.given)
        found = False
        for batch in scan.to_record_batches(self.files):
            found = True
            yield pa.Table.from_batches([batch])
        if not found:
            yield self.given[2].as_arrow().empty_table()
