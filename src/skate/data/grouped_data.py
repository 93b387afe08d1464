"""Rows in groups of equal keys: the result of `Dataset.groupby`."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from skate.data.aggregate import AggregateFn, Count, Max, Mean, Min, Std, Sum
from skate.data.compute import ComputeStrategy
from skate.data.exchange.aggregate import AggregateKernel
from skate.data.exchange.keyed import KeyedKernel
from skate.data.exchange.keys import as_names
from skate.data.plan import knowledge
from skate.data.plan import operators as logical

if TYPE_CHECKING:
    from skate.data.dataset import Dataset


class GroupedData:
    """Groups of the rows of a dataset. Nothing runs until a result is requested."""

    def __init__(
        self, dataset: Dataset, key: Sequence[str], num_partitions: int | None = None, given: Any = None
    ) -> None:
        self._dataset = dataset
        self._keys = tuple(key)
        self._num_partitions = num_partitions
        #: The key in the form in which the program gave it: a name, a list of names, or None.
        self._key = given

    def __repr__(self) -> str:
        return f"GroupedData(dataset={self._dataset!r}, key={self._key!r})"

    def aggregate(self, *aggs: AggregateFn) -> Dataset:
        """Aggregate each group into one row: its keys and the results, in columns named like the aggregations.

        The rows are in the order of the keys if there is only one partition, as for small results.
        """
        kernel = AggregateKernel(self._keys, with_unique_names(aggs))
        return self._dataset._exchanged(kernel)

    def count(self) -> Dataset:
        """Count the rows of each group, in a column "count()"."""
        return self.aggregate(Count())

    def sum(self, on: str | list[str] | None = None, ignore_nulls: bool = True) -> Dataset:
        """Sum columns by group, all but the keys if none are named, into columns called "sum(name)"."""
        return self._aggregated(Sum, on, ignore_nulls=ignore_nulls)

    def min(self, on: str | list[str] | None = None, ignore_nulls: bool = True) -> Dataset:
        """The smallest values of columns by group, in columns called "min(name)"."""
        return self._aggregated(Min, on, ignore_nulls=ignore_nulls)

    def max(self, on: str | list[str] | None = None, ignore_nulls: bool = True) -> Dataset:
        """The largest values of columns by group, in columns called "max(name)"."""
        return self._aggregated(Max, on, ignore_nulls=ignore_nulls)

    def mean(self, on: str | list[str] | None = None, ignore_nulls: bool = True) -> Dataset:
        """The means of columns by group, in columns called "mean(name)"."""
        return self._aggregated(Mean, on, ignore_nulls=ignore_nulls)

    def std(self, on: str | list[str] | None = None, ddof: int = 1, ignore_nulls: bool = True) -> Dataset:
        """The standard deviations of columns by group, with `ddof` subtracted from the number of values, in
        columns called "std(name)"."""
        return self._aggregated(Std, on, ddof=ddof, ignore_nulls=ignore_nulls)

    def map_groups(
        self,
        fn: Callable[..., Any] | type,
        *,
        zero_copy_batch: bool = True,
        compute: ComputeStrategy | None = None,
        batch_format: str | None = "default",
        fn_args: Iterable[Any] | None = None,
        fn_kwargs: dict[str, Any] | None = None,
        fn_constructor_args: Iterable[Any] | None = None,
        fn_constructor_kwargs: dict[str, Any] | None = None,
        num_cpus: float | None = None,
        num_gpus: float | None = None,
        memory: float | None = None,
        concurrency: Any = None,
        ray_remote_args_fn: Callable[[], dict[str, Any]] | None = None,
        **ray_remote_args: Any,
    ) -> Dataset:
        """Apply a function to each group; all rows of a group are in one batch.

        Args:
            fn: takes the batch of a group and returns a batch, or yields several; a class is constructed once
                in each actor.
            zero_copy_batch: True if batches may be read-only views of the blocks.
            compute, concurrency: where it runs, as in `map_batches`.
            batch_format: "default" and "pandas" for DataFrames (unlike `map_batches`), "numpy" for dicts of
                arrays, "pyarrow", or None for the block as it is.
            fn_args, fn_kwargs: passed to each call after the batch.
            fn_constructor_args, fn_constructor_kwargs: passed to the constructor of a class.
            num_cpus, num_gpus, memory, ray_remote_args: requirements of each task or actor, as in `remote`.
            ray_remote_args_fn: returns options of `remote`, called for each task or actor.

        A group must fit into the memory of one process.
        """
        # A batch is a group, so GPUs need no batch size here: the arguments are checked with a batch size of one.
        mapped = self._dataset.map_batches(
            fn,
            batch_size=1,
            compute=compute,
            batch_format={"default": "pandas", None: "pyarrow"}.get(batch_format, batch_format),
            zero_copy_batch=zero_copy_batch,
            fn_args=fn_args,
            fn_kwargs=fn_kwargs,
            fn_constructor_args=fn_constructor_args,
            fn_constructor_kwargs=fn_constructor_kwargs,
            num_cpus=num_cpus,
            num_gpus=num_gpus,
            memory=memory,
            concurrency=concurrency,
            ray_remote_args_fn=ray_remote_args_fn,
            **ray_remote_args,
        )._plan
        assert isinstance(mapped, logical.MapBatches)  # map_batches has checked all arguments
        kernel = KeyedKernel(self._keys, sort=True, grouped=True, name="GroupBy")
        exchange = logical.Exchange((self._dataset._plan,), kernel)
        groups = logical.MapGroups(
            (exchange,), self._keys, mapped.udf, mapped.batch_format, mapped.zero_copy, mapped.compute
        )
        return self._dataset._with(groups)

    def with_column(self, column_name: str, expr: Any, **ray_remote_args: Any) -> Dataset:
        """Add one column, whose expression is computed for each group separately.

        Raises ValueError for a name that is empty or not a string, TypeError for a value that is not an expression.
        """
        if not isinstance(column_name, str) or not column_name:
            raise ValueError(f"column_name must be a non-empty string, got {column_name!r}")
        if not hasattr(expr, "evaluate"):
            raise TypeError(
                "expr must be an expression, created with col() or lit() of skate.data.expressions, "
                f"got {expr!r}"
            )
        return self.map_groups(_WithColumn(column_name, expr), batch_format=None, **ray_remote_args)

    def _aggregated(self, kind: Any, on: str | list[str] | None, **options: Any) -> Dataset:
        if on is None:
            schema = knowledge.schema_of(self._dataset._plan)
            if schema is None:
                found = self._dataset.schema()
                schema = None if found is None else found.base_schema
            names = [] if schema is None else [name for name in schema.names if name not in self._keys]
        else:
            names = list(as_names(on, "on"))
        if not names and on is not None:
            raise ValueError(f"on must be the name of a column or a list of names, got {on!r}")
        return self.aggregate(*(kind(name, **options) for name in names))


class _WithColumn:
    """A function that adds one column to a group's block."""

    def __init__(self, name: str, expression: Any) -> None:
        self.name = name
        self.expression = expression
        self.__name__ = "with_column"

    def __call__(self, block: Any) -> Any:
        made = self.expression.evaluate(block)
        if self.name in block.column_names:
            return block.set_column(block.column_names.index(self.name), self.name, made)
        return block.append_column(self.name, made)


GroupedDataset = GroupedData


def with_unique_names(aggregations: Sequence[Any]) -> list[Any]:
    """Make the names of aggregations unique: a second "sum(x)" becomes "sum(x)_2".

    Raises TypeError for a value that is not an aggregation.
    """
    taken: set[str] = set()
    found = []
    for each in aggregations:
        if not isinstance(each, AggregateFn):
            raise TypeError(
                "aggregations must be instances of the classes of skate.data.aggregate, such as "
                f"Sum('x'), got {each!r}"
            )
        number, name = 1, each.name
        while name in taken:
            number += 1
            name = f"{each.name}_{number}"
        taken.add(name)
        if name != each.name:
            each = copy.copy(each)
            each.name = name
        found.append(each)
    return found
