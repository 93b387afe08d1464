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

    #: How the operation is called in plans and statistics.
    name = "Exchange"
    #: How many datasets go in.
    inputs = 1
    #: Whether `sample` must see all blocks before the first is split.
    samples = False
    #: How many partitions are sensible at most; None if any number is.
    partitions_max: int | None = None
    #: Whether each partition is a run of the rows as they are, so that nothing need be split; see `reach`.
    cuts = False
    #: The input whose parts of one partition may be merged some at a time, each time with all parts of the others; None if
    #: a partition must be merged whole. A partition that is much larger than others is divided so.
    divides: int | None = None

    #: Whether what comes out has the columns, and as many rows, as what goes in.
    keeps_columns = False
    keeps_count = False

    def columns(self, source: int) -> tuple[str, ...] | None:
        """The columns of an input that are looked at at all; None if all are."""
        return None

    def steps(self, source: int) -> Sequence[Any]:
        """The steps to run on an input's blocks where they are made; data that need not move is dropped there."""
        return ()

    def check(self, schemas: Sequence[pa.Schema]) -> None:
        """Raise ValueError or TypeError if inputs of such schemas cannot be worked on; called once they are known."""

    def sample(self, block: pa.Table) -> Any:
        """Extract the facts about a block that `prepare` needs."""
        raise NotImplementedError

    def prepare(self, samples: Sequence[Any], partitions: int, rows: Sequence[Sequence[int]]) -> Any:
        """Compute the plan for `split` and `merge`: boundaries, offsets, seeds. `rows` lists the rows of each
        block, by input.
        """
        return None

    def split(self, block: pa.Table, source: int, start: int, plan: Any, partitions: int) -> list[pa.Table]:
        """The parts of a block by partition; its first row is row number `start` of input number `source`."""
        raise NotImplementedError

    def merge(self, parts: Sequence[Sequence[pa.Table]], partition: int, plan: Any) -> Iterable[pa.Table]:
        """The blocks of one partition, at least one, from its parts by input. Each input has at least one part."""
        raise NotImplementedError

    def reach(self, partition: int, plan: Any) -> tuple[int, int]:
        """Of a kernel that cuts: the first row of a partition, and the row behind its last."""
        raise NotImplementedError
