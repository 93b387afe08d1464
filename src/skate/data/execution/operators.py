"""The operators of a running plan: their handling of incoming blocks, and the work they have to run.

Nothing here waits or runs anything: operators accept blocks, hand out work and accept its results in any
order. Their output is in input order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

from skate.data.compute import Compute
from skate.data.execution.bundle import Bundle


class Work:
    """One piece of work of an operator, the content of one task."""

    __slots__ = (
        "operator",
        "kind",
        "sequence",
        "bundles",
        "extra",
        "bytes",
        "seconds",
        "blocks",
        "counted_s",
    )

    def __init__(
        self, operator: Running, kind: str, sequence: int, bundles: Sequence[Any], extra: Any = None
    ) -> None:
        self.operator = operator
        self.kind = kind  # chain, sample, split, merge
        self.sequence = sequence
        self.bundles = bundles
        self.extra = extra
        self.seconds = 0.0
        self.blocks = 0  # results so far
        self.counted_s = 0.0  # seconds of those results
        self.bytes = sum(bundle.bytes for bundle in bundles if isinstance(bundle, Bundle))

    def __repr__(self) -> str:
        return f"<Work {self.kind} {self.sequence} of {self.operator.name}>"


class Outputs:
    """Results of pieces of work that run concurrently, returned in the order of the pieces."""

    def __init__(self, ordered: bool) -> None:
        self.ordered = ordered
        self.head = 0
        self.waiting: dict[int, list[Any]] = {}
        self.ended: set[int] = set()
        self.ready: deque[Any] = deque()
        self.ready_bytes = 0
        self.waiting_bytes = 0

    @property
    def bytes(self) -> int:
        """The bytes of all results that were not taken yet."""
        return self.ready_bytes + self.waiting_bytes

    def add(self, sequence: int, bundle: Bundle) -> None:
        """Add a result of piece number `sequence`."""
        if not self.ordered or sequence == self.head:
            self.ready.append(bundle)
            self.ready_bytes += bundle.bytes
        else:
            self.waiting.setdefault(sequence, []).append(bundle)
            self.waiting_bytes += bundle.bytes

    def end(self, sequence: int) -> None:
        """Record that a piece of work has no more results."""
        self.ended.add(sequence)
        while self.head in self.ended:
            self.ended.discard(self.head)
            self.head += 1
            for bundle in self.waiting.pop(self.head, ()):
                self.ready.append(bundle)
                self.waiting_bytes -= bundle.bytes
                self.ready_bytes += bundle.bytes

    def pop(self) -> Bundle:
        """Remove and return the next result."""
        bundle: Bundle = self.ready.popleft()
        self.ready_bytes -= bundle.bytes
        return bundle

    def clear(self) -> None:
        """Discard all results."""
        self.ready.clear()
        self.waiting.clear()
        self.ready_bytes = self.waiting_bytes = 0


class Flow:
    """Blocks that have passed a point, and their bytes."""

    __slots__ = ("blocks", "bytes")

    def __init__(self) -> None:
        self.blocks = self.bytes = 0

    def add(self, blocks: int, size: int) -> None:
        """Count blocks."""
        self.blocks += blocks
        self.bytes += size


class OperatorCounters:
    """Counters for statistics and metrics."""

    __slots__ = (
        "rows_in",
        "rows_out",
        "bytes_out",
        "rows_of_blocks",
        "bytes_of_blocks",
        "seconds",
        "seconds_of_blocks",
        "here",
        "actors",
        "received",
        "begun",
        "processed",
        "taken",
        "with_results",
        "failed",
        "held_back_s",
        "unread_s",
    )

    def __init__(self) -> None:
        self.rows_in = self.rows_out = self.bytes_out = 0
        self.rows_of_blocks: list[int] = []
        self.bytes_of_blocks: list[int] = []
        self.seconds: list[float] = []  # by piece of work
        self.seconds_of_blocks: list[float] = []
        self.here = 0  # pieces that ran in this process
        self.actors = 0
        self.received = Flow()
        self.begun = Flow()  # inputs of pieces that were started
        self.processed = Flow()  # inputs of pieces that have ended
        self.taken = Flow()  # results that have gone on to the consumer
        self.with_results = 0  # pieces with at least one result
        self.failed = 0  # pieces
        self.held_back_s = 0.0  # seconds in which work was queued, and none could start
        self.unread_s = 0.0  # seconds in which pieces ran, and no result of theirs was read

    def give(self, bundle: Bundle) -> None:
        """Count an output block."""
        self.rows_out += bundle.rows
        self.bytes_out += bundle.bytes
        self.rows_of_blocks.append(bundle.rows)
        self.bytes_of_blocks.append(bundle.bytes)


class Running:
    """Base of running operators."""

    #: True if blocks pass through unchanged, so that the consumers of its output hold back its producers.
    passes = False

    def __init__(self, name: str, inputs: int, ordered: bool = True) -> None:
        self.name = name
        self.inputs = inputs
        self.compute = Compute()
        self.outputs = Outputs(ordered)
        self.open_inputs = inputs
        self.running = 0
        self.stopped = False  # no consumer needs more output
        self.full = False  # it needs no more input
        self.apart = False  # its work is never done in the driver
        self.queued_bytes = 0
        self.cpus = 1.0  # resources that one of its tasks requests
        self.counters = OperatorCounters()
        self.tasks = 0
        self.bytes_out = 0

    def holds(self, source: int) -> int:
        """Return the bytes of unprocessed blocks of an input that can be processed without further input."""
        return self.queued_bytes

    def take(self, bundle: Bundle, source: int) -> None:
        """Accept a block from an input."""
        raise NotImplementedError

    def end(self, source: int) -> None:
        """Record that an input has no more blocks."""
        self.open_inputs -= 1

    def has_work(self) -> bool:
        """True if there is work to run."""
        return False

    def next_work(self) -> Work:
        """Return the next piece of work to run."""
        raise NotImplementedError

    def give(self, work: Work, bundle: Bundle) -> None:
        """Accept a block that a piece of work has produced."""
        self.count(bundle)
        self.outputs.add(work.sequence, bundle)

    def count(self, bundle: Bundle) -> None:
        """Count an output block in the statistics."""
        self.bytes_out += bundle.bytes
        self.counters.give(bundle)

    def done(self, work: Work, result: Any = None) -> None:
        """Record that a piece of work has ended."""
        self.running -= 1
        self.counters.seconds.append(work.seconds)
        self.outputs.end(work.sequence)

    def stop(self) -> None:
        """Stop early because no consumer needs more: discard queued blocks."""
        self.stopped = True
        self.outputs.clear()
        self.queued_bytes = 0

    @property
    def finished(self) -> bool:
        """True once no more output will come."""
        if self.stopped:
            return True
        return not (self.open_inputs or self.running or self.outputs.ready or self.has_work())

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name} running={self.running} ready={len(self.outputs.ready)}>"


class Rest:
    """Blocks left over by a piece of work in the driver, with the steps that they still have to pass."""

    __slots__ = ("bundles", "steps")

    def __init__(self, bundles: list[Bundle], steps: Sequence[Any]) -> None:
        self.bundles = bundles
        self.steps = steps


class ChainRunning(Running):
    """Runs a chain of steps over blocks one by one, or over read tasks."""

    def __init__(
        self,
        name: str,
        steps: Sequence[Any],
        sources: Sequence[Any] | None = None,
        compute: Compute | None = None,
        rows_at_least: int = 0,
        ordered: bool = True,
    ) -> None:
        super().__init__(name, 0 if sources is not None else 1, ordered)
        self.steps = list(steps)
        self.compute = compute or Compute()
        self.rows_at_least = rows_at_least
        self.bytes_at_least = 0
        self.queue: deque[Any] = deque([source] for source in sources or ())
        #: The number of pieces into which small work is cut, for a pool or where it is slow, and the row
        #: count of which each is a multiple.
        self.spread = 1
        self.unit = 1
        self._closed = 0
        self.cpus = float(self.compute.remote_args.get("num_cpus") or 1)
        self._gathered: list[Bundle] = []
        self._gathered_rows = 0
        self._next = 0

    def take(self, bundle: Bundle, source: int) -> None:
        self.counters.rows_in += bundle.rows
        self._gathered.append(bundle)
        self._gathered_rows += bundle.rows
        enough = self._gathered_rows >= self.rows_at_least
        if enough and sum(each.bytes for each in self._gathered) >= self.bytes_at_least:
            self._close()

    def end(self, source: int) -> None:
        super().end(source)
        if self._gathered:
            self._close()

    def _close(self) -> None:
        self.queued_bytes += sum(bundle.bytes for bundle in self._gathered)
        # The first blocks of a pool are cut; otherwise a single block would keep one actor busy and the others idle.
        pieces = self.spread - self._closed if self.compute.actors is not None else 1
        for piece in cut(self._gathered, pieces, self.unit):
            self.queue.append(piece)
            self._closed += 1
        self._gathered = []
        self._gathered_rows = 0

    def has_work(self) -> bool:
        return bool(self.queue) and not self.stopped

    def next_work(self) -> Work:
        found = self.queue.popleft()
        if isinstance(found, Rest):
            work = Work(self, "chain", self._next, found.bundles, found.steps)
        else:
            work = Work(self, "chain", self._next, found)
        self.queued_bytes -= work.bytes
        self._next += 1
        self.running += 1
        self.tasks += 1
        return work

    def put_back(self, left: Sequence[tuple[Any, Sequence[Bundle]]]) -> None:
        """Queue the rows that a piece of work has left: the unprocessed blocks of each step, in pieces, the
        last steps first."""
        pieces = []
        for step, bundles in reversed(left):
            steps = self.steps[self.steps.index(step) :]
            pieces += [Rest(piece, steps) for piece in cut(bundles, self.spread, self.unit) if piece]
        self.queued_bytes += sum(bundle.bytes for piece in pieces for bundle in piece.bundles)
        self.queue.extendleft(reversed(pieces))

    def stop(self) -> None:
        super().stop()
        self.queue.clear()
        self._gathered_rows = 0
        self._gathered.clear()


def cut(bundles: Sequence[Bundle], pieces: int, unit: int) -> list[list[Bundle]]:
    """Cut blocks into pieces of about equal row counts, each but the last a multiple of `unit`; all blocks at
    once for one piece."""
    rows = sum(bundle.rows for bundle in bundles)
    each = -(-rows // (max(1, pieces) * unit)) * unit
    if pieces <= 1 or rows <= each:
        return [list(bundles)]
    found: list[list[Bundle]] = [[]]
    room = each
    for bundle in bundles:
        while bundle.rows > room:
            if room:
                found[-1].append(bundle.slice(0, room))
            bundle = bundle.slice(room, bundle.rows - room)
            found.append([])
            room = each
        found[-1].append(bundle)
        room -= bundle.rows
    return found
