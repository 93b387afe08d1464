"""Aggregation to one row per group, or one row in total. Each block is aggregated where it is made; only
group states move."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from skate.data.block import columns as values
from skate.data.block import objects
from skate.data.exchange.groups import Groups
from skate.data.exchange.hash_partition import partition_of
from skate.data.exchange.kernel import Kernel
from skate.data.exchange.keys import key_columns
from skate.data.exchange.measures import ArrowFunction, Measure, grouped
from skate.data.exchange.parts import deal, joined
from skate.data.steps.columns import known

#: A task combines its own states once they have this many rows.
_STATES = 1 << 18
#: Arrow's error messages for types that its functions do not support.
_REFUSED = (pa.ArrowNotImplementedError, pa.ArrowInvalid, pa.ArrowTypeError)


class AggregateKernel(Kernel):
    """Aggregations by keys; without keys the result is one row. `aggregations` are those of `skate.data.aggregate`."""

    name = "Aggregate"

    def __init__(self, keys: Sequence[str], aggregations: Sequence[Any], name: str = "Aggregate") -> None:
        self.name = name
        self.keys = tuple(keys)
        self.aggregations = tuple(aggregations)
        if not self.keys:
            self.partitions_max = 1

    def columns(self, source: int) -> tuple[str, ...] | None:
        wanted = dict.fromkeys(self.keys)
        for each in self.aggregations:
            columns = each.columns()
            if columns is None:
                return None
            wanted.update(dict.fromkeys(columns))
        return tuple(wanted)

    def steps(self, source: int) -> Sequence[Any]:
        return (StatesStep(self),)

    def states(self, table: pa.Table) -> pa.Table:
        """Return the states of the groups of a block: key columns, then "number of the aggregation.number of
        the state"."""
        if not table.num_rows and not table.num_columns:
            return table
        made = self._by_arrow(table)
        if made is None:
            groups = Groups(table, self.keys)
            made = {name: groups.keys.column(name) for name in self.keys}
            for number, each in enumerate(self.aggregations):
                for at, state in enumerate(start(each, table, groups)):
                    made[f"{number}.{at}"] = state
        if not made:  # a table without columns has no rows either
            return pa.table({"0.": pa.nulls(groups.count)})
        found = pa.table(made)
        return found if table.num_rows else found.slice(0, 0)

    def _by_arrow(self, table: pa.Table) -> dict[str, Any] | None:
        """Return the states if Arrow can compute all of them at once, which saves numbering the groups;
        otherwise None."""
        in_arrow: list[tuple[int, Measure, list[ArrowFunction]]] = []
        for number, each in enumerate(self.aggregations):
            measure = each.measure()
            arrow_functions = None if measure is None else measure.arrow_functions()
            if measure is None or arrow_functions is None:
                return None
            in_arrow.append((number, measure, arrow_functions))
        columns: list[Any] = []
        try:
            for (_, measure, arrow_functions), each in zip(in_arrow, self.aggregations, strict=True):
                column = column_of(each, table)
                columns += [
                    pa.nulls(table.num_rows) if column is None else measure.arrow_input(column)
                ] * len(arrow_functions)
            flat = [function for _, _, arrow_functions in in_arrow for function in arrow_functions]
            found, keys = grouped(key_columns(table, self.keys), columns, flat)
        except _REFUSED:  # computed one by one, they show which column it is
            return None
        made: dict[str, Any] = dict(zip(self.keys, keys, strict=True))
        at = 0
        for number, measure, arrow_functions in in_arrow:
            states = measure.gathered(found[at : at + len(arrow_functions)])
            made |= {f"{number}.{place}": state for place, state in enumerate(states)}
            at += len(arrow_functions)
        return made

    def merged(self, tables: Sequence[pa.Table]) -> tuple[Groups, pa.Table]:
        """Combine the states of several blocks into one state per group."""
        table = joined(tables)
        groups = Groups(table, self.keys)
        made = {name: groups.keys.column(name) for name in self.keys}
        for number, each in enumerate(self.aggregations):
            for at, state in enumerate(merge(each, _states_of(table, number), groups)):
                made[f"{number}.{at}"] = state
        return groups, pa.table(made)

    def split(
        self, block: pa.Table, source: int, start: int, plan: object, partitions: int
    ) -> list[pa.Table]:
        """Partition groups by the hash of their keys."""
        return deal(block, partition_of(block, self.keys, partitions), partitions)

    def merge(self, parts: Sequence[Sequence[pa.Table]], partition: int, plan: object) -> Iterator[pa.Table]:
        """Return the rows of the groups of one partition, in the order of their keys."""
        table = joined(parts[0])
        if not table.num_columns:
            yield pa.table({} if self.keys else {each.name: [nothing(each)] for each in self.aggregations})
            return
        groups, states = self.merged([table])
        made: dict[str, Any] = {name: groups.keys.column(name) for name in self.keys}
        for number, each in enumerate(self.aggregations):
            made[each.name] = finish(each, _states_of(states, number))
        yield pa.table(made)


class StatesStep:
    """A step that turns blocks into the states of their groups and combines those of one task."""

    def __init__(self, kernel: AggregateKernel) -> None:
        self.kernel = kernel

    def __call__(self, given: Iterable[pa.Table]) -> Iterator[pa.Table]:
        waiting: list[pa.Table] = []
        rows = 0
        for table in given:
            waiting.append(self.kernel.states(table))
            rows += waiting[-1].num_rows
            if rows > _STATES:
                yield self._together(waiting)
                waiting, rows = [], 0
        if waiting:
            yield self._together(waiting)

    def _together(self, waiting: list[pa.Table]) -> pa.Table:
        filled = [table for table in waiting if table.num_rows]
        if len(filled) <= 1:
            return joined(waiting)
        return self.kernel.merged(filled)[1]


def _states_of(table: pa.Table, number: int) -> list[Any]:
    prefix = f"{number}."
    return [table.column(name) for name in table.column_names if name.startswith(prefix) and name != "0."]


def column_of(aggregation: Any, table: pa.Table) -> Any:
    """Return the column that an aggregation reads; None if it counts rows."""
    return None if aggregation.on is None else table.column(known(table, aggregation.on))


@contextlib.contextmanager
def explained(aggregation: Any, table: pa.Table) -> Iterator[None]:
    """Add the aggregation and the column to Arrow's error about an unsupported type."""
    try:
        yield
    except _REFUSED as error:
        if aggregation.on is None:
            raise
        raise TypeError(
            f"{aggregation.name} cannot be computed: column {aggregation.on!r} holds values of type "
            f"{table.schema.field(aggregation.on).type}; cast or drop the column, or aggregate another"
        ) from error


def start(aggregation: Any, table: pa.Table, groups: Groups) -> list[Any]:
    """Return the states of an aggregation by group: computed by Arrow if it has a measure, else one Python
    object per group."""
    column = column_of(aggregation, table)
    measure: Measure | None = aggregation.measure()
    if measure is None:
        filled = table.num_rows > 0
        found = [aggregation.state_of(key, rows) if filled else None for key, rows in groups.each(table)]
        return [objects.from_objects(found)]
    with explained(aggregation, table):
        return measure.start(column, groups)


def merge(aggregation: Any, states: list[Any], groups: Groups) -> list[Any]:
    """Combine the states of several blocks into one state per group."""
    measure: Measure | None = aggregation.measure()
    if measure is not None:
        return measure.merge(states, groups)
    found: list[Any] = [aggregation.zero() if not groups.rows else None for _ in range(groups.count)]
    seen = [False] * groups.count
    for at, state in zip(groups.ids.tolist(), objects.to_objects(states[0]), strict=True):
        found[at] = aggregation.together(found[at], state) if seen[at] else state
        seen[at] = True
    return [objects.from_objects(found)]


def finish(aggregation: Any, states: list[Any]) -> Any:
    """Return the results of an aggregation, one per group."""
    measure: Measure | None = aggregation.measure()
    if measure is not None:
        return measure.finish(states)
    return values.from_values([aggregation.result(state) for state in objects.to_objects(states[0])])


def nothing(aggregation: Any) -> Any:
    """Return the result for no rows."""
    measure: Measure | None = aggregation.measure()
    return aggregation.result(aggregation.zero()) if measure is None else measure.nothing
