"""The running operator of an operation over all rows; see `skate.data.exchange.kernel` for the contract of a kernel.

Blocks are collected until there are no more, which determines the number of partitions. Meanwhile they are
kept in the object store, which spills to disk when full, and so are the parts into which they are split. A
worker holds one lot of blocks, or one partition, at a time.
"""

from __future__ import annotations

from collections import deque
from typing import Any

import pyarrow as pa

from skate.data.compute import Compute
from skate.data.context import DataContext
from skate.data.execution.bundle import Bundle
from skate.data.execution.operators import Running, Work

#: A partition larger than the target size by this factor is merged in several pieces, if its kernel allows that.
_SKEWED = 2
#: The copies of a partition in memory while it is merged: its parts and the result.
_PIECES_HELD = 2
_PARTITION_BYTES_MIN = 1 << 20


class ExchangeRunning(Running):
    """Collects all blocks, samples them if the kernel requires it, splits them into partitions, and merges the
    partitions.
    """

    def __init__(
        self,
        name: str,
        kernel: Any,
        partitions: int | None,
        context: DataContext,
        compute: Compute,
    ) -> None:
        super().__init__(name, kernel.inputs)
        self.kernel = kernel
        self.compute = compute
        self.wanted = partitions
        self._context = context
        self._most = 0
        self.taken: list[list[Bundle]] = [[] for _ in range(kernel.inputs)]
        self.samples: dict[tuple[int, int], Any] = {}
        self.parts: list[list[list[Any]]] = []  # by input and lot: the parts by partition
        self.partitions = 0
        self.plan: Any = None
        self._rows: list[list[int]] = []
        self._bytes = 0
        self._sampled = [0] * kernel.inputs  # blocks of each input that were sampled
        self._lots: list[list[tuple[int, list[Bundle]]]] = []  # by input: first row and blocks of each split
        self._todo: deque[Work] = deque()
        self._phase = "taking"
        self._left = 0  # unfinished pieces of this phase

    def holds(self, source: int) -> int:
        return 0  # it needs all rows before it returns any, so its producers are not held back

    # -- input

    def take(self, bundle: Bundle, source: int) -> None:
        self.counters.rows_in += bundle.rows
        taken = self.taken[source]
        if not self.kernel.keeps_empty:
            if not bundle.rows and taken:
                return  # empty blocks carry only their schema
            if len(taken) == 1 and not taken[0].rows:
                taken.clear()
        self.queued_bytes += bundle.bytes
        self._bytes += bundle.bytes
        taken.append(bundle)
        if self.kernel.samples and self._is_several():
            self._request_samples()

    def _is_several(self) -> bool:
        """True if the collected blocks make more than one partition."""
        if self.wanted is not None:
            return self.wanted > 1
        return self._count() > 1

    def _count(self) -> int:
        """The number of partitions for the collected blocks; each may exceed the target size by half."""
        return max(1, round(self._bytes / self._partition_bytes()))

    def _partition_bytes(self) -> int:
        """The size of a partition in bytes: small enough that the partitions being merged, and their results, fit
        into the budget.
        """
        if not self._most:
            import skate  # a plan that runs only in this process needs no session

            if not skate.is_initialized():
                return self._context.target_partition_size
            limits = self._context.limits()
            share = limits.budget_bytes // (_PIECES_HELD * limits.slots)
            self._most = min(self._context.target_partition_size, max(_PARTITION_BYTES_MIN, share))
        return self._most

    def _request_samples(self) -> None:
        for source, taken in enumerate(self.taken):
            for index in range(self._sampled[source], len(taken)):
                self._todo.append(Work(self, "sample", -1, [taken[index]], (source, index)))
                self._left += 1
            self._sampled[source] = len(taken)

    def end(self, source: int) -> None:
        super().end(source)
        self._advance()

    # -- phases

    def _advance(self) -> None:
        """Enter the next phase if the current one is done."""
        if self.open_inputs or self._left:
            return
        if self._phase == "taking":
            self._prepare()
            if self.partitions > 1 and not self.kernel.cuts:
                self._phase = "splitting"
                self._plan_splits()
                return
        if self._phase in ("taking", "splitting"):
            self._phase = "merging"
            self._plan_merges()

    def _prepare(self) -> None:
        for bundles in self.taken:
            if not bundles:
                bundles.append(Bundle.of(pa.table({})))
        self._rows = [[bundle.rows for bundle in bundles] for bundles in self.taken]
        self.kernel.check([bundles[0].schema for bundles in self.taken])
        self.partitions = self.wanted or self._count()
        if self.kernel.partitions_max is not None:
            self.partitions = min(self.partitions, self.kernel.partitions_max)
        if self.partitions > 1 or self.kernel.cuts:
            samples = [self.samples[key] for key in sorted(self.samples)]
            self.plan = self.kernel.prepare(samples, self.partitions, self._rows)
        else:
            self.plan = self.kernel.prepare([], 1, self._rows)

    def _plan_splits(self) -> None:
        """Combine neighbouring blocks until they are worth a task."""
        most = self._partition_bytes()
        for source, bundles in enumerate(self.taken):
            lots: list[tuple[int, list[Bundle]]] = []
            size = start = 0
            for bundle in bundles:
                if lots and size + bundle.bytes <= most:
                    lots[-1][1].append(bundle)
                    size += bundle.bytes
                else:
                    lots.append((start, [bundle]))
                    size = bundle.bytes
                start += bundle.rows
            self.parts.append([[] for _ in lots])
            for number, (first, lot) in enumerate(lots):
                self._todo.append(Work(self, "split", -1, lot, (source, first, number)))
            bundles.clear()
        self._left = len(self._todo)

    def _plan_merges(self) -> None:
        if self.kernel.cuts:
            self._plan_cuts()
        elif self.partitions == 1 and not self.parts:
            self._add_merge(0, [list(bundles) for bundles in self.taken])
            for bundles in self.taken:
                bundles.clear()
        else:
            for partition in range(self.partitions):
                self._plan_merge(partition)
            self.parts.clear()
        self._left = len(self._todo)

    def _plan_merge(self, partition: int) -> None:
        grouped: list[list[Any]] = []
        for lots in self.parts:
            parts = [lot[partition] for lot in lots]
            grouped.append([part for part in parts if part.rows] or parts[:1])
        divided = self.kernel.divides
        most = self._partition_bytes()
        if divided is None or sum(part.bytes for part in grouped[divided]) <= _SKEWED * most:
            self._add_merge(partition, grouped)
            return
        piece: list[Any] = []
        size = 0
        for part in grouped[divided]:
            if piece and size + part.bytes > most:
                self._add_merge(partition, [*grouped[:divided], piece, *grouped[divided + 1 :]])
                piece, size = [], 0
            piece.append(part)
            size += part.bytes
        self._add_merge(partition, [*grouped[:divided], piece, *grouped[divided + 1 :]])

    def _add_merge(self, partition: int, grouped: list[list[Any]]) -> None:
        flat = [bundle for group in grouped for bundle in group]
        extra = (partition, [len(group) for group in grouped])
        self._todo.append(Work(self, "merge", len(self._todo), flat, extra))

    def _plan_cuts(self) -> None:
        """Return the rows and blocks of which each partition consists."""
        taken = self.taken[0]
        first = at = 0
        for partition in range(self.partitions):
            low, high = self.kernel.reach(partition, self.plan)
            while first < len(taken) and at + taken[first].rows <= low:
                at += taken[first].rows
                first += 1
            bundles: list[Bundle] = []
            start = at
            for bundle in taken[first:]:
                if start >= high:
                    break
                begin, end = max(low - start, 0), min(high - start, bundle.rows)
                whole = not begin and end == bundle.rows
                bundles.append(bundle if whole else bundle.slice(begin, end - begin))
                start += bundle.rows
            self._add_merge(partition, [bundles or [taken[-1].slice(0, 0)]])
        taken.clear()

    # -- work

    def has_work(self) -> bool:
        return bool(self._todo) and not self.stopped

    def next_work(self) -> Work:
        work = self._todo.popleft()
        self.running += 1
        self.tasks += 1
        if work.kind != "sample":
            self.queued_bytes -= work.bytes
        return work

    def done(self, work: Work, result: Any = None) -> None:
        self.running -= 1
        self.counters.seconds.append(work.seconds)
        self._left -= 1
        if work.kind == "sample":
            self.samples[work.extra] = result
        elif work.kind == "split":
            source, _, number = work.extra
            self.parts[source][number] = result
            self.queued_bytes += sum(part.bytes for part in result)
        else:
            self.outputs.end(work.sequence)
        work.bundles = ()
        self._advance()

    def stop(self) -> None:
        super().stop()
        self._todo.clear()
        self.parts.clear()
        for bundles in self.taken:
            bundles.clear()

    @property
    def finished(self) -> bool:
        over = self._phase == "merging" and not self._left and not self._todo
        return self.stopped or (over and not self.outputs.ready)
