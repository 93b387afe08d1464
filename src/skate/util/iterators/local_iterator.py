"""LocalIterator: a chain of transformations that runs where it is iterated. See `ray.util.iter`."""

from __future__ import annotations

import collections
import random
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import skate
from skate.util.iter_metrics import MetricsContext, SharedMetrics

Transform = Callable[[Iterable[Any]], Iterable[Any]]


class LocalIterator:
    """An iterator of this process over items that are created here or come from shards.

    Args:
        base_iterator: takes a timeout and returns the underlying iterable.
        shared_metrics: the metrics of this iterator, and of those derived from it.
        local_transforms: the transformations, in order.
        timeout: passed to `base_iterator`.
        name: the name in its representation.
    """

    #: If a function has an attribute of this name, that attribute is called before the next item is fetched.
    ON_FETCH_START_HOOK_NAME = "_on_fetch_start"
    thread_local = threading.local()

    def __init__(
        self,
        base_iterator: Callable[..., Iterable[Any]],
        shared_metrics: SharedMetrics,
        local_transforms: list[Transform] | None = None,
        timeout: float | None = None,
        name: str | None = None,
    ) -> None:
        self.base_iterator = base_iterator
        self.shared_metrics = shared_metrics
        self.local_transforms = local_transforms or []
        self.timeout = timeout
        self.name = name or "unknown"
        self.built_iterator: Iterator[Any] | None = None

    @staticmethod
    def get_metrics() -> MetricsContext:
        """Return the metrics of the iterator whose transformation runs. Raises ValueError outside of one."""
        metrics: MetricsContext | None = getattr(LocalIterator.thread_local, "metrics", None)
        if metrics is None:
            raise ValueError("Cannot access context outside an iterator: this thread runs no transformation")
        return metrics

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        if self.built_iterator is None:
            items: Iterable[Any] = self.base_iterator(self.timeout)
            for transform in self.local_transforms:
                items = transform(items)
            self.built_iterator = iter(items)
        before = getattr(self.thread_local, "metrics", None)
        self.thread_local.metrics = self.shared_metrics.get()
        try:
            return next(self.built_iterator)
        finally:
            self.thread_local.metrics = before

    def __repr__(self) -> str:
        return f"LocalIterator[{self.name}]"

    __str__ = __repr__

    def _with(self, transform: Transform, name: str) -> LocalIterator:
        return LocalIterator(
            self.base_iterator,
            SharedMetrics(parents=[self.shared_metrics]),
            [*self.local_transforms, transform],
            self.timeout,
            self.name + name,
        )

    def transform(self, fn: Transform) -> LocalIterator:
        """Apply `fn` to the iterator; the result's items replace its items."""
        return self._with(lambda items: fn(items), ".transform()")

    def for_each(
        self, fn: Callable[[Any], Any], max_concurrency: int = 1, resources: dict[str, Any] | None = None
    ) -> LocalIterator:
        """Apply `fn` to each item, in order; in up to `max_concurrency` tasks at a time if that is not 1."""
        if max_concurrency == 1:
            hook = getattr(fn, self.ON_FETCH_START_HOOK_NAME, None)
            return self._with(lambda items: _mapped(fn, items, hook), ".for_each()")
        if max_concurrency < 0:
            raise AssertionError("max_concurrency must be non-negative.")
        task = skate.remote(**_task_options(resources))(fn) if resources else skate.remote(fn)
        return self._with(lambda items: _mapped_in_tasks(task, items, max_concurrency), ".for_each()")

    def filter(self, fn: Callable[[Any], bool]) -> LocalIterator:
        """Keep the items for which `fn` is true."""
        return self._with(lambda items: (each for each in items if fn(each)), ".filter()")

    def batch(self, n: int) -> LocalIterator:
        """Group the items into lists of `n`; the last one may have fewer."""
        return self._with(lambda items: _batched(items, n), f".batch({n})")

    def flatten(self) -> LocalIterator:
        """Flatten items that are iterables."""
        return self._with(lambda items: (inner for each in items for inner in each), ".flatten()")

    def shuffle(self, shuffle_buffer_size: int, seed: int | None = None) -> LocalIterator:
        """Shuffle items within a buffer of `shuffle_buffer_size`."""
        return self._with(
            lambda items: _shuffled(items, shuffle_buffer_size, random.Random(seed)),
            f".shuffle(shuffle_buffer_size={shuffle_buffer_size}, seed={seed})",
        )

    def combine(self, fn: Callable[[Any], list[Any]]) -> LocalIterator:
        """Flatten the lists that `fn` returns for the items."""
        found = self.for_each(fn).flatten()
        found.name = self.name + ".combine()"
        return found

    def zip_with_source_actor(self) -> LocalIterator:
        """Return pairs of an item's source actor and the item."""
        found = self.for_each(lambda item: (LocalIterator.get_metrics().current_actor, item))
        found.name = self.name + ".zip_with_source_actor()"
        return found

    def take(self, n: int) -> list[Any]:
        """Return the next `n` items, or as many as there are."""
        found: list[Any] = []
        while len(found) < n:
            try:
                found.append(next(self))
            except StopIteration:
                break
        return found

    def show(self, n: int = 20) -> None:
        """Print the next `n` items."""
        for each in self.take(n):
            print(each)

    def duplicate(self, n: int) -> list[LocalIterator]:
        """Return `n` iterators over the same items, which may be read at different speeds. Raises ValueError
        for `n` below 2."""
        if n < 2:
            raise ValueError("Number of copies must be >= 2")
        queues: list[collections.deque[Any]] = [collections.deque() for _ in range(n)]

        def items(own: collections.deque[Any]) -> Iterator[Any]:
            while True:
                if not own:
                    try:
                        item = next(self)
                    except StopIteration:
                        return
                    for queue in queues:
                        queue.append(item)
                yield own.popleft()

        return [
            LocalIterator(
                lambda timeout, own=queue: items(own),
                self.shared_metrics,
                [],
                name=f"{self.name}.duplicate[{index}]",
            )
            for index, queue in enumerate(queues)
        ]

    def union(
        self,
        *others: LocalIterator,
        deterministic: bool = False,
        round_robin_weights: list[float] | None = None,
    ) -> LocalIterator:
        """Alternate between the items of this iterator and others.

        With `round_robin_weights` each yields as many items per turn as its weight; "*" means all available
        ones. Raises ValueError if the number of weights differs from that of iterators, or one is not a
        LocalIterator.
        """
        for each in others:
            if not isinstance(each, LocalIterator):
                raise ValueError(f"other must be of type LocalIterator, got {type(each)}")
        sources = [self, *others]
        if round_robin_weights is not None and len(round_robin_weights) != len(sources):
            raise ValueError(
                f"Length of round robin weights must be {len(sources)}, got {round_robin_weights!r}"
            )
        weights: list[Any] = list(round_robin_weights or [1] * len(sources))
        return LocalIterator(
            lambda timeout: _in_turns(sources, weights),
            SharedMetrics(parents=[each.shared_metrics for each in sources]),
            [],
            name=f"LocalUnion[{', '.join(map(str, sources))}]",
        )


def _mapped(fn: Callable[[Any], Any], items: Iterable[Any], hook: Any) -> Iterator[Any]:
    source = iter(items)
    while True:
        if hook is not None:
            hook()
        try:
            item = next(source)
        except StopIteration:
            return
        yield fn(item)


def _mapped_in_tasks(task: Any, items: Iterable[Any], most: int) -> Iterator[Any]:
    """Apply a task to items, `most` calls ahead; 0 for no limit."""
    running: collections.deque[Any] = collections.deque()
    for item in items:
        running.append(task.remote(item))
        if most and len(running) >= most:
            yield skate.get(running.popleft())
    while running:
        yield skate.get(running.popleft())


def _task_options(resources: dict[str, Any]) -> dict[str, Any]:
    """Return the options of a task from `for_each(resources=...)`, which may include CPUs and GPUs."""
    own = {"num_cpus", "num_gpus", "resources", "memory"}
    if resources.keys() <= own:
        return resources
    return {"resources": resources}


def _batched(items: Iterable[Any], n: int) -> Iterator[list[Any]]:
    batch: list[Any] = []
    for item in items:
        batch.append(item)
        if len(batch) >= n:
            yield batch
            batch = []
    if batch:
        yield batch


def _shuffled(items: Iterable[Any], size: int, chance: random.Random) -> Iterator[Any]:
    buffer: list[Any] = []
    for item in items:
        buffer.append(item)
        if len(buffer) >= size:
            yield buffer.pop(chance.randrange(len(buffer)))
    while buffer:
        yield buffer.pop(chance.randrange(len(buffer)))


def _in_turns(sources: list[LocalIterator], weights: list[Any]) -> Iterator[Any]:
    left = list(zip(sources, weights, strict=True))
    while left:
        for pair in list(left):
            source, weight = pair
            taken = 0
            while weight == "*" or taken < weight:
                try:
                    item = next(source)
                except StopIteration:
                    left.remove(pair)
                    break
                taken += 1
                yield item
