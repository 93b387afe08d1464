"""The operators of a running plan: what each does with the blocks that come in, and which work it has to be run.

Nothing here waits or runs anything: blocks are taken in, work is handed out, results are taken back, in any order; what comes
out is in the order of what went in.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

from skate.data.compute import Compute
from skate.data.execution.bundle import Bundle


class Work:
    """One piece of work of an operator: what a task would do."""

    __slots__ = ("operator", "kind", "sequence", "bundles", "extra", "bytes")

    def __init__(
        self, operator: Running, kind: str, sequence: int, bundles: Sequence[Any], extra: Any = None
    ) -> None:
        self.operator = operator
        self.kind = kind  # chain, sample, split, merge
        self.sequence = sequence
        self.bundles = bundles
        self.extra = extra
        self.bytes = sum(bundle.bytes for bundle in bundles if isinstance(bundle, Bundle))

    def __repr__(self) -> str:
        return f"<Work {self.kind} {self.sequence} of {self.operator.name}>"


class Outputs:
    """Results of pieces of work that run side by side, given out in the order of the pieces."""

    def __init__(self, ordered: bool) -> None:
        self.ordered = ordered
        self.head = 0
        self.waiting: dict[int, list[Any]] = {}
        self.ended: set[int] = set()
        self.ready: deque[Any] = deque()
        self.bytes = 0

    def add(self, sequence: int, bundle: Bundle) -> None:
        """A result of piece number `sequence`."""
        self.bytes += bundle.bytes
        if not self.ordered or sequence == self.head:
            self.ready.append(bundle)
        else:
            self.waiting.setdefault(sequence, []).append(bundle)

    def end(self, sequence: int) -> None:
        """Nothing more comes of this piece."""
        self.ended.add(sequence)
        while self.head in self.ended:
            self.ended.discard(self.head)
            self.head += 1
            self.ready.extend(self.waiting.pop(self.head, ()))

    def pop(self) -> Bundle:
        """The next result."""
        bundle: Bundle = self.ready.popleft()
        self.bytes -= bundle.bytes
        return bundle


class Running:
    """What operators have in common."""

    def __init__(self, name: str, inputs: int, ordered: bool = True) -> None:
        self.name = name
        self.inputs = inputs
        self.compute = Compute()
        self.outputs = Outputs(ordered)
        self.open_inputs = inputs
        self.running = 0
        self.started = 0
        self.stopped = False  # nobody wants more of it
        self.queued_bytes = 0
        # What statistics are made of.
        self.rows_in = self.rows_out = self.bytes_out = self.blocks_out = self.tasks = 0
        self.seconds = 0.0

    def take(self, bundle: Bundle, source: int) -> None:
        """A block comes in."""
        raise NotImplementedError

    def end(self, source: int) -> None:
        """Nothing more comes from an input."""
        self.open_inputs -= 1

    def has_work(self) -> bool:
        """True if there is something to be run."""
        return False

    def next_work(self) -> Work:
        """The next piece to be run."""
        raise NotImplementedError

    def give(self, work: Work, bundle: Bundle) -> None:
        """A block has come out of a piece of work."""
        self.count(bundle)
        self.outputs.add(work.sequence, bundle)

    def count(self, bundle: Bundle) -> None:
        """Enter a block that goes out in the statistics."""
        self.rows_out += bundle.rows
        self.bytes_out += bundle.bytes
        self.blocks_out += 1

    def done(self, work: Work, result: Any = None) -> None:
        """A piece of work has ended."""
        self.running -= 1
        self.outputs.end(work.sequence)

    def stop(self) -> None:
        """Nobody wants more: what is queued is dropped."""
        self.stopped = True
        self.outputs.ready.clear()
        self.outputs.waiting.clear()
        self.outputs.bytes = 0
        self.queued_bytes = 0

    @property
    def finished(self) -> bool:
        """True once nothing more comes out."""
        if self.stopped:
            return True
        return not (self.open_inputs or self.running or self.outputs.ready or self.has_work())

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name} running={self.running} ready={len(self.outputs.ready)}>"


class ChainRunning(Running):
    """Steps over one block after the other, or over what is read."""

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
        self.queue: deque[list[Any]] = deque([source] for source in sources or ())
        self._gathered: list[Bundle] = []
        self._gathered_rows = 0
        self._next = 0

    def take(self, bundle: Bundle, source: int) -> None:
        self.rows_in += bundle.rows
        self.queued_bytes += bundle.bytes
        self._gathered.append(bundle)
        self._gathered_rows += bundle.rows
        if self._gathered_rows >= self.rows_at_least:
            self._close()

    def end(self, source: int) -> None:
        super().end(source)
        if self._gathered:
            self._close()

    def _close(self) -> None:
        self.queue.append(self._gathered)
        self._gathered = []
        self._gathered_rows = 0

    def has_work(self) -> bool:
        return bool(self.queue) and not self.stopped

    def next_work(self) -> Work:
        work = Work(self, "chain", self._next, self.queue.popleft())
        self.queued_bytes -= work.bytes
        self._next += 1
        self.running += 1
        self.tasks += 1
        return work

    def stop(self) -> None:
        super().stop()
        self.queue.clear()
        self._gathered.clear()


class LimitRunning(Running):
    """The first rows, and then no more."""

    def __init__(self, name: str, rows: int, make_step: Any) -> None:
        super().__init__(name, 1)
        self.left = rows
        self._make_step = make_step
        self._cut: deque[tuple[Bundle, int]] = deque()
        self._next = 0
        self.full = rows <= 0

    def take(self, bundle: Bundle, source: int) -> None:
        self.rows_in += bundle.rows
        if self.full:
            return
        if bundle.rows <= self.left:
            self.left -= bundle.rows
            self._pass(bundle)
        elif bundle.here:
            self._pass(Bundle.of(bundle.table().slice(0, self.left)))
            self.left = 0
        else:
            self._cut.append((bundle, self.left))
            self.left = 0
        self.full = self.left <= 0

    def _pass(self, bundle: Bundle) -> None:
        self.count(bundle)
        self.outputs.add(self._next, bundle)
        self.outputs.end(self._next)
        self._next += 1

    def has_work(self) -> bool:
        return bool(self._cut) and not self.stopped

    def next_work(self) -> Work:
        bundle, rows = self._cut.popleft()
        self.running += 1
        work = Work(self, "chain", self._next, [bundle], [self._make_step(rows)])
        self._next += 1
        return work

    @property
    def finished(self) -> bool:
        if self.stopped:
            return True
        return (self.full or not self.open_inputs) and not (self.running or self._cut or self.outputs.ready)


class UnionRunning(Running):
    """All inputs, one after the other."""

    def __init__(self, name: str, inputs: int) -> None:
        super().__init__(name, inputs)

    def take(self, bundle: Bundle, source: int) -> None:
        self.rows_in += bundle.rows
        self.count(bundle)
        self.outputs.add(source, bundle)

    def end(self, source: int) -> None:
        super().end(source)
        self.outputs.end(source)
