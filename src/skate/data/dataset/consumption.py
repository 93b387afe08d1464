"""Methods that return data: rows, batches, counts, whole tables."""

from __future__ import annotations

import html
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from skate.data import block as blocks
from skate.data.dataset.base import DatasetBase
from skate.data.dataset.schema import Schema
from skate.data.exceptions import omit_traceback_stdout
from skate.data.execution.bundle import RefBundle
from skate.data.iteration.frameworks import FrameworkBatches
from skate.data.iteration.iterator import DataIterator, DatasetIterator
from skate.data.plan import knowledge
from skate.data.plan import operators as logical
from skate.data.plan.rules import for_counting
from skate.widgets import html_table

if TYPE_CHECKING:
    from skate import ObjectRef
    from skate.data.dataset import MaterializedDataset


class Consuming(FrameworkBatches, DatasetBase):
    """Methods that return data: rows, batches, counts, whole tables."""

    # -- rows

    @omit_traceback_stdout
    def take(self, limit: int = 20) -> list[dict[str, Any]]:
        """Return the first `limit` rows, or all if there are fewer."""
        return [row for table in self._first(limit) for row in blocks.rows_of(table)]

    @omit_traceback_stdout
    def take_all(self, limit: int | None = None) -> list[dict[str, Any]]:
        """Return all rows. Raises ValueError if there are more than `limit`."""
        if limit is None:
            return [row for table in self._tables() for row in blocks.rows_of(table)]
        rows = self.take(limit + 1)
        if len(rows) > limit:
            raise ValueError(
                f"The dataset has more than the given limit of {limit} records; use take({limit}) for the first ones"
            )
        return rows

    @omit_traceback_stdout
    def take_batch(self, batch_size: int = 20, *, batch_format: str | None = "default") -> Any:
        """Return the first `batch_size` rows as one batch. Raises ValueError if the dataset is empty."""
        table = blocks.concat(self._first(batch_size))
        if not table.num_rows:
            raise ValueError("The dataset is empty, so there is no batch to take.")
        native = knowledge.native_format(self._plan) if batch_format is None else batch_format
        return blocks.to_batch(table, native)

    def show(self, limit: int = 20) -> None:
        """Print the first `limit` rows."""
        for row in self.take(limit):
            print(row)

    def _first(self, rows: int) -> list[Any]:
        return list(self._with(logical.Limit((self._plan,), max(0, rows)))._tables())

    def iterator(self) -> DataIterator:
        """Return an iterator over batches that can be used repeatedly and passed to tasks and actors."""
        made: Any = self
        return DatasetIterator(made)

    def iter_rows(self) -> Iterable[dict[str, Any]]:
        """Iterate over the rows while the dataset is computed."""
        return self.iterator().iter_rows()

    def iter_batches(
        self,
        *,
        prefetch_batches: int = 1,
        batch_size: int | None = 256,
        batch_format: str | None = "default",
        drop_last: bool = False,
        local_shuffle_buffer_size: int | None = None,
        local_shuffle_seed: int | None = None,
        _collate_fn: Any = None,
    ) -> Iterable[Any]:
        """Iterate over batches while the dataset is computed.

        Args:
            prefetch_batches: batches prepared ahead in a background thread.
            batch_size: rows per batch; None for whole blocks.
            batch_format: "default" or "numpy" for a dict of arrays, "pandas", "pyarrow", None for the unconverted
                table.
            drop_last: leave the last batch out if it is not full.
            local_shuffle_buffer_size: the least number of rows to hold, from which batches are drawn at random.
            local_shuffle_seed: the seed of the random numbers.
        """
        return self.iterator()._iter_batches(
            prefetch_batches=prefetch_batches,
            batch_size=batch_size,
            batch_format=batch_format,
            drop_last=drop_last,
            local_shuffle_buffer_size=local_shuffle_buffer_size,
            local_shuffle_seed=local_shuffle_seed,
            finish=_collate_fn,
        )

    def _iter_batches(self, **options: Any) -> Iterable[Any]:
        return self.iterator()._iter_batches(**options)

    # -- size and schema

    @omit_traceback_stdout
    def count(self) -> int:
        """Return the number of rows; runs the dataset unless it is known beforehand."""
        known = knowledge.rows_of(self._plan)
        if known is not None:
            return known
        run = self._with(for_counting(self._plan))
        rows = run._count()
        self._last_run = run._last_run
        return rows

    @omit_traceback_stdout
    def schema(self, fetch_if_missing: bool = True) -> Schema | None:
        """Return the names and types of the columns; runs part of the dataset if necessary, or returns None if
        that is not allowed.

        Also returns None if there are no columns at all.
        """
        found = knowledge.schema_of(self._plan)
        if found is None:
            found = self._found_schema
        if found is None and fetch_if_missing:
            found = self._found_schema = self._schema_by_running()
        if found is None or (not len(found) and not _selects_nothing(self._plan)):
            return None
        return Schema(found)

    def _repr_html_(self) -> str:
        """Return the plan and the columns, if they are known, for notebooks. Nothing runs for that."""
        schema = self.schema(fetch_if_missing=False)
        columns = [] if schema is None else list(zip(schema.names, schema.types, strict=True))
        table = html_table(("column", "type"), columns) if columns else ""
        return f"<pre>{html.escape(repr(self))}</pre>{table}"

    def _schema_by_running(self) -> Any:
        plan = knowledge.before_columns_change(self._plan)
        flow = self._with(logical.Limit((plan,), 1))._run()
        schema = None
        for bundle in flow:
            if bundle.schema is not None and (schema is None or not len(schema)):
                schema = bundle.schema
        return schema

    def columns(self, fetch_if_missing: bool = True) -> list[str] | None:
        """The names of the columns; see `schema`."""
        schema = self.schema(fetch_if_missing)
        return None if schema is None else schema.names

    def num_blocks(self) -> int:
        """The number of blocks; NotImplementedError, because only a materialized dataset holds its blocks."""
        raise NotImplementedError(
            "Number of blocks is only available for `MaterializedDataset`, because it is known only once a "
            "dataset has run; call num_blocks() "
            "on ds.materialize()"
        )

    @omit_traceback_stdout
    def size_bytes(self) -> int:
        """Return the size of all blocks in memory in bytes: the source's estimate, or measured by running the
        dataset."""
        if isinstance(self._plan, logical.Read):
            estimate = self._plan.datasource.estimate_inmemory_data_size()
            if estimate is not None:
                return int(estimate)
        return sum(bundle.bytes for bundle in self._run())

    def input_files(self) -> list[str]:
        """The files that the dataset is read from."""
        return knowledge.files_of(self._plan)

    # -- blocks

    @omit_traceback_stdout
    def materialize(self) -> MaterializedDataset:
        """Run the dataset and hold its blocks, so that later operations on the result do not compute them again."""
        kept = "FromPandas" if knowledge.native_format(self._plan) == "pandas" else "Materialized"
        return self._held(list(self._run()), kept)

    def iter_internal_ref_bundles(self) -> Iterator[RefBundle]:
        """Iterate over refs to the blocks with their metadata, as they are produced."""
        return (RefBundle.of(bundle) for bundle in self._run())

    @omit_traceback_stdout
    def get_internal_block_refs(self) -> list[ObjectRef[Any]]:
        """Return refs to all blocks."""
        return [bundle.ref() for bundle in self._run()]

    def to_arrow_refs(self) -> list[ObjectRef[Any]]:
        """Return refs to all blocks, as pyarrow tables."""
        return self.get_internal_block_refs()

    def to_pandas_refs(self) -> list[ObjectRef[Any]]:
        """Return refs to all blocks, as data frames."""
        return self._converted("pandas", None)

    def to_numpy_refs(self, *, column: str | None = None) -> list[ObjectRef[Any]]:
        """Return refs to all blocks, as dicts of arrays or as the array of one column."""
        return self._converted("numpy", column)

    @omit_traceback_stdout
    def _converted(self, batch_format: str, column: str | None) -> list[ObjectRef[Any]]:
        import skate  # a dataset that is only read from needs no session

        task = skate.remote(num_cpus=0.5)(_as_batch)
        return [task.remote(bundle.ref(), batch_format, column) for bundle in self._run()]

    @omit_traceback_stdout
    def to_pandas(self, limit: int | None = None) -> Any:
        """Return all rows as one data frame. Raises ValueError if there are more than `limit`."""
        if limit is None:
            tables = list(self._tables())
        else:
            tables = self._first(limit + 1)
            if sum(table.num_rows for table in tables) > limit:
                raise ValueError(
                    f"the dataset has more than the given limit of {limit} rows; call to_pandas(limit=None) "
                    f"to load all of them into this process, or ds.limit({limit}).to_pandas()"
                )
        return blocks.to_batch(blocks.concat(tables), "pandas")

    # -- not a collection, although it looks like one

    def __len__(self) -> int:
        raise AttributeError(
            "Use `ds.count()` to compute the length of a distributed Dataset: it runs the dataset and counts the rows"
        )

    def __bool__(self) -> bool:
        return True

    def __iter__(self) -> Iterator[Any]:
        raise TypeError(
            "`Dataset` objects aren't iterable. To iterate records, call `ds.iter_rows()` or `ds.iter_batches()`."
        )

    def __getitem__(self, key: Any) -> Any:
        hint = f"ds.select_columns([{key!r}])" if isinstance(key, str) else "ds.take(n) or ds.iter_rows()"
        raise TypeError(f"'Dataset' object is not subscriptable: ds[{key!r}] is not supported; use {hint}")


def _as_batch(table: Any, batch_format: str, column: str | None) -> Any:
    batch = blocks.to_batch(table, batch_format)
    if column is None:
        return batch
    if column not in batch:
        raise ValueError(f"Cannot find column {column}, available columns: {set(batch)}")
    return batch[column]


def _selects_nothing(plan: logical.Operator) -> bool:
    """True if a read selects no columns, so that the schema is known to be empty."""
    return isinstance(plan, logical.Read) and getattr(plan.datasource, "_columns", None) in ([], ())
