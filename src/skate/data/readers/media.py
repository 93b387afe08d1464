"""Datasets of files that hold text, bytes, arrays, images and samples for training."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from skate.data.dataset import Dataset
from skate.data.readers.read_options import Paths, Shuffle, read_files
from skate.data.source.files.path_partitions import Partitioning, PathPartitionFilter
from skate.data.source.formats.binary import BinaryDatasource
from skate.data.source.formats.images import ImageDatasource
from skate.data.source.formats.numpy import NumpyDatasource
from skate.data.source.formats.text import TextDatasource
from skate.data.source.formats.tfrecords import TFRecordDatasource
from skate.data.source.formats.webdataset import WebDatasetDatasource


def read_text(
    paths: Paths,
    *,
    encoding: str = "utf-8",
    drop_empty_lines: bool = True,
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
    """Read text files line by line, into a column "text"; large files stream, and are divided among several tasks.

    Args:
        paths: files, directories, patterns, URLs; see `read_parquet`, also for the arguments not listed here.
        encoding: the character encoding.
        drop_empty_lines: skip lines that are empty or blank.
    """
    given = dict(locals())
    return read_files(TextDatasource, given, encoding=encoding, drop_empty_lines=drop_empty_lines)


def read_binary_files(
    paths: Paths,
    *,
    include_paths: bool = False,
    filesystem: Any = None,
    parallelism: int = -1,
    num_cpus: float | None = None,
    num_gpus: float | None = None,
    memory: float | None = None,
    arrow_open_stream_args: dict[str, Any] | None = None,
    partition_filter: PathPartitionFilter | None = None,
    partitioning: Partitioning | None = None,
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
    """Read the bytes of files into a column "bytes". Arguments and errors are those of `read_parquet`."""
    return read_files(BinaryDatasource, dict(locals()))


def read_numpy(
    paths: Paths,
    *,
    filesystem: Any = None,
    parallelism: int = -1,
    arrow_open_stream_args: dict[str, Any] | None = None,
    partition_filter: PathPartitionFilter | None = None,
    partitioning: Partitioning | None = None,
    include_paths: bool = False,
    ignore_missing_paths: bool = False,
    shuffle: Shuffle = None,
    file_extensions: list[str] | None = NumpyDatasource._FILE_EXTENSIONS,
    concurrency: int | None = None,
    override_num_blocks: int | None = None,
    allow_pickle: bool = False,
    **numpy_load_args: Any,
) -> Dataset:
    """Read the arrays in `.npy` files into a column "data": one row per entry of the first dimension.

    `allow_pickle` and `numpy_load_args` are passed to `numpy.load`; untrusted pickles can run any code.
    """
    given = dict(locals())
    return read_files(NumpyDatasource, given, load_args={"allow_pickle": allow_pickle, **numpy_load_args})


def read_images(
    paths: Paths,
    *,
    filesystem: Any = None,
    parallelism: int = -1,
    num_cpus: float | None = None,
    num_gpus: float | None = None,
    memory: float | None = None,
    arrow_open_file_args: dict[str, Any] | None = None,
    partition_filter: PathPartitionFilter | None = None,
    partitioning: Partitioning | None = None,
    size: tuple[int, int] | None = None,
    mode: str | None = None,
    include_paths: bool = False,
    ignore_missing_paths: bool = False,
    shuffle: Shuffle = None,
    file_extensions: list[str] | None = ImageDatasource._FILE_EXTENSIONS,
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
    """Read images as arrays of (height, width[, channels]), into a column "image"; needs Pillow.

    Args:
        paths: files, directories, patterns, URLs; see `read_parquet`, also for the arguments not listed here.
        size: (height, width) to scale all images to.
        mode: the Pillow mode to convert all images to, such as "RGB" or "L".

    Raises ValueError when reading a file that does not decode.
    """
    given = dict(locals())
    return read_files(ImageDatasource, given, size=size, mode=mode)


def read_tfrecords(
    paths: Paths,
    *,
    filesystem: Any = None,
    parallelism: int = -1,
    num_cpus: float | None = None,
    num_gpus: float | None = None,
    memory: float | None = None,
    arrow_open_stream_args: dict[str, Any] | None = None,
    partition_filter: PathPartitionFilter | None = None,
    include_paths: bool = False,
    ignore_missing_paths: bool = False,
    tf_schema: Any = None,
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
    """Read the tf.train.Example records of TFRecord files, without TensorFlow.

    A feature with one value in each record of a block becomes a scalar, others become lists. `tf_schema` (of
    tensorflow-metadata) sets the type of each feature, and which are lists.
    """
    given = dict(locals())
    return read_files(TFRecordDatasource, given, tf_schema=tf_schema)


def read_webdataset(
    paths: Paths,
    *,
    filesystem: Any = None,
    parallelism: int = -1,
    num_cpus: float | None = None,
    num_gpus: float | None = None,
    memory: float | None = None,
    arrow_open_stream_args: dict[str, Any] | None = None,
    partition_filter: PathPartitionFilter | None = None,
    decoder: bool | str | Callable[..., Any] | list[Any] | None = True,
    fileselect: list[str] | Callable[..., Any] | None = None,
    filerename: list[Any] | Callable[..., Any] | None = None,
    suffixes: list[str] | Callable[..., Any] | None = None,
    verbose_open: bool = False,
    shuffle: Shuffle = None,
    include_paths: bool = False,
    file_extensions: list[str] | None = None,
    concurrency: int | None = None,
    override_num_blocks: int | None = None,
    expand_json: bool = False,
    label_selector: dict[str, str] | None = None,
    fallback_strategy: list[dict[str, Any]] | None = None,
    max_calls: int | None = None,
    resources: dict[str, float] | None = None,
    accelerator_type: str | None = None,
    runtime_env: dict[str, Any] | None = None,
    ray_remote_args: dict[str, Any] | None = None,
) -> Dataset:
    """Read the samples of tar files in WebDataset format: members that share a name up to the first dot of the
    base name form a row.

    Args:
        paths: files, directories, patterns, URLs; see `read_parquet`, also for the arguments not listed here.
        decoder: True to decode members by their extensions, None for bytes, or a function (or several) of a sample.
        fileselect: patterns or a function of names: the members to read.
        filerename: pairs of patterns and replacements, or a function of names.
        suffixes: patterns or a function of the columns to keep.
        expand_json: make the entries of a "json" member separate columns.
    """
    given = dict(locals())
    names = ("decoder", "fileselect", "filerename", "suffixes", "verbose_open", "expand_json")
    return read_files(WebDatasetDatasource, given, **{name: given[name] for name in names})
