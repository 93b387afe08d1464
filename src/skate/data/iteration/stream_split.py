"""One run of a dataset shared by several consumers, in any processes: an actor runs it and hands out its blocks."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from skate.data.exceptions import as_user_code
from skate.data.execution.bundle import Bundle
from skate.data.iteration.iteration_figures import SplitFigures
from skate.data.iteration.iterator import Blocks, DataIterator
from skate.exceptions import RayTaskError

if TYPE_CHECKING:
    from skate.data.dataset import Dataset, MaterializedDataset

#: After this many seconds of waiting for the others to begin, a consumer logs a note.
_NOTE_SECONDS = 30.0


class Coordinator:
    """Runs a dataset once per epoch, and deals out its blocks.

    An epoch begins when all consumers have requested it; the rest of the previous one is dropped then. Blocks
    are computed on demand, so nothing piles up unless consumers drift apart.
    """

    def __init__(self, dataset: Dataset, consumers: int, equal: bool) -> None:
        self._dataset = dataset
        self._consumers = consumers
        self._equal = equal
        self._changed = threading.Condition()
        self._arrived: set[int] = set()
        self._waiting: dict[int, object] = {}
        self._epoch = 0
        self._flow: Iterator[Bundle] = iter(())
        self._queues: list[deque[list[Bundle]]] = []
        self._rest: list[Bundle] = []
        self._error: BaseException | None = None
        self._over = True
        self._label = ""
        self._figures: SplitFigures | None = None

    def begin(self, consumer: int) -> tuple[int, str]:
        """Wait until all consumers have requested a new epoch; return its number, and the label of its metrics."""
        with self._changed:
            before = self._epoch
            # If one consumer has two readers, the later one counts: the first may have been interrupted while
            # it waited.
            mine = self._waiting[consumer] = object()
            self._arrived.add(consumer)
            if len(self._arrived) == self._consumers:
                self._start()
            self._changed.notify_all()
            while self._epoch == before:
                if self._waiting[consumer] is not mine:
                    raise _two_readers(consumer)
                if not self._changed.wait(_NOTE_SECONDS):
                    missing = sorted(set(range(self._consumers)) - self._arrived)
                    print(
                        f"streaming_split: consumer {consumer} has waited {_NOTE_SECONDS:g} s for consumers {missing} to "
                        f"begin; all {self._consumers} must, each in a separate process or thread",
                        flush=True,
                    )
            if self._waiting[consumer] is not mine:
                raise _two_readers(consumer)
            return self._epoch, self._label

    def _start(self) -> None:
        close = getattr(self._flow, "close", None)
        if close is not None:
            close()
        self._arrived.clear()
        self._epoch += 1
        if self._figures is not None:
            self._figures.end()
        self._flow = self._dataset._run()
        run = self._dataset._last_run
        self._label = "" if run is None else run.label
        self._figures = SplitFigures(self._label, self._consumers, self._equal)
        self._queues = [deque() for _ in range(self._consumers)]
        self._rest = []
        self._error = None
        self._over = False
        self._changed.notify_all()

    def following(self, consumer: int, epoch: int) -> list[tuple[Any, int | None, int]] | None:
        """Return the next rows of a consumer, as (block, first row, rows); None at the end of its epoch."""
        with self._changed:
            if epoch != self._epoch:
                raise ValueError(
                    f"Invalid iterator: the dataset has moved on to another epoch, because consumer {consumer} "
                    "has started over; an iterator of streaming_split has one reader at a time"
                )
            while True:
                if self._queues[consumer]:
                    return [bundle.parts() for bundle in self._queues[consumer].popleft()]
                if self._error is not None:
                    raise self._error
                if self._over:
                    return None
                self._deal(consumer)

    def _deal(self, consumer: int) -> None:
        """Take one more block of the run, for the requesting consumer or for all in equal parts."""
        try:
            bundle = next(self._flow, None)
        except Exception as error:  # any error of the run; every consumer raises it
            self._error = error
            return
        if bundle is None:
            self._over = True
            if self._figures is not None:
                self._figures.end()
        elif not bundle.rows:
            return
        elif not self._equal:
            self._count(bundle.rows)
            self._queues[consumer].append([bundle])
        else:
            self._share([*self._rest, bundle])

    def _share(self, bundles: list[Bundle]) -> None:
        each = sum(bundle.rows for bundle in bundles) // self._consumers
        waiting = deque(bundles)
        for queue in self._queues:
            taken: list[Bundle] = []
            wanted = each
            while wanted:
                first = waiting.popleft()
                if first.rows > wanted:
                    waiting.appendleft(first.slice(wanted, first.rows - wanted))
                    first = first.slice(0, wanted)
                wanted -= first.rows
                taken.append(first)
            if taken:
                self._count(each)
                queue.append(taken)
        self._rest = list(waiting)

    def _count(self, rows: int) -> None:
        if self._figures is not None:
            self._figures.rows += rows

    def __repr__(self) -> str:
        return type(self).__name__

    def schema(self) -> Any:
        """Return the names and types of the columns."""
        return self._dataset.schema()

    def stats(self) -> str:
        """Return the statistics of the last run as text."""
        return self._dataset.stats()


def _nothing() -> None:
    """Do nothing: the run of an epoch is ended by the next one."""


def _two_readers(consumer: int) -> ValueError:
    return ValueError(
        f"Invalid iterator: too many concurrent consumers detected, because consumer {consumer} has two "
        "readers; an iterator of "
        f"streaming_split has one at a time"
    )


class SplitIterator(DataIterator):
    """Iterates over the share of one consumer."""

    def __init__(self, coordinator: Any, consumer: int, consumers: int, dataset: Dataset) -> None:
        self._coordinator = coordinator
        self._consumer = consumer
        self._consumers = consumers
        self._whole = dataset

    def _open(self) -> Blocks:
        opened = Blocks(
            self._bundles(lambda label: opened.figures.reads(label)), _nothing, "", str(self._consumer)
        )
        return opened

    def _bundles(self, labelled: Callable[[str], None]) -> Iterator[Bundle]:
        """Yield the blocks of an epoch; `labelled` is called with the label of its metrics first."""
        import skate  # a split needs a session

        epoch, label = skate.get(self._coordinator.begin.remote(self._consumer))
        labelled(label)
        while True:
            try:
                parts = skate.get(self._coordinator.following.remote(self._consumer, epoch))
            except RayTaskError as error:
                raise as_user_code(error, "streaming_split") from error.__cause__
            if parts is None:
                return
            for block, at, rows in parts:
                yield Bundle(block, rows, 0, None, (), at)

    def _dataset(self) -> Dataset:
        return self._whole

    def world_size(self) -> int:
        """Return the number of consumers."""
        return self._consumers

    def materialize(self) -> MaterializedDataset:
        """Run an epoch together with the other consumers, and hold the rows of this one."""
        bundles = self._bundles(lambda label: None)
        return self._whole._held([Bundle.of(bundle.table()) for bundle in bundles], "Split")

    def stats(self) -> str:
        """Return the statistics of the last run as text."""
        import skate  # imported only if used

        text: str = skate.get(self._coordinator.stats.remote())
        return text

    def __repr__(self) -> str:
        return f"<DataIterator {self._consumer} of a streaming split of {self._whole!r}>"


def streaming_split(dataset: Dataset, n: int, equal: bool) -> list[DataIterator]:
    """Return `n` iterators that share the runs of a dataset."""
    import skate  # only a split needs a session

    actor = skate.remote(Coordinator).options(num_cpus=0, max_concurrency=2 * n + 2)
    coordinator = actor.remote(dataset, n, equal)
    return [SplitIterator(coordinator, consumer, n, dataset) for consumer in range(n)]
