"""The reusable iterator over a dataset."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from skate.data import block as blocks
from skate.data.block.batcher import batches_of, groups_of
from skate.data.block.table import FORMATS
from skate.data.execution.bundle import Bundle
from skate.data.iteration.batch_group import BatchGroup, finished
from skate.data.iteration.frameworks import FrameworkBatches
from skate.data.iteration.iteration_figures import LoopFigures
from skate.data.iteration.local_shuffle import shuffled
from skate.data.iteration.prefetch import Prefetcher
from skate.data.plan import knowledge

if TYPE_CHECKING:
    from skate.data.context import DataContext
    from skate.data.dataset import Dataset, MaterializedDataset
    from skate.data.dataset.schema import Schema

#: The largest number of small batches that a loop receives at once.
_GROUP = 32


class Blocks:
    """The blocks of one run, a way to end the run from another thread, and the labels of its metrics.

    `runs_ahead` is true if the run makes blocks in threads of its own while its reader does something else.
    """

    def __init__(
        self,
        flow: Iterator[Bundle],
        stop: Callable[[], None],
        dataset: str,
        split: str = "",
        runs_ahead: bool = False,
    ) -> None:
        self.flow = flow
        self.stop = stop
        self.runs_ahead = runs_ahead
        self.figures = LoopFigures(dataset, split)


class DataIterator(FrameworkBatches):
    """Iterates over rows and batches; each loop over the result of a method is a new run.

    Subclasses have `_open`, which begins a run, and `_dataset`.
    """

    def _open(self) -> Blocks:
        raise NotImplementedError

    def _dataset(self) -> Dataset:
        raise NotImplementedError

    def iter_batches(
        self,
        *,
        prefetch_batches: int = 1,
        batch_size: int | None = 256,
        batch_format: str | None = "default",
        drop_last: bool = False,
        local_shuffle_buffer_size: int | None = None,
        local_shuffle_seed: int | None = None,
    ) -> Iterable[Any]:
        """Iterate over batches; see `Dataset.iter_batches`."""
        return self._iter_batches(
            prefetch_batches=prefetch_batches,
            batch_size=batch_size,
            batch_format=batch_format,
            drop_last=drop_last,
            local_shuffle_buffer_size=local_shuffle_buffer_size,
            local_shuffle_seed=local_shuffle_seed,
        )

    def _iter_batches(
        self,
        *,
        prefetch_batches: int = 1,
        batch_size: int | None = 256,
        batch_format: str | None = "default",
        drop_last: bool = False,
        local_shuffle_buffer_size: int | None = None,
        local_shuffle_seed: int | None = None,
        finish: Callable[[Any], Any] | None = None,
        finish_is_quick: bool = False,
    ) -> Iterable[Any]:
        """Iterate like `iter_batches`; `finish` is applied to each batch, in the background thread unless it is quick and
        the batch is small.
        """
        if batch_format not in FORMATS:
            raise ValueError(
                f"The given batch format {batch_format} isn't allowed (must be one of {list(FORMATS)})"
            )
        if batch_format is None:
            batch_format = knowledge.native_format(self._dataset()._plan)
        if batch_size is not None and (isinstance(batch_size, bool) or batch_size < 1):
            raise ValueError(f"batch_size must be >= 1, or None for whole blocks, got {batch_size!r}")
        if prefetch_batches < 0:
            raise ValueError(f"prefetch_batches must be >= 0, got {prefetch_batches}")
        if local_shuffle_buffer_size is not None and batch_size is None:
            raise ValueError(
                "Must specify a batch_size if using a local shuffle, because its batches are not whole blocks"
            )

        def completed(table: pa.Table, figures: LoopFigures) -> Any:
            seconds = figures.seconds
            begun = time.perf_counter()
            batch = blocks.to_batch(table, batch_format)
            made = time.perf_counter()
            seconds["format_batch"] += made - begun
            if finish is not None:
                batch = finish(batch)
                seconds["collate_batch"] += time.perf_counter() - made
            return batch

        quick = prefetch_batches > 0 and (finish_is_quick or finish is None) and batch_format != "pandas"

        def batched(given: Iterable[pa.Table], figures: LoopFigures) -> Iterator[Any]:
            if local_shuffle_buffer_size is not None:
                assert batch_size is not None
                tables = shuffled(given, batch_size, local_shuffle_buffer_size, local_shuffle_seed, drop_last)
            elif quick and batch_size is not None:
                for group in figures.cut(groups_of(given, batch_size, _GROUP, drop_last)):
                    if BatchGroup.pays_for(group[0]):
                        yield BatchGroup(group)
                    else:
                        yield from (completed(table, figures) for table in group)
                return
            else:
                tables = batches_of(given, batch_size, drop_last)
            for (table,) in figures.cut([table] for table in tables):
                yield completed(table, figures)

        return Loop(self, batched, prefetch_batches, completed if quick else None, batch_size is None)

    def iter_rows(self) -> Iterable[dict[str, Any]]:
        """Iterate over the rows."""

        def rows(given: Iterable[pa.Table], figures: LoopFigures) -> Iterator[Any]:
            for (table,) in figures.cut([table] for table in given):
                yield list(blocks.rows_of(table))

        return _Rows(Loop(self, rows, 1))

    def materialize(self) -> MaterializedDataset:
        """Run the dataset and hold its blocks."""
        return self._dataset().materialize()

    def schema(self) -> Schema | None:
        """Return the names and types of the columns."""
        return self._dataset().schema()

    def stats(self) -> str:
        """Return the statistics of the last run as text."""
        return self._dataset().stats()

    def get_context(self) -> DataContext:
        """The settings of the dataset."""
        return self._dataset().context


class Loop:
    """The batches of a dataset; each iteration is a new run.

    If batches are whole blocks that the loop completes itself, it needs no thread beside a run that is ahead by itself.
    """

    def __init__(
        self,
        iterator: DataIterator,
        through: Callable[[Iterable[pa.Table], LoopFigures], Iterator[Any]],
        ahead: int,
        completed: Callable[[pa.Table, LoopFigures], Any] | None = None,
        of_blocks: bool = False,
    ) -> None:
        self._iterator = iterator
        self._through = through
        self._ahead = ahead
        #: Completes the batches of groups, in the loop's own thread.
        self._completed = completed
        self._plain = of_blocks and completed is not None

    def __iter__(self) -> Iterator[Any]:
        opened = self._iterator._open()
        figures = opened.figures
        figures.opened()
        flow = self._through(figures.tables(opened.flow), figures)
        if self._ahead and not (self._plain and opened.runs_ahead):
            flow = iter(Prefetcher(flow, self._ahead, opened.stop))
        if self._completed is not None:
            complete = self._completed
            flow = finished(flow, lambda table: complete(table, figures))
        return figures.followed(flow)

    def __repr__(self) -> str:
        return f"<batches of {self._iterator!r}>"


class _Rows:
    def __init__(self, loop: Loop) -> None:
        self._loop = loop

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for rows in self._loop:
            yield from rows


class DatasetIterator(DataIterator):
    """Iterates over a dataset."""

    def __init__(self, dataset: Dataset) -> None:
        self._source = dataset

    def _open(self) -> Blocks:
        flow = self._source._run()
        executor = self._source._last_run
        assert executor is not None
        return Blocks(flow, executor.cancel, executor.label, runs_ahead=executor.topology.is_one_stage)

    def _dataset(self) -> Dataset:
        return self._source

    def __repr__(self) -> str:
        return f"DataIterator({self._source!r})"
