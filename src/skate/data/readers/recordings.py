"""Datasets of recordings: audio, video, robot logs; and functions for unsupported formats."""

from __future__ import annotations

from typing import Any

from skate.data.dataset import Dataset
from skate.data.readers.read_options import Paths, Shuffle, read_files
from skate.data.source.files.path_partitions import Partitioning, PathPartitionFilter
from skate.data.source.formats.recordings import AudioDatasource, MCAPDatasource, TimeRange, VideoDatasource


def read_audio(
    paths: Paths,
    *,
    filesystem: Any = None,
    arrow_open_stream_args: dict[str, Any] | None = None,
    partition_filter: PathPartitionFilter | None = None,
    partitioning: Partitioning | None = None,
    include_paths: bool = False,
    ignore_missing_paths: bool = False,
    file_extensions: list[str] | None = AudioDatasource._FILE_EXTENSIONS,
    shuffle: Shuffle = None,
    concurrency: int | None = None,
    override_num_blocks: int | None = None,
    num_cpus: float | None = None,
    num_gpus: float | None = None,
    memory: float | None = None,
    label_selector: dict[str, str] | None = None,
    fallback_strategy: list[dict[str, Any]] | None = None,
    max_calls: int | None = None,
    resources: dict[str, float] | None = None,
    accelerator_type: str | None = None,
    runtime_env: dict[str, Any] | None = None,
    ray_remote_args: dict[str, Any] | None = None,
) -> Dataset:
    """Read audio files: "amplitude", an array of (channels, samples), and "sample_rate"; needs soundfile.

    Arguments and errors are those of `read_parquet`.
    """
    return read_files(AudioDatasource, dict(locals()))


def read_videos(
    paths: Paths,
    *,
    filesystem: Any = None,
    arrow_open_stream_args: dict[str, Any] | None = None,
    partition_filter: PathPartitionFilter | None = None,
    partitioning: Partitioning | None = None,
    include_paths: bool = False,
    include_timestamps: bool = False,
    fps: float | None = None,
    resize: tuple[int, int] | None = None,
    ignore_missing_paths: bool = False,
    file_extensions: list[str] | None = VideoDatasource._FILE_EXTENSIONS,
    shuffle: Shuffle = None,
    concurrency: int | None = None,
    override_num_blocks: int | None = None,
    num_cpus: float | None = None,
    num_gpus: float | None = None,
    memory: float | None = None,
    label_selector: dict[str, str] | None = None,
    fallback_strategy: list[dict[str, Any]] | None = None,
    max_calls: int | None = None,
    resources: dict[str, float] | None = None,
    accelerator_type: str | None = None,
    runtime_env: dict[str, Any] | None = None,
    ray_remote_args: dict[str, Any] | None = None,
) -> Dataset:
    """Read the frames of videos: "frame", an array of (height, width, 3), and "frame_index"; needs PyAV.

    Args:
        paths: files, directories, patterns, URLs; see `read_parquet`, also for the arguments not listed here.
        include_timestamps: add the start and end of each frame, in seconds, as "frame_timestamp".
        fps: frames per second to keep.
        resize: (height, width) to scale all frames to.
    """
    given = dict(locals())
    return read_files(VideoDatasource, given, include_timestamps=include_timestamps, fps=fps, resize=resize)


def read_mcap(
    paths: Paths,
    *,
    topics: list[str] | set[str] | None = None,
    time_range: TimeRange | None = None,
    message_types: list[str] | set[str] | None = None,
    include_metadata: bool = True,
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
    """Read the messages in MCAP files, one per row, with their raw bytes; needs mcap.

    Args:
        paths: files, directories, patterns, URLs; see `read_parquet`, also for the arguments not listed here.
        topics: read only messages of these topics.
        time_range: read only messages logged in this time.
        message_types: read only messages whose schemas have these names.
        include_metadata: add the channel, the encoding and the schema.
    """
    given = dict(locals())
    names = ("topics", "time_range", "message_types", "include_metadata")
    return read_files(MCAPDatasource, given, **{name: given[name] for name in names})


def read_zarr(path: str, **options: Any) -> Dataset:
    """Not supported: raises NotImplementedError with the alternative."""
    raise NotImplementedError(
        "read_zarr is not supported; open the array with zarr in a function of map_batches, over ray.data.range(chunks)"
    )


def read_lerobot(root: Paths, **options: Any) -> Dataset:
    """Not supported: raises NotImplementedError with the alternative."""
    raise NotImplementedError(
        "read_lerobot is not supported; the episodes are Parquet files and videos below the root: read_parquet, read_videos"
    )
