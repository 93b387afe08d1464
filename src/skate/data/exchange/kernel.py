"""The contract between an operation that needs all rows and the engine.

The engine calls, for each block of each input, `split`, in a task of its own; then, for each partition, `merge` with the parts of
all blocks, in the order of the blocks. An operation that must see the data first (a sort, for its boundaries) has `sample`,
called for each block before any is split, and `prepare`, called once with all samples. When there is little data there is one
partition: `split` is not called, and `merge` gets the blocks as they are.

All methods but `prepare` run in workers, so a kernel is pickled; all are pure functions of their arguments.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa


class Kernel:
    """What an operation over all rows does with blocks. Subclasses say how."""

    #: How the operation is called in plans and statistics.
    name = "Exchange"
    #: How many datasets go in.
    inputs = 1
    #: Whether `sample` must see all blocks before the first is split.
    samples = False
    #: How many partitions are sensible at most; None if any number is.
    partitions_max: int | None = None

    def sample(self, block: pa.Table) -> Any:
        """What `prepare` must know of a block."""
        raise NotImplementedError

    def prepare(self, samples: Sequence[Any], partitions: int, rows: Sequence[int]) -> Any:
        """What `split` and `merge` must know: boundaries, offsets, seeds; `rows` counts those of each block, in order."""
        return None

    def split(self, block: pa.Table, source: int, index: int, plan: Any, partitions: int) -> list[pa.Table]:
        """The parts of a block by partition: block number `index` of input number `source`."""
        raise NotImplementedError

    def merge(self, parts: Sequence[Sequence[pa.Table]], partition: int, plan: Any) -> Iterator[pa.Table]:
        """The blocks of one partition, from its parts by input."""
        raise NotImplementedError
