"""Operations that combine rows of several blocks: sort, shuffle, group, join, repartition."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from skate.data.aggregate import AggregateFn, Max, Mean, Min, Std, Sum, Unique
from skate.data.block import rows_of
from skate.data.compute import Compute
from skate.data.context import RandomSeedConfig
from skate.data.dataset.base import DatasetBase
from skate.data.dataset.schema import Schema
from skate.data.exceptions import omit_traceback_stdout
from skate.data.exchange.aggregate import AggregateKernel
from skate.data.exchange.join import TYPES, JoinKernel, Side
from skate.data.exchange.keyed import KeyedKernel
from skate.data.exchange.keys import as_names
from skate.data.exchange.ranges import RangesKernel
from skate.data.exchange.seeds import Seeds
from skate.data.exchange.shuffle import ShuffleKernel
from skate.data.exchange.sort import Order, SortKernel
from skate.data.grouped_data import GroupedData, with_unique_names
from skate.data.plan import knowledge
from skate.data.plan import operators as logical
from skate.data.steps.columns import known

if TYPE_CHECKING:
    from skate.data.dataset import Dataset


class Shuffling(DatasetBase):
    """Operations that combine rows of several blocks: sort, shuffle, group, join, repartition."""

    def repartition(
        self,
        num_blocks: int | None = None,
        target_num_rows_per_block: int | None = None,
        *,
        strict: bool = False,
        shuffle: bool = False,
        keys: list[str] | None = None,
        sort: bool = False,
    ) -> Dataset:
        """Redistribute the rows over another number of blocks.

        Args:
            num_blocks: the number of blocks.
            target_num_rows_per_block: the number of rows per block instead; this does not have to wait for all rows.
            strict: accepted with `target_num_rows_per_block`; blocks have exactly that many rows in any case.
            shuffle: also put the rows in random order.
            keys: columns; rows with equal values in them go to the same block.
            sort: sort each block by `keys`, or by all columns.

        Raises ValueError unless exactly one of `num_blocks` and `target_num_rows_per_block` is given.
        """
        if (num_blocks is None) == (target_num_rows_per_block is None):
            if num_blocks is None:
                raise ValueError("Either `num_blocks` or `target_num_rows_per_block` must be set")
            raise ValueError(
                f"Only one of `num_blocks` or `target_num_rows_per_block` must be set, but not both: {num_blocks} and "
                f"{target_num_rows_per_block}"
            )
        if target_num_rows_per_block is not None:
            if shuffle or keys:
                argument = "shuffle" if shuffle else "keys"
                raise ValueError(
                    f"`{argument}` must be {None if keys else False} when `target_num_rows_per_block` is set; give num_blocks"
                )
            if target_num_rows_per_block < 1:
                raise ValueError(
                    f"target_num_rows_per_block must be positive, got {target_num_rows_per_block}"
                )
            return self._with(logical.Rebatch((self._plan,), target_num_rows_per_block, strict))
        assert num_blocks is not None
        if num_blocks < 0:
            raise ValueError(f"num_blocks must be >= 0, got {num_blocks}")
        if not num_blocks:
            return self._with(logical.Limit((self._plan,), 0))
        return self._exchanged(self._repartitioning(shuffle, keys, sort), num_blocks)

    def _repartitioning(self, shuffle: bool, keys: list[str] | None, sort: bool) -> Any:
        if keys:
            return KeyedKernel(self._known_keys(keys, "keys"), sort)
        if sort:
            return RangesKernel(sort=True)
        if shuffle:
            return ShuffleKernel(Seeds(None), even=True, whole=True, name="Repartition")
        return RangesKernel()

    def random_shuffle(
        self,
        *,
        seed: int | RandomSeedConfig | None = None,
        num_blocks: int | None = None,
        **ray_remote_args: Any,
    ) -> Dataset:
        """Put all rows into random order; without a seed every order is equally likely.

        Args:
            seed: the same seed gives the same order for the same blocks, which is Ray's; None gives a different order in
                each run.
            num_blocks: refused with DeprecationWarning, as Ray does; use `repartition`.
            ray_remote_args: options of the tasks, as in `remote`.
        """
        if num_blocks is not None:
            raise DeprecationWarning(
                "`num_blocks` parameter is deprecated: random_shuffle does not accept it (got "
                f"{num_blocks}); use repartition({num_blocks}, shuffle=True)"
            )
        return self._exchanged(ShuffleKernel(Seeds(seed)), remote_args=ray_remote_args)

    def sort(
        self,
        key: str | list[str],
        descending: bool | list[bool] = False,
        boundaries: list[Any] | None = None,
    ) -> Dataset:
        """Sort rows by one or several columns; the sort is stable.

        NaN comes after all numbers and null at the very end, in either direction.

        Args:
            key: a column or a list of columns, the most significant first.
            descending: True for descending order; a list sets it per column.
            boundaries: for a single key, the values at which blocks begin: one more block than values.

        Raises ValueError for unknown columns, TypeError for columns whose values have no order.
        """
        if key is None or not key:
            raise ValueError(
                "The 'key' parameter cannot be None for sorting, or empty: pass one or several "
                f"columns, got {key!r}"
            )
        keys = self._known_keys(key, "key")
        if isinstance(descending, bool):
            downs = (descending,) * len(keys)
        else:
            downs = tuple(descending)
        if len(downs) != len(keys):
            raise ValueError(
                f"Length of `descending` does not match the length of the key: {len(downs)} values for {', '.join(keys)}"
            )
        if boundaries is None:
            return self._exchanged(SortKernel(Order(keys, downs)))
        if len(keys) > 1:
            raise ValueError(f"boundaries require a single key, got {', '.join(keys)}")
        if not all(isinstance(each, (int, float)) for each in boundaries):
            raise ValueError(f"The type of items in boundaries must be int or float, got {boundaries}")
        return self._exchanged(SortKernel(Order(keys, downs), boundaries), len(boundaries) + 1)

    def groupby(self, key: str | list[str] | None, num_partitions: int | None = None) -> GroupedData:
        """Group rows that have equal values in one or several columns; None makes one group of all rows.

        Args:
            key: a column, a list of columns, or None.
            num_partitions: accepted for compatibility; the number of partitions follows from the amount of data.

        Raises ValueError for unknown columns and for `num_partitions` below 1.
        """
        if num_partitions is not None and num_partitions < 1:
            raise ValueError(f"num_partitions must be >= 1, got {num_partitions}")
        dataset: Any = self
        return GroupedData(dataset, self._known_keys(key, "key"), num_partitions, key)

    def join(
        self,
        ds: Dataset,
        join_type: str,
        num_partitions: int,
        on: Sequence[str] = ("id",),
        right_on: Sequence[str] | None = None,
        left_suffix: str | None = None,
        right_suffix: str | None = None,
        *,
        partition_size_hint: int | None = None,
        aggregator_ray_remote_args: dict[str, Any] | None = None,
        validate_schemas: bool = False,
    ) -> Dataset:
        """Join rows of this dataset with the rows of another that have the same key. A null key equals nothing.

        Args:
            ds: the other dataset, on the right.
            join_type: "inner", "left_outer", "right_outer", "full_outer", "left_semi", "right_semi", "left_anti" or
                "right_anti".
            num_partitions: accepted for compatibility; the number of partitions follows from the amount of data.
            on: the key columns, a tuple or list.
            right_on: the key columns of the other dataset, if named differently. The result uses the names of the left
                side, except in a right join.
            left_suffix, right_suffix: appended to names other than keys that both sides have.
            partition_size_hint: accepted for compatibility.
            aggregator_ray_remote_args: options of the joining tasks, as in `remote`.
            validate_schemas: check the schemas now, even if that requires running part of the datasets.

        Raises ValueError for an unknown join type, unknown columns and names that both sides have, TypeError
        for keys whose types cannot be equal: immediately if the schemas are known, else when the dataset
        runs. With `validate_schemas`, raises ValueError for keys whose types are not the same.
        """
        if join_type not in TYPES:
            raise ValueError(
                f"Invalid join type: {join_type!r}. Supported join types are: {', '.join(TYPES)}."
            )
        names = []
        for what, given in (("on", on), ("right_on", on if right_on is None else right_on)):
            if not isinstance(given, (tuple, list)):
                raise ValueError(f"Expected tuple or list as `{what}` (got {type(given).__name__})")
            if not given:
                raise ValueError(f"`{what}` needs the name of at least one column, got {given!r}")
            names.append(as_names(given, what))
        if len(names[0]) != len(names[1]):
            raise ValueError(
                f"on and right_on must have the same number of columns, got {list(names[0])} and "
                f"{list(names[1])}"
            )
        if num_partitions is not None and num_partitions < 1:
            raise ValueError(f"num_partitions must be >= 1, got {num_partitions}")
        kernel = JoinKernel(join_type, Side(names[0], left_suffix or ""), Side(names[1], right_suffix or ""))
        schemas = [knowledge.schema_of(each._plan) for each in (self, ds)]
        if validate_schemas:
            schemas = [_schema(each) for each in (self, ds)]
            _check_same_keys(schemas, names)
        if all(schema is not None for schema in schemas):
            kernel.check(schemas)
        compute = Compute(remote_args=aggregator_ray_remote_args or {})
        return self._with(logical.Exchange((self._plan, ds._plan), kernel, None, compute))

    # -- operations that run immediately

    def aggregate(self, *aggs: AggregateFn) -> dict[str, Any] | None:
        """Aggregate all rows and return a dict of aggregation names to results; None for a dataset without any block.
        Runs the dataset."""
        if not aggs:
            raise ValueError(
                "aggregate() needs at least one aggregation, such as Sum('x') from skate.data.aggregate"
            )
        if knowledge.is_bare(self._plan) or (isinstance(self._plan, logical.Limit) and not self._plan.rows):
            with_unique_names(aggs)  # raises for anything else
            return None
        return self._figures(*aggs)

    def unique(self, column: str, ignore_nulls: bool = False) -> list[Any] | None:
        """Return the distinct values of a column, in order of first appearance; None for a dataset without any block.
        Runs the dataset."""
        name = self._known_keys(column, "column")[0]
        found = self.aggregate(Unique(name, ignore_nulls=ignore_nulls, alias_name="unique"))
        return None if found is None else list(found["unique"])

    def sum(self, on: str | list[str] | None = None, ignore_nulls: bool = True) -> Any:
        """Return the sum of a column; for several or all columns, a dict of "sum(name)" to each. Runs the dataset."""
        return self._aggregated(Sum, on, ignore_nulls=ignore_nulls)

    def min(self, on: str | list[str] | None = None, ignore_nulls: bool = True) -> Any:
        """Return the smallest value of a column; for several or all columns, a dict of "min(name)" to each.
        Runs the dataset."""
        return self._aggregated(Min, on, ignore_nulls=ignore_nulls)

    def max(self, on: str | list[str] | None = None, ignore_nulls: bool = True) -> Any:
        """Return the largest value of a column; for several or all columns, a dict of "max(name)" to each.
        Runs the dataset."""
        return self._aggregated(Max, on, ignore_nulls=ignore_nulls)

    def mean(self, on: str | list[str] | None = None, ignore_nulls: bool = True) -> Any:
        """Return the mean of a column; for several or all columns, a dict of "mean(name)" to each. Runs the dataset."""
        return self._aggregated(Mean, on, ignore_nulls=ignore_nulls)

    def std(self, on: str | list[str] | None = None, ddof: int = 1, ignore_nulls: bool = True) -> Any:
        """Return the standard deviation of a column, with `ddof` subtracted from the number of values; for
        several or all columns, a dict of "std(name)" to each.

        Runs the dataset.
        """
        return self._aggregated(Std, on, ddof=ddof, ignore_nulls=ignore_nulls)

    # -- internals

    @omit_traceback_stdout
    def _figures(self, *aggs: AggregateFn) -> dict[str, Any]:
        """Aggregate all rows; without any row, each result is that of none."""
        kernel = AggregateKernel((), with_unique_names(aggs))
        rows = [row for table in self._exchanged(kernel)._tables() for row in rows_of(table)]
        return rows[0]

    def _aggregated(self, kind: Any, on: str | list[str] | None, **options: Any) -> Any:
        if on is None:
            schema = _schema(self)
            columns = tuple(schema.names) if schema is not None else ()
        else:
            columns = self._known_keys(on, "on")
        if not columns:
            if on is not None:
                raise ValueError(f"on must be the name of a column or a list of names, got {on!r}")
            return None  # a dataset that never had a row
        found = self.aggregate(*(kind(column, **options) for column in columns))
        return next(iter(found.values())) if found is not None and len(found) == 1 else found

    def _exchanged(
        self, kernel: Any, partitions: int | None = None, remote_args: dict[str, Any] | None = None
    ) -> Dataset:
        schema = knowledge.schema_of(self._plan)
        if schema is not None:
            kernel.check([schema])
        compute = Compute(remote_args=remote_args or {})
        return self._with(logical.Exchange((self._plan,), kernel, partitions, compute))

    def _known_keys(self, keys: str | Sequence[str] | None, what: str) -> tuple[str, ...]:
        """Return the names of columns. Raises ValueError for unknown ones if the schema is known."""
        names = as_names(keys, what)
        schema = knowledge.schema_of(self._plan)
        if schema is not None and len(schema):
            empty = schema.empty_table()
            for name in names:
                known(empty, name)
        return names


def _check_same_keys(schemas: Sequence[Any], keys: Sequence[Sequence[str]]) -> None:
    """Raise ValueError unless the keys of both sides of a join have the same types."""
    kinds = [
        None
        if schema is None
        else [schema.field(name).type if name in schema.names else None for name in names]
        for schema, names in zip(schemas, keys, strict=True)
    ]
    if kinds[0] != kinds[1]:
        left, right = (None if schema is None else Schema(schema) for schema in schemas)
        raise ValueError(
            "Key columns are expected to be present and have the same types in both left and right operands of the join "
            f"operation: left has {left}, but right has {right}"
        )


def _schema(dataset: Any) -> Any:
    """Return the Arrow schema of a dataset, running part of it if necessary; None if it has no columns."""
    found = dataset.schema()
    return None if found is None else found.base_schema
