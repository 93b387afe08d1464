"""ParallelIteratorWorker: the actor behind a shard of a parallel iterator. See `ray.util.iter`."""

from __future__ import annotations

import collections
import time
from collections.abc import Callable, Iterator
from typing import Any

from skate.util.iter_metrics import SharedMetrics
from skate.util.iterators.local_iterator import LocalIterator


class ParallelIteratorWorker:
    """Creates and transforms the items of one shard; actors for `from_actors` inherit from it.

    Args:
        item_generator: an iterable, or a function that returns one.
        repeat: start over at the end of the items.
    """

    def __init__(self, item_generator: Any, repeat: bool) -> None:
        self.item_generator = item_generator
        self.repeat = repeat
        self.transforms: list[Callable[[LocalIterator], LocalIterator]] = []
        self.local_it: Iterator[Any] | None = None
        self.next_ith_buffer: dict[int, collections.deque[Any]] = collections.defaultdict(collections.deque)
        self._begun: set[int] = set()

    def _items(self, timeout: float | None = None) -> Iterator[Any]:
        while True:
            made = self.item_generator() if callable(self.item_generator) else self.item_generator
            yield from made
            if not self.repeat:
                return

    def par_iter_init(self, transforms: list[Any]) -> None:
        """Start over, with these transformations."""
        local = LocalIterator(self._items, SharedMetrics())
        for transform in transforms:
            local = transform(local)
        self.transforms = transforms
        self.local_it = local
        self.next_ith_buffer.clear()
        self._begun = set()

    def par_iter_next(self) -> Any:
        """Return the next item. Raises StopIteration after the last one."""
        assert self.local_it is not None, "must call par_iter_init()"
        return next(self.local_it)

    def par_iter_next_batch(self, batch_ms: float) -> list[Any]:
        """Return the items that can be created in `batch_ms` milliseconds, at least one."""
        batch = [self.par_iter_next()]
        deadline = time.monotonic() + batch_ms / 1000
        while time.monotonic() < deadline:
            try:
                batch.append(self.par_iter_next())
            except StopIteration:
                break
        return batch

    def par_iter_take(self, batch_ms: float = 0) -> list[Any]:
        """Return the next item, or those that can be created in `batch_ms` milliseconds; none after the last one."""
        try:
            return self.par_iter_next_batch(batch_ms)
        except StopIteration:
            return []

    def par_iter_take_slice(self, step: int, start: int, batch_ms: float) -> list[Any]:
        """Return a slice of the next batch, empty at the end."""
        try:
            return self.par_iter_slice_batch(step, start, batch_ms)
        except StopIteration:
            return []

    def par_iter_slice_begin(self, transforms: list[Any], start: int) -> None:
        """Register a reader of slices; when the same one registers again, the items start over."""
        if self.local_it is None or not self._begun or start in self._begun:
            self.par_iter_init(transforms)
        self._begun.add(start)

    def par_iter_slice(self, step: int, start: int) -> Any:
        """Return the next item of those at `start`, `start + step` and so on; others are kept for their readers."""
        assert self.local_it is not None, "must call par_iter_init()"
        own = self.next_ith_buffer[start]
        while not own:
            # One item for each reader in turn; if the items run out, the first readers get theirs.
            for index in range(step):
                try:
                    self.next_ith_buffer[index].append(next(self.local_it))
                except StopIteration:
                    if not own:
                        raise
                    break
        return own.popleft()

    def par_iter_slice_batch(self, step: int, start: int, batch_ms: float) -> list[Any]:
        """Return the items of a slice that can be created in `batch_ms` milliseconds, at least one."""
        batch = [self.par_iter_slice(step, start)]
        deadline = time.monotonic() + batch_ms / 1000
        while time.monotonic() < deadline:
            try:
                batch.append(self.par_iter_slice(step, start))
            except StopIteration:
                break
        return batch
