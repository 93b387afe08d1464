"""BigQuery, Delta Sharing and Hudi, each through its vendor's client."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from skate.data.block import concat, from_batch
from skate.data.block.objects import refuse_pickles
from skate.data.source.datasink import Datasink, TaskContext
from skate.data.source.datasource import BlockMetadata, Datasource, ReadTask
from skate.installed import require


class Calls(Datasource):
    """Reads with one task per function that returns tables."""

    def __init__(self, name: str, calls: Sequence[Any]) -> None:
        self._name = name
        self._calls = list(calls)

    def get_name(self) -> str:
        return self._name

    def estimate_inmemory_data_size(self) -> int | None:
        return None

    def get_read_tasks(
        self, parallelism: int, per_task_row_limit: int | None = None, data_context: Any = None
    ) -> list[ReadTask]:
        return [ReadTask(call, BlockMetadata(), None, per_task_row_limit) for call in self._calls]


class WholeShare:
    """Reads a whole table of a Delta share."""

    def __init__(self, url: str, options: dict[str, Any]) -> None:
        self.given = (url, options)

    def __call__(self) -> Iterator[pa.Table]:
        url, options = self.given
        yield from_batch(
            require("delta_sharing", "read_delta_sharing_tables", "delta-sharing").load_as_pandas(
                url, **options
            )
        )


def delta_sharing_source(url: str, options: dict[str, Any]) -> Datasource:
    """Build a datasource that reads a table of a Delta share in one task."""
    require("delta_sharing", "read_delta_sharing_tables", "delta-sharing")
    return Calls("DeltaSharing", [WholeShare(url, options)])


class HudiSlices:
    """Reads some file slices of a Hudi table."""

    def __init__(self, uri: str, options: dict[str, str], paths: Sequence[str]) -> None:
        self.given = (uri, options, list(paths))

    def __call__(self) -> Iterator[pa.Table]:
        uri, options, paths = self.given
        reader = require("hudi", "read_hudi").HudiFileGroupReader(uri, options)
        for path in paths:
            yield refuse_pickles(from_batch(reader.read_file_slice_by_base_file_path(path)), path)


def hudi_source(uri: str, query_type: str, filters: Any, options: dict[str, str]) -> Datasource:
    """Build a datasource for the latest snapshot of a Hudi table, one task per group of its files."""
    if query_type != "snapshot":
        raise NotImplementedError(
            f"read_hudi reads only snapshots; query_type={query_type!r} is not supported"
        )
    table = require("hudi", "read_hudi").HudiTable(uri, options)
    splits = table.get_file_slices_splits(16, filters or [])
    return Calls(
        "Hudi",
        [HudiSlices(uri, options, [each.base_file_relative_path() for each in split]) for split in splits],
    )


class BigQueryDatasink(Datasink[None]):
    """Loads rows into a BigQuery table as Parquet."""

    def __init__(self, project_id: str, dataset: str, attempts: int, overwrite: bool) -> None:
        require("google.cloud.bigquery", "write_bigquery", "google-cloud-bigquery")
        self._given = (project_id, dataset, attempts, overwrite)

    def get_name(self) -> str:
        return "BigQuery"

    def on_write_start(self, schema: pa.Schema | None = None) -> None:
        project, dataset, _, overwrite = self._given
        client = require("google.cloud.bigquery", "write_bigquery", "google-cloud-bigquery").Client(
            project=project
        )
        if overwrite:
            client.delete_table(f"{project}.{dataset}", not_found_ok=True)

    def write(self, blocks: Iterable[pa.Table], ctx: TaskContext) -> None:
        bigquery = require("google.cloud.bigquery", "write_bigquery", "google-cloud-bigquery")
        project, dataset, _, _ = self._given
        table = concat(blocks)
        if not table.num_rows:
            return
        sink = pa.BufferOutputStream()
        require("pyarrow.parquet", "write_bigquery").write_table(table, sink)
        config = bigquery.LoadJobConfig(source_format="PARQUET", autodetect=True)
        client = bigquery.Client(project=project)
        client.load_table_from_file(
            pa.BufferReader(sink.getvalue()), f"{project}.{dataset}", job_config=config
        ).result()
