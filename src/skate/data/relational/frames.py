"""Plans as lazy frames of Polars, wherever both give the same rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import pyarrow as pa

from skate.data.compute import Compute
from skate.data.exchange.aggregate import AggregateKernel
from skate.data.exchange.join import JoinKernel
from skate.data.exchange.sort import SortKernel
from skate.data.expressions.tree import LiteralExpr
from skate.data.plan import operators as logical
from skate.data.relational import decimals
from skate.data.relational.aggregates import Aggregates, result_schema
from skate.data.relational.conditions import Translator
from skate.data.relational.csv_scans import Scans, is_csv_scan
from skate.data.relational.held_rows import Place, RowBudget
from skate.data.relational.join_filters import Inputs
from skate.data.relational.kinds import demand, polars_types, supported, without_seconds
from skate.data.relational.refusals import Unproven
from skate.data.relational.unread import with_unread
from skate.data.relational.used_columns import Columns
from skate.data.steps.columns import ProjectStep

_KINDS = {
    "inner": "inner", "left_outer": "left", "full_outer": "full", "left_semi": "semi", "left_anti": "anti",
    "right_semi": "semi", "right_anti": "anti",
}  # fmt: skip
#: The column of a count.
_ROWS = "rows"
_COUNT = pa.schema([(_ROWS, pa.int64())])


class Frame(NamedTuple):
    """A lazy frame of Polars, and the schema of the blocks that the ordinary way yields.

    Attributes:
        one_row: True if it has at most one row.
        is_uncounted: True if a join has made its rows, and the next step that holds them has to count them.
        rows: how many rows it has at most, if no join multiplies them.
        is_scan: True if it is made of the rows of a source, one after the other.
        is_filtered: True if a filter may leave fewer rows.
        largest: the largest absolute values of decimals, in units of their last digit, as far as they are known.
    """

    lazy: Any
    schema: pa.Schema
    one_row: bool = False
    is_uncounted: bool = False
    rows: int = 0
    is_scan: bool = False
    is_filtered: bool = False
    largest: Mapping[str, int] = MappingProxyType({})


class Frames:
    """Translates plans. Raises Unproven for those whose result may differ.

    Args:
        budget: the memory for the rows that joins make.
        scans: the rows of CSV files.
        join_inputs: what becomes of the inputs of joins.
        used: the columns that the plan uses of each step, by its id.
        first: the most rows to read of each source; None for all.
    """

    def __init__(
        self,
        polars: Any,
        budget: RowBudget,
        scans: Scans,
        join_inputs: Inputs,
        used: dict[int, Columns],
        first: int | None = None,
    ) -> None:
        self.polars = polars
        self.budget = budget
        self.scans = scans
        self.join_inputs = join_inputs
        self.used = used
        self.first = first

    def sampled(self, rows: int) -> Frames:
        """Return a translator of the same plans over the first rows of each source."""
        return Frames(self.polars, self.budget, self.scans, self.join_inputs, self.used, rows)

    def of(self, node: logical.Operator, place: Place = Place.LAST) -> Frame:
        """Translate a plan, or a part of it; `place` is what follows the part."""
        if getattr(node, "compute", None) not in (None, Compute()):
            raise Unproven("resources")
        if isinstance(node, logical.Read):
            return self._blocks(self.scans.tables(node)) if is_csv_scan(node) else self._read(node)
        if isinstance(node, logical.FromBlocks):
            return self._blocks([bundle.table() for bundle in node.bundles])
        if isinstance(node, logical.Exchange):
            return self._exchange(node, place)
        if isinstance(node, logical.Union):
            return self._union(node, place.before_union())
        if isinstance(node, logical.Filter):
            before = self.of(node.inputs[0], place)
            if isinstance(node.inputs[0], logical.Read) and self.scans.are_filtered(node.inputs[0]):
                return before
            lazy = before.lazy.filter(self._over(before).condition(node.predicate))
            return before._replace(lazy=lazy, is_filtered=True)
        if isinstance(node, logical.Project):
            return self._project(node, self.of(node.inputs[0], place))
        if isinstance(node, logical.Limit) and node.rows > 0:
            before = self.of(node.inputs[0], place)
            rows = min(node.rows, before.rows)
            return before._replace(lazy=before.lazy.head(node.rows), rows=rows, is_scan=False)
        raise Unproven(node.name)

    def _over(self, frame: Frame) -> Translator:
        return Translator(self.polars, frame.schema, frame.largest)

    # -- sources

    def _read(self, node: logical.Read) -> Frame:
        scan = getattr(node.datasource, "plain_scan", None)
        found = scan(node.predicate) if scan is not None and node.parallelism < 1 else None
        if found is None:
            raise Unproven(node.name)
        paths, schema, columns = found
        kinds = polars_types(self.polars, schema)
        # With the schema given, Polars reads no file before the run, and refuses files with other types then.
        known = kinds if len(kinds) == len(schema) else None
        lazy = self.polars.scan_parquet(paths, glob=False, hive_partitioning=False, schema=known)
        if known is None:
            self._check(lazy, schema)
        _check_fields(schema)
        rows = node.datasource.rows_in_files()
        if self.first is not None:
            lazy, rows = lazy.head(self.first), min(self.first, rows)
        is_filtered = node.predicate is not None
        largest = decimals.known_to_all(node.datasource.largest_decimals())
        if is_filtered:  # before decimals are converted, so that Polars filters while it reads
            lazy = lazy.filter(Translator(self.polars, schema, largest, True).condition(node.predicate))
        if columns is not None:
            lazy, schema = lazy.select(columns), pa.schema([schema.field(name) for name in columns])
        lazy = decimals.in_units(self.polars, lazy, schema, largest)
        return Frame(lazy, schema, rows=rows, is_scan=True, is_filtered=is_filtered, largest=largest)

    def _check(self, lazy: Any, schema: pa.Schema) -> None:
        """Raise Unproven if Polars reads other types than Arrow."""
        read = lazy.collect_schema()
        for name, kind in polars_types(self.polars, schema).items():
            if read.get(name) != kind:
                raise Unproven(f"the column {name!r} is {read.get(name)} in Polars, not {kind}")

    def _blocks(self, tables: list[pa.Table]) -> Frame:
        if not tables or any(not table.schema.equals(tables[0].schema) for table in tables):
            raise Unproven("blocks with several schemas")
        schema = tables[0].schema.remove_metadata()
        for field in schema:
            demand(field.type)
        whole = pa.concat_tables(table.replace_schema_metadata(None) for table in tables)
        if self.first is not None:
            whole = whole.slice(0, self.first)
        lazy = self.polars.from_arrow(without_seconds(whole), rechunk=False).lazy()
        self._check(lazy, schema)
        _check_fields(schema)
        largest = decimals.of_table(whole)
        lazy = decimals.in_units(self.polars, lazy, schema, largest)
        return Frame(lazy, schema, rows=whole.num_rows, is_scan=True, largest=largest)

    def _union(self, node: logical.Union, place: Place) -> Frame:
        inputs = [self.of(each, place) for each in node.inputs]
        schema = inputs[0].schema
        if any(not each.schema.equals(schema) for each in inputs):
            raise Unproven("inputs with several schemas")
        largest = decimals.known_to_all([each.largest for each in inputs])
        given = [decimals.alike(self.polars, each.lazy, schema.names, schema, largest) for each in inputs]
        lazy = self.polars.concat(given, rechunk=False)
        return Frame(
            lazy,
            schema,
            is_uncounted=any(each.is_uncounted for each in inputs),
            rows=sum(each.rows for each in inputs),
            is_scan=all(each.is_scan for each in inputs),
            is_filtered=any(each.is_filtered for each in inputs),
            largest=largest,
        )

    # -- block by block

    def _project(self, node: logical.Project, before: Frame) -> Frame:
        schema = ProjectStep(node).schema(before.schema)
        if schema is None or len(set(schema.names)) < len(schema) or not len(schema):
            raise Unproven(node.name)
        if node.drop:
            return before._replace(lazy=before.lazy.drop(node.drop), schema=schema)
        if node.renames:
            new = dict(node.renames)
            largest = {new.get(name, name): value for name, value in before.largest.items()}
            return before._replace(lazy=before.lazy.rename(new), schema=schema, largest=largest)
        if any(name.startswith("*") for name, _ in node.columns):
            raise Unproven(node.name)
        if not node.keep and all(type(each) is LiteralExpr for _, each in node.columns):
            raise Unproven(node.name)
        over = self._over(before)
        made = [over.value(each).alias(name) for name, each in node.columns]
        if len({name for name, _ in node.columns}) < len(made):
            raise Unproven(node.name)
        lazy = before.lazy.with_columns(made) if node.keep else before.lazy.select(made)
        largest = dict(before.largest) if node.keep else {}
        for name, each in node.columns:
            largest.pop(name, None)
            if pa.types.is_decimal(over.kind(each)):
                largest[name] = decimals.largest(over, each)
        return before._replace(lazy=lazy.select(schema.names), schema=schema, largest=largest)

    # -- over all rows

    def _exchange(self, node: logical.Exchange, place: Place) -> Frame:
        if node.partitions is not None:
            raise Unproven(node.name)
        is_join = type(node.kernel) is JoinKernel
        before = place.before_join() if is_join else place.before_hold()
        inputs = [self.of(each, before) for each in node.inputs]
        if is_join:
            counted = [
                self._counted(each, self._used(source, each))
                for source, each in zip(node.inputs, inputs, strict=True)
            ]
            found = self._join(node, counted)
            return found if node.kernel.only is not None else self._made_by_join(found, place)
        return self.held(node.kernel, inputs[0])

    def held(self, kernel: Any, before: Frame) -> Frame:
        """Translate a sort or an aggregation of rows."""
        if type(kernel) is AggregateKernel:
            return self._aggregate(kernel, before)
        if type(kernel) is SortKernel and kernel.boundaries is None:
            return self._sort(kernel, before)
        raise Unproven(kernel.name)

    def aggregated(self, kernel: AggregateKernel, tables: list[pa.Table]) -> Frame:
        """Return the frame of an aggregation of tables with the columns that it uses."""
        return self._aggregate(kernel, self._blocks(tables))

    def key(self, frame: Frame, name: str) -> Any:
        """Return the expression of a key, whose equal values are alike."""
        kind = demand(frame.schema.field(name).type)
        # -0.0 becomes 0.0, which it is equal to
        return self.polars.col(name) + 0.0 if pa.types.is_floating(kind) else self.polars.col(name)

    def _aggregate(self, kernel: AggregateKernel, before: Frame) -> Frame:
        names = [*kernel.keys, *(each.name for each in kernel.aggregations)]
        if len(set(names)) < len(names):
            raise Unproven("columns with one name")
        before = self._counted(before, [*kernel.keys, *(each.on for each in kernel.aggregations if each.on)])
        rows = before.rows if before.is_scan else None
        aggregates = Aggregates(self.polars, before.schema, bool(kernel.keys), before.largest, rows)
        results = [aggregates.result(each).alias(each.name) for each in kernel.aggregations]
        schema = result_schema(kernel, before.schema)
        if not kernel.keys:
            texts = aggregates.distinct_texts(kernel.aggregations, before.lazy)
            if texts is not None:
                return Frame(texts, schema, True, rows=1)
            lazy = before.lazy.select(aggregates.made).select(results)
            return Frame(lazy, schema, True, rows=1, largest=aggregates.largest)
        inner = [f"k{at}" for at in range(len(kernel.keys))]
        keys = [self.key(before, name).alias(key) for name, key in zip(kernel.keys, inner, strict=True)]
        grouped = before.lazy.group_by(keys).agg(aggregates.made).sort(inner, nulls_last=True)
        named = [self.polars.col(key).alias(name) for name, key in zip(kernel.keys, inner, strict=True)]
        largest = aggregates.largest | {
            name: before.largest[name] for name in kernel.keys if name in before.largest
        }
        return Frame(grouped.select([*named, *results]), schema, rows=before.rows, largest=largest)

    def _sort(self, kernel: SortKernel, before: Frame) -> Frame:
        before = self._counted(before, before.schema.names)
        keys, downs = [], []
        for name, down in zip(kernel.order.keys, kernel.order.descending, strict=True):
            key = self.key(before, name)
            if down and pa.types.is_floating(before.schema.field(name).type):
                key, down = -key, False  # NaN comes after all numbers in either direction
            keys.append(key)
            downs.append(down)
        lazy = before.lazy.sort(keys, descending=downs, nulls_last=True, maintain_order=True)
        return Frame(lazy, before.schema, rows=before.rows, largest=before.largest)

    def _join(self, node: logical.Exchange, inputs: Sequence[Frame]) -> Frame:
        kernel: Any = node.kernel
        left, right = inputs
        kinds = kernel.key_types(left.schema, right.schema)
        for side, frame in zip(kernel.sides, (left, right), strict=True):
            for name, kind in zip(side.keys, kinds, strict=True):
                if not frame.schema.field(name).type.equals(kind) or pa.types.is_floating(demand(kind)):
                    raise Unproven(f"keys of type {kind}")
        named = kernel.names(left.schema, right.schema)
        fields = [
            pa.field(called, frame.schema.field(name).type)
            for frame, names in zip((left, right), named, strict=True)
            for name, called in names.items()
        ]
        left, right = self.join_inputs.narrowed(self, node, inputs)
        lazy = self._joined(kernel, left, right, named)
        rows = max(left.rows, right.rows) if kernel.only is None else inputs[kernel.only].rows
        largest = {
            called: frame.largest[name]
            for frame, names in zip(inputs, named, strict=True)
            for name, called in names.items()
            if name in frame.largest and not (kernel.kind == "full_outer" and name in kernel.sides[0].keys)
        }
        return Frame(
            lazy.select([field.name for field in fields]), pa.schema(fields), rows=rows, largest=largest
        )

    def _made_by_join(self, joined: Frame, place: Place) -> Frame:
        """Return the rows of a join, to be counted where a step holds them."""
        if place is Place.HELD:
            raise Unproven("a join whose rows another join holds")
        return joined._replace(is_uncounted=place is Place.GATED)

    def _used(self, node: logical.Operator, frame: Frame) -> list[str]:
        """Return the columns that the plan uses of a step."""
        used = self.used.get(id(node))
        return [name for name in frame.schema.names if used is None or name in used]

    def _counted(self, frame: Frame, names: list[str]) -> Frame:
        """Keep the rows of a join within the budget. Only the named columns are held.

        Polars reads all columns that a function in Python is given, so the others are dropped before it.
        """
        if not frame.is_uncounted:
            return frame
        held = list(dict.fromkeys(names)) or frame.schema.names[:1]
        lazy = with_unread(self.polars, self.budget.over(frame.lazy.select(held)), held, frame.schema)
        return Frame(lazy, frame.schema, frame.one_row, rows=frame.rows, largest=frame.largest)

    def _joined(self, kernel: JoinKernel, left: Frame, right: Frame, named: Any) -> Any:
        """Join under names that tell the sides apart, and name the columns of the result."""
        polars = self.polars
        sides = [
            decimals.alike(polars, frame.lazy, side.keys, frame.schema, {}).rename(
                {name: f"{mark}{name}" for name in frame.schema.names}
            )
            for side, frame, mark in zip(kernel.sides, (left, right), "lr", strict=True)
        ]
        keys = [
            [f"{mark}{name}" for name in side.keys] for side, mark in zip(kernel.sides, "lr", strict=True)
        ]
        if kernel.only is not None:
            mine, yours = kernel.only, 1 - kernel.only
            lazy = sides[mine].join(
                sides[yours], left_on=keys[mine], right_on=keys[yours], how=_KINDS[kernel.kind]
            )
        elif kernel.kind == "right_outer":
            lazy = sides[1].join(sides[0], left_on=keys[1], right_on=keys[0], how="left", coalesce=False)
        else:
            lazy = sides[0].join(
                sides[1], left_on=keys[0], right_on=keys[1], how=_KINDS[kernel.kind], coalesce=False
            )
        made = []
        for mark, names in zip("lr", named, strict=True):
            for name, called in names.items():
                column = polars.col(mark + name)
                if kernel.kind == "full_outer" and mark + name in keys[0]:
                    column = polars.coalesce(column, keys[1][keys[0].index(mark + name)])
                made.append(column.alias(called))
        return lazy.select(made)


def _check_fields(schema: pa.Schema) -> None:
    if len(set(schema.names)) < len(schema) or not all(field.nullable for field in schema):
        raise Unproven("columns with one name, or without nulls")


def count_of(polars: Any, frame: Frame) -> Frame:
    """Return the frame of the number of rows."""
    return Frame(frame.lazy.select(polars.len().cast(polars.Int64).alias(_ROWS)), _COUNT, True)


def check_result(frame: Frame) -> None:
    """Raise Unproven if a column of the result has a type that does not come back from Polars unchanged."""
    for field in frame.schema:
        kind = field.type
        if not supported(kind.value_type if pa.types.is_large_list(kind) else kind):
            raise Unproven(f"values of type {kind}")
