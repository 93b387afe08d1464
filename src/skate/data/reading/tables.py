"""Datasets of files that hold tables: Parquet, CSV, JSON, ORC, Avro."""

from __future__ import annotations

from typing import Any

from skate.data.catalog import ReaderFormat, resolved
from skate.data.dataset import Dataset
from skate.data.reading.asked import HIVE as _HIVE
from skate.data.reading.asked import Paths, Shuffle, read_files
from skate.data.source.files.partitioning import Partitioning, PathPartitionFilter
from skate.data.source.formats.avro import AvroDatasource
from skate.data.source.formats.csv import CSVDatasource
from skate.data.source.formats.json import JSON_EXTENSIONS, JSONDatasource
from skate.data.source.formats.orc import ORCDatasource
from skate.data.source.formats.parquet import ParquetDatasource


def read_parquet(
    paths: Paths,
    *,
    filesystem: Any = None,
    catalog: Any = None,
    columns: list[str] | None = None,
    parallelism: int = -1,
    num_cpus: float | None = None,
    num_gpus: float | None = None,
    memory: float | None = None,
    tensor_column_schema: dict[str, Any] | None = None,
    partition_filter: PathPartitionFilter | None = None,
    partitioning: Partitioning | None = _HIVE,
    shuffle: Shuffle = None,
    include_paths: bool = False,
    include_row_hash: bool = False,
    file_extensions: list[str] | None = ParquetDatasource._FILE_EXTENSIONS,
    ignore_missing_paths: bool = False,
    skip_paths: list[str] | None = None,
    concurrency: int | None = None,
    override_num_blocks: int | None = None,
    label_selector: dict[str, str] | None = None,
    fallback_strategy: list[dict[str, Any]] | None = None,
    max_calls: int | None = None,
    resources: dict[str, float] | None = None,
    accelerator_type: str | None = None,
    runtime_env: dict[str, Any] | None = None,
    ray_remote_args: dict[str, Any] | None = None,
    **arrow_parquet_args: Any,
) -> Dataset:
    """A dataset of the rows of Parquet files; columns and row groups that nobody asks for are not read.

    Files larger than memory stream by row groups, and large row groups in batches.

    Args:
        paths: files, directories (all below them, but no names that begin with "." or "_"), patterns with "*", URLs.
        filesystem: a `pyarrow.fs` or fsspec filesystem, if the paths do not say.
        columns: the columns to read; None for all.
        tensor_column_schema: (dtype, shape) by name, for binary columns that hold raw arrays.
        partition_filter: keeps the paths that it is true for.
        partitioning: how values are read out of paths; None for not at all.
        shuffle: "files" or a FileShuffleConfig for files in random order.
        include_paths: have the file of each row in a column "path".
        include_row_hash: have a number that is each row's own in a column "row_hash".
        file_extensions: the files that directories are searched for; None for all.
        ignore_missing_paths: leave out paths that do not exist.
        skip_paths: files to leave out.
        concurrency: tasks at once.
        override_num_blocks: how many blocks to read, where row groups allow it.
        arrow_parquet_args: filter (a pyarrow expression), schema, batch_size, use_threads.

    Raises:
        FileNotFoundError: for a path that does not exist.
        ValueError: for no files, unknown columns, types of files that cannot be one, files that are no Parquet.
    """
    given = dict(locals())
    if catalog is not None:
        given.update(_of_catalog(catalog, paths, filesystem))
    parquet = ("columns", "tensor_column_schema", "include_row_hash", "skip_paths", "arrow_parquet_args")
    return read_files(ParquetDatasource, given, **{name: given[name] for name in parquet})


def _of_catalog(catalog: Any, table: Any, filesystem: Any) -> dict[str, Any]:
    found = resolved("read_parquet", catalog, table, ReaderFormat.PARQUET)
    chosen = found.filesystem if filesystem is None else filesystem
    return {"paths": found.path or table, "filesystem": chosen}


def read_csv(
    paths: Paths,
    *,
    filesystem: Any = None,
    parallelism: int = -1,
    num_cpus: float | None = None,
    num_gpus: float | None = None,
    memory: float | None = None,
    arrow_open_stream_args: dict[str, Any] | None = None,
    partition_filter: PathPartitionFilter | None = None,
    partitioning: Partitioning | None = _HIVE,
    include_paths: bool = False,
    ignore_missing_paths: bool = False,
    shuffle: Shuffle = None,
    file_extensions: list[str] | None = None,
    concurrency: int | None = None,
    override_num_blocks: int | None = None,
    label_selector: dict[str, str] | None = None,
    fallback_strategy: list[dict[str, Any]] | None = None,
    max_calls: int | None = None,
    resources: dict[str, float] | None = None,
    accelerator_type: str | None = None,
    runtime_env: dict[str, Any] | None = None,
    ray_remote_args: dict[str, Any] | None = None,
    **arrow_csv_args: Any,
) -> Dataset:
    """A dataset of the rows of CSV files; large ones stream, and are cut for several tasks.

    Args:
        paths: files, directories, patterns, URLs; see `read_parquet`, also for the arguments not told here.
        arrow_open_stream_args: for `open_input_stream`, as compression="gzip" where the name does not tell.
        file_extensions: read only files that end so.
        arrow_csv_args: read_options, parse_options (with invalid_row_handler) and convert_options of `pyarrow.csv`.

    Raises:
        FileNotFoundError: for a path that does not exist.
        pyarrow.ArrowInvalid: a ValueError, when rows are read that are no CSV; it names the file and the row.
    """
    given = dict(locals())
    return read_files(CSVDatasource, given, arrow_csv_args=arrow_csv_args)


def read_json(
    paths: Paths,
    *,
    lines: bool = False,
    filesystem: Any = None,
    parallelism: int = -1,
    num_cpus: float | None = None,
    num_gpus: float | None = None,
    memory: float | None = None,
    arrow_open_stream_args: dict[str, Any] | None = None,
    partition_filter: PathPartitionFilter | None = None,
    partitioning: Partitioning | None = _HIVE,
    include_paths: bool = False,
    ignore_missing_paths: bool = False,
    shuffle: Shuffle = None,
    file_extensions: list[str] | None = JSON_EXTENSIONS,
    concurrency: int | None = None,
    override_num_blocks: int | None = None,
    label_selector: dict[str, str] | None = None,
    fallback_strategy: list[dict[str, Any]] | None = None,
    max_calls: int | None = None,
    resources: dict[str, float] | None = None,
    accelerator_type: str | None = None,
    runtime_env: dict[str, Any] | None = None,
    ray_remote_args: dict[str, Any] | None = None,
    **arrow_json_args: Any,
) -> Dataset:
    """A dataset of JSON objects: one a line, or in one array a file; both stream.

    Args:
        paths: files, directories, patterns, URLs; see `read_parquet`, also for the arguments not told here.
        lines: each line is a value, whatever the file begins with.
        arrow_json_args: read_options and parse_options of `pyarrow.json`.

    Raises:
        FileNotFoundError: for a path that does not exist.
        ValueError: when lines are read that are no JSON; it names the file and the line.
    """
    given = dict(locals())
    return read_files(JSONDatasource, given, lines=lines, arrow_json_args=arrow_json_args)


def read_orc(
    paths: Paths,
    *,
    filesystem: Any = None,
    parallelism: int = -1,
    num_cpus: float | None = None,
    num_gpus: float | None = None,
    memory: float | None = None,
    partition_filter: PathPartitionFilter | None = None,
    partitioning: Partitioning | None = None,
    include_paths: bool = False,
    ignore_missing_paths: bool = False,
    shuffle: Shuffle = None,
    file_extensions: list[str] | None = ORCDatasource._FILE_EXTENSIONS,
    concurrency: int | None = None,
    override_num_blocks: int | None = None,
    label_selector: dict[str, str] | None = None,
    fallback_strategy: list[dict[str, Any]] | None = None,
    max_calls: int | None = None,
    resources: dict[str, float] | None = None,
    accelerator_type: str | None = None,
    runtime_env: dict[str, Any] | None = None,
    ray_remote_args: dict[str, Any] | None = None,
) -> Dataset:
    """A dataset of the rows of ORC files, read a stripe at a time. Arguments and errors are those of `read_parquet`."""
    return read_files(ORCDatasource, dict(locals()))


def read_avro(
    paths: Paths,
    *,
    filesystem: Any = None,
    parallelism: int = -1,
    num_cpus: float | None = None,
    num_gpus: float | None = None,
    memory: float | None = None,
    arrow_open_stream_args: dict[str, Any] | None = None,
    partition_filter: PathPartitionFilter | None = None,
    partitioning: Partitioning | None = None,
    include_paths: bool = False,
    ignore_missing_paths: bool = False,
    shuffle: Shuffle = None,
    file_extensions: list[str] | None = None,
    concurrency: int | None = None,
    override_num_blocks: int | None = None,
    label_selector: dict[str, str] | None = None,
    fallback_strategy: list[dict[str, Any]] | None = None,
    max_calls: int | None = None,
    resources: dict[str, float] | None = None,
    accelerator_type: str | None = None,
    runtime_env: dict[str, Any] | None = None,
    ray_remote_args: dict[str, Any] | None = None,
) -> Dataset:
    """A dataset of the records of Avro files; needs fastavro. Arguments and errors are those of `read_parquet`."""
    return read_files(AvroDatasource, dict(locals()))
