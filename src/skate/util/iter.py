"""Parallel iterators: items in shards, each created and transformed by an actor. For older programs, as in
Ray.

A `ParallelIterator` is a description; `gather_sync`, `gather_async`, `shards` and similar methods create
`LocalIterator`s that run it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import skate
from skate.util.iter_metrics import SharedMetrics
from skate.util.iterators.iter_worker import ParallelIteratorWorker
from skate.util.iterators.local_iterator import LocalIterator

__all__ = [
    "LocalIterator",
    "ParallelIterator",
    "ParallelIteratorWorker",
    "from_actors",
    "from_items",
    "from_iterators",
    "from_range",
]

Step = Callable[[LocalIterator], LocalIterator]


def from_items(items: list[Any], num_shards: int = 2, repeat: bool = False) -> ParallelIterator:
    """Create an iterator over items, distributed to the shards in turn; endless with `repeat`."""
    shards: list[list[Any]] = [[] for _ in range(num_shards)]
    for index, item in enumerate(items):
        shards[index % num_shards].append(item)
    kind = type(items[0]).__name__ if items else "None"
    more = ", repeat=True" if repeat else ""
    return from_iterators(shards, repeat, f"from_items[{kind}, {len(items)}, shards={num_shards}{more}]")


def from_range(n: int, num_shards: int = 2, repeat: bool = False) -> ParallelIterator:
    """Create an iterator over 0 to n - 1, one contiguous range per shard."""
    size = n // num_shards
    ends = [size * index for index in range(num_shards)] + [n]
    stretches = [range(start, end) for start, end in zip(ends, ends[1:], strict=False)]
    more = ", repeat=True" if repeat else ""
    return from_iterators(stretches, repeat, f"from_range[{n}, shards={num_shards}{more}]")


def from_iterators(
    generators: Iterable[Any], repeat: bool = False, name: str | None = None
) -> ParallelIterator:
    """Create an iterator with one shard for each of `generators`: iterables, or functions that return them."""
    worker = skate.remote(ParallelIteratorWorker)
    actors = [worker.remote(each, repeat) for each in generators]
    more = ", repeat=True" if repeat else ""
    return from_actors(actors, name or f"from_iterators[shards={len(actors)}{more}]")


def from_actors(actors: list[Any], name: str | None = None) -> ParallelIterator:
    """Create an iterator with one shard per actor; their class inherits from ParallelIteratorWorker."""
    return ParallelIterator([_Shards(actors, [])], name or f"from_actors[shards={len(actors)}]", [])


class _Shards:
    """Actors, and the steps to apply to their items."""

    def __init__(self, actors: list[Any], steps: list[Step]) -> None:
        self.actors = actors
        self.steps = steps

    def begin(self, actors: list[Any] | None = None) -> list[Any]:
        """Make actors start over with their items."""
        chosen = self.actors if actors is None else actors
        skate.get([each.par_iter_init.remote(self.steps) for each in chosen])
        return chosen


class ParallelIterator:
    """Items in shards. Use `from_items`, `from_range`, `from_iterators` or `from_actors` to create one.

    Not iterable itself: choose how its shards are gathered. It can be passed to tasks and actors.
    """

    def __init__(self, actor_sets: list[Any], name: str, parent_iterators: list[ParallelIterator]) -> None:
        self.actor_sets: list[_Shards] = actor_sets
        self.name = name
        # Keeps the actors alive.
        self.parent_iterators = parent_iterators

    def __iter__(self) -> Iterator[Any]:
        raise TypeError(
            "You must use it.gather_sync() or it.gather_async() to iterate over the results of a ParallelIterator."
        )

    def __repr__(self) -> str:
        return f"ParallelIterator[{self.name}]"

    __str__ = __repr__

    def _with(self, step: Step, name: str) -> ParallelIterator:
        sets = [_Shards(each.actors, [*each.steps, step]) for each in self.actor_sets]
        return ParallelIterator(sets, self.name + name, self.parent_iterators)

    # -- transformations of each shard

    def transform(self, fn: Callable[[Iterable[Any]], Iterable[Any]]) -> ParallelIterator:
        """Apply `fn` to an iterator over each shard's items; the result's items replace them."""
        return self._with(lambda local: local.transform(fn), ".transform()")

    def for_each(
        self, fn: Callable[[Any], Any], max_concurrency: int = 1, resources: dict[str, Any] | None = None
    ) -> ParallelIterator:
        """Apply `fn` to each item; in up to `max_concurrency` tasks at a time if that is not 1, each with
        `resources`."""
        if max_concurrency < 0:
            raise AssertionError("max_concurrency must be non-negative.")
        return self._with(lambda local: local.for_each(fn, max_concurrency, resources), ".for_each()")

    def filter(self, fn: Callable[[Any], bool]) -> ParallelIterator:
        """Keep the items for which `fn` is true."""
        return self._with(lambda local: local.filter(fn), ".filter()")

    def batch(self, n: int) -> ParallelIterator:
        """Group the items of each shard into lists of `n`."""
        return self._with(lambda local: local.batch(n), f".batch({n})")

    def flatten(self) -> ParallelIterator:
        """Flatten items that are iterables."""
        return self._with(lambda local: local.flatten(), ".flatten()")

    def combine(self, fn: Callable[[Any], list[Any]]) -> ParallelIterator:
        """Flatten the lists that `fn` returns for the items."""
        return self._with(lambda local: local.combine(fn), ".combine()")

    def local_shuffle(self, shuffle_buffer_size: int, seed: int | None = None) -> ParallelIterator:
        """Shuffle the items of each shard within a buffer."""
        return self._with(
            lambda local: local.shuffle(shuffle_buffer_size, seed),
            f".local_shuffle(shuffle_buffer_size={shuffle_buffer_size}, seed={seed})",
        )

    # -- shards

    def repartition(self, num_partitions: int, batch_ms: int = 0) -> ParallelIterator:
        """Redistribute the items over another number of shards, which read from all current ones."""
        sources = [(each.actors, each.steps) for each in self.actor_sets]
        parts = [_Part(sources, num_partitions, index, batch_ms) for index in range(num_partitions)]
        found = from_iterators(parts, name=f"{self.name}.repartition[num_partitions={num_partitions}]")
        found.parent_iterators = [self]
        return found

    def union(self, other: ParallelIterator) -> ParallelIterator:
        """Combine the shards of both. Raises ValueError if `other` is not a ParallelIterator."""
        if not isinstance(other, ParallelIterator):
            raise ValueError(f"other must be of type ParallelIterator, got {type(other)}")
        sets = [*self.actor_sets, *other.actor_sets]
        parents = [*self.parent_iterators, *other.parent_iterators]
        return ParallelIterator(sets, f"ParallelUnion[{self}, {other}]", parents)

    def select_shards(self, shards_to_keep: list[int]) -> ParallelIterator:
        """Return some of the shards, by number. Raises ValueError after `union`."""
        if len(self.actor_sets) > 1:
            raise ValueError("select_shards() is not supported after union()")
        (only,) = self.actor_sets
        kept = [actor for index, actor in enumerate(only.actors) if index in shards_to_keep]
        name = f"{self}.select_shards({len(shards_to_keep)} total)"
        return ParallelIterator([_Shards(kept, only.steps)], name, self.parent_iterators)

    def num_shards(self) -> int:
        """Return the number of shards."""
        return sum(len(each.actors) for each in self.actor_sets)

    def shards(self) -> list[LocalIterator]:
        """Return an iterator for each shard."""
        return [self.get_shard(index) for index in range(self.num_shards())]

    def get_shard(self, shard_index: int, batch_ms: int = 0, num_async: int = 1) -> LocalIterator:
        """Return an iterator over one shard.

        Args:
            shard_index: its number.
            batch_ms: the time in milliseconds for which the shard collects items before it sends them.
            num_async: the number of concurrent requests.

        Raises ValueError if there is no such shard.
        """
        _check(batch_ms, num_async)
        places = [(shards, actor) for shards in self.actor_sets for actor in shards.actors]
        if not 0 <= shard_index < len(places):
            raise ValueError(f"Shard index out of range: {shard_index}, there are {len(places)} shards")
        shards, actor = places[shard_index]

        def items(timeout: float | None) -> Iterator[Any]:
            shards.begin([actor])
            for _, item in _gathered([actor], batch_ms, num_async):
                yield item

        return LocalIterator(items, SharedMetrics(), name=f"{self.name}.shard[{shard_index}]")

    # -- gathering

    def gather_sync(self) -> LocalIterator:
        """Iterate over all shards in turn, one item of each; the next ones are computed meanwhile."""
        found = self.batch_across_shards().flatten()
        found.name = f"{self}.gather_sync()"
        return found

    def batch_across_shards(self) -> LocalIterator:
        """Iterate over lists of one item per shard, in the order of shards, as long as any has items."""

        def items(timeout: float | None) -> Iterator[list[Any]]:
            actors = self._begin()
            refs = [each.par_iter_take.remote() for each in actors]
            while actors:
                got = skate.get(refs)
                batch = [item for each in got for item in each]
                actors = [actor for actor, each in zip(actors, got, strict=True) if each]
                refs = [each.par_iter_take.remote() for each in actors]
                if batch:
                    yield batch

        return LocalIterator(items, SharedMetrics(), name=f"{self}.batch_across_shards()")

    def gather_async(self, batch_ms: int = 0, num_async: int = 1) -> LocalIterator:
        """Iterate over all shards, in order of arrival.

        Args:
            batch_ms: milliseconds that each shard collects items before it sends them.
            num_async: the number of concurrent requests per shard.
        """
        _check(batch_ms, num_async)
        metrics = SharedMetrics()

        def items(timeout: float | None) -> Iterator[Any]:
            for actor, item in _gathered(self._begin(), batch_ms, num_async):
                found.shared_metrics.get().current_actor = actor
                metrics.get().current_actor = actor
                yield item

        found = LocalIterator(items, metrics, name=f"{self}.gather_async()")
        return found

    def take(self, n: int) -> list[Any]:
        """Return the first `n` items of `gather_sync`."""
        return self.gather_sync().take(n)

    def show(self, n: int = 20) -> None:
        """Print the first `n` items of `gather_sync`."""
        self.gather_sync().show(n)

    def _begin(self) -> list[Any]:
        return [actor for shards in self.actor_sets for actor in shards.begin()]


def _check(batch_ms: int, num_async: int) -> None:
    if num_async < 1:
        raise ValueError("queue depth must be positive")
    if batch_ms < 0:
        raise ValueError("batch time must be positive")


def _gathered(actors: list[Any], batch_ms: int, num_async: int) -> Iterator[tuple[Any, Any]]:
    """Yield actors and their items, as they arrive."""

    waiting = {actor.par_iter_take.remote(batch_ms): actor for _ in range(num_async) for actor in actors}
    while waiting:
        (ready,), _ = skate.wait(list(waiting), num_returns=1)
        actor = waiting.pop(ready)
        got = skate.get(ready)
        if got:
            waiting[actor.par_iter_take.remote(batch_ms)] = actor
        for item in got:
            yield actor, item


class _Part:
    """One of the shards created by `repartition`: every n-th item of each earlier shard."""

    def __init__(
        self, sources: list[tuple[list[Any], list[Step]]], parts: int, index: int, batch_ms: int
    ) -> None:
        self.sources = sources
        self.parts = parts
        self.index = index
        self.batch_ms = batch_ms

    def __iter__(self) -> Iterator[Any]:
        actors = []
        for members, steps in self.sources:
            skate.get([each.par_iter_slice_begin.remote(steps, self.index) for each in members])
            actors += members
        # Start at different shards, so that the parts do not all request the same one first.
        random.Random(self.index).shuffle(actors)
        waiting = {self._ask(actor): actor for actor in actors}
        while waiting:
            (ready,), _ = skate.wait(list(waiting), num_returns=1)
            actor = waiting.pop(ready)
            batch = skate.get(ready)
            if batch:
                waiting[self._ask(actor)] = actor
            yield from batch

    def _ask(self, actor: Any) -> Any:
        return actor.par_iter_take_slice.remote(self.parts, self.index, self.batch_ms)
