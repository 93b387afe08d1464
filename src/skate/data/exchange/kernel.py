"""The contract between an operation over all rows and the engine.

Blocks pass through the kernel's `steps`, which run in the task that makes the block. If there is little data,
or only one partition is wanted, `merge` receives the blocks unchanged. Otherwise neighbouring blocks are
combined until they are worth a task, `split` divides each lot into partitions, and `merge` is called for each
partition with its parts, in block order. A kernel that must inspect the data first (a sort, for its boundaries)
has `sample`, called for each block before any is split, and `prepare`, called once with all samples. A kernel
that only recuts existing blocks (`cuts`) is never asked to split.

All methods but `prepare` and `check` run in workers, so a kernel is pickled; all but `prepare` are pure
functions of their arguments.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa


class Kernel:
    """Base of operations over all rows; subclasses define how blocks are split and merged."""

    #: The name of the operation in plans and statistics.
    name = "Exchange"
    #: The number of input datasets.
    inputs = 1
    #: True if `sample` must see all blocks before the first is split.
    samples = False
    #: The largest sensible number of partitions; None for no limit.
    partitions_max: int | None = None
    #: True if each partition is a consecutive run of the input rows, so that nothing has to be split; see `reach`.
    cuts = False
    #: The input whose parts of one partition may be merged in chunks, each with all parts of the other inputs; None if
    #: a partition must be merged whole. A partition that is much larger than others is divided so.
    divides: int | None = None

    #: True if blocks without rows count as blocks; otherwise they are dropped before anything is planned.
    keeps_empty = False

    #: True if the output has the same columns and number of rows as the input.
    keeps_columns = False
    keeps_count = False
    #: True if blocks that came as DataFrames count as DataFrames afterwards.
    keeps_frames = False

    def columns(self, source: int) -> tuple[str, ...] | None:
        """Return the columns of an input that the operation reads; None for all."""
        return None

    def steps(self, source: int) -> Sequence[Any]:
        """Return the steps to run on an input's blocks where they are made. They drop data that need not move."""
        return ()

    def check(self, schemas: Sequence[pa.Schema]) -> None:
        """Raise ValueError or TypeError if the operation does not support inputs with these schemas; called
        once they are known."""

    def sample(self, block: pa.Table) -> Any:
        """Extract the facts about a block that `prepare` needs."""
        raise NotImplementedError

    def prepare(self, samples: Sequence[Any], partitions: int, rows: Sequence[Sequence[int]]) -> Any:
        """Compute the plan for `split` and `merge`: boundaries, offsets, seeds. `rows` lists the rows of each
        block, by input.
        """
        return None

    def split(self, block: pa.Table, source: int, start: int, plan: Any, partitions: int) -> list[pa.Table]:
        """Split a block into parts by partition; its first row is row number `start` of input number `source`."""
        raise NotImplementedError

    def merge(self, parts: Sequence[Sequence[pa.Table]], partition: int, plan: Any) -> Iterable[pa.Table]:
        """Merge the parts of one partition, by input, into its blocks, at least one. Each input has at least
        one part."""
        raise NotImplementedError

    def reach(self, partition: int, plan: Any) -> tuple[int, int]:
        """For kernels that cut: return the first row of a partition and the row after its last."""
        raise NotImplementedError
