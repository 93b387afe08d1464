"""Datasets of files that hold tables: Parquet, CSV, JSON, ORC, Avro."""

from __future__ import annotations

from typing import Any

from skate.data.catalog import ReaderFormat, resolved
from skate.data.dataset import Dataset
from skate.data.readers.read_options import HIVE as _HIVE
from skate.data.readers.read_options import Paths, Shuffle, read_files
from skate.data.source.files.path_partitions import Partitioning, PathPartitionFilter
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
    """Read Parquet files; columns and row groups that are not needed are not read.

    Files larger than memory stream by row groups, and large row groups in batches.

    Args:
        paths: files, directories (recursively, skipping names that begin with "." or "_"), patterns with "*", URLs.
        filesystem: a `pyarrow.fs` or fsspec filesystem; by default derived from the paths.
        columns: the columns to read; None for all.
        tensor_column_schema: (dtype, shape) by name, for binary columns that hold raw arrays.
        partition_filter: a predicate on paths; reads the paths for which it is true.
        partitioning: how values are parsed from paths; None for no parsing.
        shuffle: "files" or a FileShuffleConfig for files in random order.
        include_paths: add the file of each row as a column "path".
        include_row_hash: add a number unique to each row as a column "row_hash".
        file_extensions: the extensions to look for in directories; None for all.
        ignore_missing_paths: skip paths that do not exist.
        skip_paths: files to skip.
        concurrency: the number of concurrent tasks.
        override_num_blocks: the number of blocks to read.
        arrow_parquet_args: filter (a pyarrow expression), schema, batch_size, use_threads; to_batches_kwargs, a dict of the
            latter two; _block_udf, a function of a table that is called with each block.

    Raises:
        FileNotFoundError: for a path that does not exist.
        ValueError: for no files, unknown columns, incompatible types of files, files that are not Parquet.
    """
    given = dict(locals())
    if catalog is not None:
        given.update(_of_catalog(catalog, paths, filesystem))
    return _read_parquet(given, arrow_parquet_args)


def _read_parquet(given: dict[str, Any], arrow: dict[str, Any]) -> Dataset:
    if "partitioning" in (arrow.get("dataset_kwargs") or {}):
        raise ValueError("dataset_kwargs cannot have 'partitioning'; pass partitioning=... to read_parquet")
    function = arrow.pop("_block_udf", None)
    batches = arrow.pop("to_batches_kwargs", None) or {}
    given["arrow_parquet_args"] = arrow | batches
    parquet = ("columns", "tensor_column_schema", "include_row_hash", "skip_paths", "arrow_parquet_args")
    ds = read_files(ParquetDatasource, given, **{name: given[name] for name in parquet})
    return ds if function is None else ds.map_batches(function, batch_format="pyarrow", batch_size=None)


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
    """Read CSV files; large ones stream, and are divided among several tasks.

    Args:
        paths: files, directories, patterns, URLs; see `read_parquet`, also for the arguments not listed here.
        arrow_open_stream_args: for `open_input_stream`, such as compression="gzip" if the file name does not show it.
        file_extensions: read only files with these extensions.
        arrow_csv_args: read_options, parse_options (with invalid_row_handler) and convert_options of `pyarrow.csv`.

    Raises:
        FileNotFoundError: for a path that does not exist.
        pyarrow.ArrowInvalid: a ValueError, for rows that are not valid CSV; it names the file and the row.
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
    """Read JSON files: one object per line, or one array of objects per file; both stream.

    Args:
        paths: files, directories, patterns, URLs; see `read_parquet`, also for the arguments not listed here.
        lines: treat each line as a value, regardless of how the file begins.
        arrow_json_args: read_options and parse_options of `pyarrow.json`.

    Raises:
        FileNotFoundError: for a path that does not exist.
        ValueError: for lines that are not valid JSON; it names the file and the line.
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
    """Read ORC files, one stripe at a time. Arguments and errors are those of `read_parquet`."""
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
    """Read the records of Avro files; needs fastavro. Arguments and errors are those of `read_parquet`."""
    return read_files(AvroDatasource, dict(locals()))
