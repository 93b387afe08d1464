"""Arguments common to all read functions: files, number of blocks, resources."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

from skate.data.compute import Compute
from skate.data.dataset import Dataset
from skate.data.plan.operators import Read
from skate.data.source.files.path_partitions import Partitioning, PartitionStyle
from skate.data.source.files.source import FileShuffleConfig

Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
Shuffle = str | FileShuffleConfig | None
HIVE = Partitioning(PartitionStyle.HIVE)

_FILES = (
    "filesystem", "partition_filter", "partitioning", "ignore_missing_paths", "shuffle", "include_paths", "file_extensions",
)  # fmt: skip
_REMOTE = (
    "num_cpus", "num_gpus", "memory", "label_selector", "fallback_strategy", "max_calls", "resources", "accelerator_type",
    "runtime_env",
)  # fmt: skip


def files_of(given: dict[str, Any]) -> dict[str, Any]:
    """Select the arguments about files and how they are opened."""
    found = {name: given[name] for name in _FILES if name in given}
    found["open_stream_args"] = given.get("arrow_open_stream_args") or given.get("arrow_open_file_args")
    return found


def checked_blocks(blocks: int) -> int:
    """Return the requested number of blocks, -1 for any number. Raises ValueError for others below 1."""
    if blocks != -1 and blocks < 1:
        raise ValueError(
            f"`parallelism` must either be -1 or a positive integer, and so must override_num_blocks, got {blocks}"
        )
    return blocks


def dataset_of(source: Any, given: dict[str, Any]) -> Dataset:
    """Create a dataset that reads a datasource, from a read function's arguments.

    Raises ValueError for invalid numbers.
    """
    blocks = given.get("override_num_blocks")
    if blocks is None:
        blocks = given.get("parallelism", -1)
    concurrency = given.get("concurrency")
    if concurrency is not None and concurrency < 1:
        raise ValueError(f"concurrency must be >= 1, got {concurrency}")
    remote = dict(given.get("ray_remote_args") or {})
    remote.update({name: given[name] for name in _REMOTE if given.get(name) is not None})
    return Dataset(
        Read(
            datasource=source,
            parallelism=-1 if blocks is None else checked_blocks(blocks),
            compute=Compute(tasks=concurrency, remote_args=remote),
        )
    )


def read_files(make: Callable[..., Any], given: dict[str, Any], **more: Any) -> Dataset:
    """Create a dataset of files from all arguments of a read function and the options of its format."""
    return dataset_of(make(given["paths"], **more, **files_of(given)), given)
