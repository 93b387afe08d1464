"""Metadata of blocks: rows, bytes, source files, and the time it took to make them."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from skate.data.block import table as tables


@dataclass
class BlockExecStats:
    """When and where a block was made, in seconds; None for values that were not measured."""

    task_idx: int | None = None
    node_id: str = ""
    start_time_s: float | None = None
    end_time_s: float | None = None
    wall_time_s: float | None = None
    block_transform_time_s: float = 0
    input_prep_time_s: float | None = None
    function_body_time_s: float | None = None
    output_build_time_s: float | None = None
    stage_time_s: dict[str, float] | None = None
    block_ser_time_s: float | None = None
    cpu_time_s: float | None = None

    @staticmethod
    def builder() -> _Clock:
        """A clock that starts when it is created; `build()` returns the statistics so far."""
        return _Clock()


class _Clock:
    def __init__(self) -> None:
        self._start, self._start_wall, self._start_cpu = time.time(), time.perf_counter(), time.process_time()

    def build(self, block_ser_time_s: float | None = None) -> BlockExecStats:
        """Return the statistics of the block that was made since this clock started."""
        return BlockExecStats(
            start_time_s=self._start,
            end_time_s=time.time(),
            wall_time_s=time.perf_counter() - self._start_wall,
            block_ser_time_s=block_ser_time_s,
            cpu_time_s=time.process_time() - self._start_cpu,
        )


@dataclass
class TaskExecWorkerStats:
    """Statistics of the task that made a block: seconds, and the peak memory in bytes that only its worker held."""

    task_wall_time_s: float
    max_uss_bytes: int | None = None
    custom_op_stats: list[Any] = field(default_factory=list)


@dataclass
class BlockStats:
    """Rows and bytes of a block, and how it was made."""

    num_rows: int | None
    size_bytes: int | None
    exec_stats: BlockExecStats | None
    task_exec_stats: TaskExecWorkerStats | None = None


@dataclass
class BlockMetadata(BlockStats):
    """Metadata of a block, known without fetching it: rows, bytes, source files."""

    num_rows: int | None = None
    size_bytes: int | None = None
    exec_stats: BlockExecStats | None = None
    task_exec_stats: TaskExecWorkerStats | None = None
    input_files: Sequence[str] | None = None

    def to_stats(self) -> BlockStats:
        """Return a copy without the files."""
        return BlockStats(self.num_rows, self.size_bytes, self.exec_stats, self.task_exec_stats)


@dataclass
class BlockMetadataWithSchema(BlockMetadata):
    """Metadata of a block, with the names and types of its columns."""

    schema: Any = None

    @property
    def metadata(self) -> BlockMetadata:
        """The metadata without the schema."""
        return BlockMetadata(
            self.num_rows, self.size_bytes, self.exec_stats, self.task_exec_stats, self.input_files
        )

    @staticmethod
    def from_metadata(metadata: BlockMetadata, schema: Any = None) -> BlockMetadataWithSchema:
        """Combine metadata with a schema."""
        return BlockMetadataWithSchema(
            metadata.num_rows, metadata.size_bytes, metadata.exec_stats, metadata.task_exec_stats,
            metadata.input_files, schema,
        )  # fmt: skip

    @staticmethod
    def from_block(
        block: Any,
        block_exec_stats: BlockExecStats | None = None,
        task_exec_stats: TaskExecWorkerStats | None = None,
    ) -> BlockMetadataWithSchema:
        """Return the metadata of a local block, a table or a DataFrame."""
        table = block if isinstance(block, pa.Table) else tables.from_batch(block)
        return BlockMetadataWithSchema(
            table.num_rows, tables.size_of(table), block_exec_stats, task_exec_stats, None, table.schema
        )


def to_stats(metas: Iterable[BlockMetadata]) -> list[BlockStats]:
    """Return the metadata of blocks without their files."""
    return [each.to_stats() for each in metas]
