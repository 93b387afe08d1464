"""Joins of rows with equal keys from two datasets. A null key equals nothing, not even another null.

The rows of one partition are matched by Arrow's hash join, in chunks of the side whose rows are all kept.
Columns that it does not support (lists, tensors, objects) are left out of the join: row numbers are joined in
their place, and the values are looked up afterwards.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skate.data.block.table import common_type
from skate.data.exchange.hash_partition import partition_of
from skate.data.exchange.kernel import Kernel
from skate.data.exchange.keys import key_columns
from skate.data.exchange.parts import deal, joined, rows_in_block, solid
from skate.data.exchange.sort import check_keys

TYPES = (
    "inner", "left_outer", "right_outer", "full_outer", "left_semi", "right_semi", "left_anti", "right_anti",
)  # fmt: skip
#: By join type, the inputs whose rows are kept only if they match.
UNMATCHED: dict[str, tuple[int, ...]] = {
    "inner": (0, 1), "left_semi": (0, 1), "right_semi": (0, 1), "left_outer": (1,), "left_anti": (1,), "right_outer": (0,),
    "right_anti": (0,),
}  # fmt: skip


@dataclass(frozen=True)
class Side:
    """One of the two inputs: its key columns, and the suffix for names that both sides have."""

    keys: tuple[str, ...]
    suffix: str


class JoinKernel(Kernel):
    """A join of two inputs; `kind` is one of `TYPES`."""

    name = "Join"
    inputs = 2

    def __init__(self, kind: str, left: Side, right: Side) -> None:
        self.kind = kind
        self.sides = (left, right)
        self.only = {"left_semi": 0, "left_anti": 0, "right_semi": 1, "right_anti": 1}.get(kind)
        # The input whose rows may be joined in chunks, because each of them is matched independently.
        self.divides = None if kind == "full_outer" else 1 if kind.startswith("right") else 0

    # -- checks before the run

    def steps(self, source: int) -> Sequence[Any]:
        return (DropNullsStep(self.sides[source].keys),) if source in UNMATCHED.get(self.kind, ()) else ()

    def check(self, schemas: Sequence[pa.Schema]) -> None:
        """Raise for unknown keys, keys whose types cannot be equal, and names that both sides have."""
        for schema, side in zip(schemas, self.sides, strict=True):
            check_keys(schema, side.keys)
        if all(len(schema) for schema in schemas):
            self.key_types(*schemas)
            self.names(*schemas)

    def key_types(self, left: pa.Schema, right: pa.Schema) -> list[pa.DataType]:
        """Return the type in which each pair of keys is compared. Raises TypeError if there is none."""
        found = []
        for mine, yours in zip(self.sides[0].keys, self.sides[1].keys, strict=True):
            kinds = [_plain(left.field(mine).type), _plain(right.field(yours).type)]
            if pa.types.is_null(kinds[0]) and pa.types.is_null(kinds[1]):
                kinds = [pa.int8(), pa.int8()]
            if not _alike(*kinds):
                raise TypeError(
                    f"columns {mine!r} of type {kinds[0]} and {yours!r} of type {kinds[1]} cannot be joined: no value of one "
                    f"equals one of the other; cast one of them first"
                )
            found.append(common_type(mine, kinds))
        return found

    def names(self, left: pa.Schema, right: pa.Schema) -> tuple[dict[str, str], dict[str, str]]:
        """Map each side's columns to their names in the result. Raises ValueError for names that clash."""
        if self.only is not None:
            mine = {name: name for name in (left, right)[self.only].names}
            return (mine, {}) if self.only == 0 else ({}, mine)
        sides = [list(left.names), list(right.names)]
        # The keys appear once, as columns of the side whose rows are all kept.
        without = 0 if self.kind == "right_outer" else 1
        sides[without] = [name for name in sides[without] if name not in self.sides[without].keys]
        both = set(sides[0]) & set(sides[1])
        if both and not self.sides[0].suffix and not self.sides[1].suffix:
            raise ValueError(
                "Left and right columns suffixes cannot be both None, because both sides of the join have columns called "
                f"{', '.join(map(repr, sorted(both)))}; set left_suffix or right_suffix"
            )
        named = [
            {name: name + side.suffix if name in both else name for name in names}
            for names, side in zip(sides, self.sides, strict=True)
        ]
        made = [*named[0].values(), *named[1].values()]
        if len(set(made)) < len(made):
            twice = sorted({name for name in made if made.count(name) > 1})
            raise ValueError(
                f"the join would create several columns called {', '.join(map(repr, twice))}; use other suffixes"
            )
        return named[0], named[1]

    # -- the work

    def split(
        self, block: pa.Table, source: int, start: int, plan: object, partitions: int
    ) -> list[pa.Table]:
        """Split rows by the hash of their keys; rows with null keys match nothing and go to any partition."""
        keys = self.sides[source].keys
        places = partition_of(block, keys, partitions)
        absent = _absent(block, keys)
        if absent is not None:
            lost = np.flatnonzero(absent)
            places[lost] = (lost + start) % partitions
        return deal(block, places, partitions)

    def merge(self, parts: Sequence[Sequence[pa.Table]], partition: int, plan: object) -> Iterator[pa.Table]:
        left, right = (joined(each) for each in parts)
        if not left.num_columns or not right.num_columns:  # an input that had no rows at all
            left, right = (
                _with_keys(t, s, o)
                for t, s, o in ((left, self.sides[0], right), (right, self.sides[1], left))
            )
            if not left.num_columns:
                yield pa.table({})
                return
        kinds = self.key_types(left.schema, right.schema)
        names = self.names(left.schema, right.schema)
        sides = [
            Carried(table, side, named, kinds, mark)
            for table, side, named, mark in zip((left, right), self.sides, names, "lr", strict=True)
        ]
        for found in self._matched(*sides):
            yield self._assembled(found, sides)

    def _matched(self, left: Carried, right: Carried) -> Iterator[pa.Table]:
        """Run Arrow's join, chunk by chunk over the side whose rows can be joined independently."""
        divided = (left, right)[self.divides] if self.divides is not None else None
        rows = max(1, rows_in_block(divided.table) if divided else left.table.num_rows)
        how = self.kind.replace("_", " ")
        options_of_join: dict[str, Any] = {"left_keys": left.key_names, "right_keys": right.key_names}
        if self.only != 1:
            options_of_join["left_output"] = left.outputs(self.kind)
        if self.only != 0:
            options_of_join["right_output"] = right.outputs(self.kind)
        if self.only == 1:
            options_of_join["left_output"] = []
        if self.only == 0:
            options_of_join["right_output"] = []
        from pyarrow import acero  # it imports pandas, so only joins should pay for it

        options = acero.HashJoinNodeOptions(how, **options_of_join)
        for at in range(0, max(1, divided.table.num_rows if divided else 1), rows):
            inputs = [
                acero.Declaration(
                    "table_source",
                    acero.TableSourceNodeOptions(
                        each.given.slice(at, rows) if each is divided else each.given
                    ),
                )
                for each in (left, right)
            ]
            yield acero.Declaration("hashjoin", options, inputs).to_table(use_threads=False)

    def _assembled(self, found: pa.Table, sides: Sequence[Carried]) -> pa.Table:
        made: dict[str, Any] = {}
        for number, side in enumerate(sides):
            for name, called in side.named.items():
                column = side.column(found, name)
                if self.kind == "full_outer" and number == 0 and name in side.keys:
                    # If the left side has no row, the right one has the key.
                    at = side.keys.index(name)
                    column = pc.coalesce(found.column(f"lk{at}"), found.column(f"rk{at}"))
                made[called] = column
        return pa.table(made)


class Carried:
    """One side of a join as Arrow sees it: keys, the columns that it supports, and row numbers for the others."""

    def __init__(
        self, table: pa.Table, side: Side, named: dict[str, str], kinds: Sequence[pa.DataType], mark: str
    ) -> None:
        self.table = solid(table)
        self.keys = side.keys
        self.named = named
        self.mark = mark
        made: dict[str, Any] = {}
        for at, (column, kind) in enumerate(zip(key_columns(self.table, side.keys), kinds, strict=True)):
            made[f"{mark}k{at}"] = column if column.type.equals(kind) else column.cast(kind)
        self.key_names = list(made)
        self.carried: dict[str, str] = {}
        for at, name in enumerate(named):
            if _is_plain(self.table.schema.field(name).type):
                self.carried[name] = f"{mark}{at}"
                made[f"{mark}{at}"] = self.table.column(name)
        self.rows = f"{mark}row"
        if len(self.carried) < len(named):
            made[self.rows] = pa.array(np.arange(table.num_rows))
        self.given = pa.table(made)

    def outputs(self, kind: str) -> list[str]:
        """Return the columns of this side in the result."""
        wanted = list(self.carried.values())
        if len(wanted) < len(self.named):
            wanted.append(self.rows)
        if kind == "full_outer":
            wanted += self.key_names
        return wanted or self.key_names[:1]

    def column(self, found: pa.Table, name: str) -> Any:
        """Return a column of this side in the result."""
        if name in self.carried:
            return found.column(self.carried[name])
        return self.table.column(name).take(found.column(self.rows))


def _is_plain(kind: pa.DataType) -> bool:
    """True if Arrow's join supports values of the type."""
    if isinstance(kind, pa.BaseExtensionType) or pa.types.is_nested(kind) or pa.types.is_dictionary(kind):
        return False
    return not pa.types.is_null(kind) and "view" not in str(kind)


class DropNullsStep:
    """A step that drops rows with a null among their keys: they match nothing."""

    def __init__(self, keys: Sequence[str]) -> None:
        self.keys = keys

    def __call__(self, given: Iterator[pa.Table]) -> Iterator[pa.Table]:
        for table in given:
            absent = _absent(table, self.keys) if table.num_rows else None
            yield table if absent is None else table.filter(pa.array(~absent))


def _absent(table: pa.Table, keys: Sequence[str]) -> np.ndarray | None:
    """Return a mask of the rows with a null among their keys; None if there are none."""
    found: np.ndarray | None = None
    for column in key_columns(table, keys):
        if column.null_count:
            mine = column.is_null().to_numpy()
            found = mine if found is None else found | mine
    return found


def _plain(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _alike(left: pa.DataType, right: pa.DataType) -> bool:
    """True if a value of one type can equal a value of the other."""
    types = pa.types
    if left.equals(right) or types.is_null(left) or types.is_null(right):
        return True
    families = (
        lambda kind: types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind),
        lambda kind: types.is_string(kind) or types.is_large_string(kind) or str(kind) == "string_view",
        lambda kind: types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind),
        lambda kind: types.is_date(kind) or types.is_timestamp(kind),
        types.is_time,
        types.is_duration,
        types.is_boolean,
    )
    return any(family(left) and family(right) for family in families)


def _with_keys(table: pa.Table, side: Side, other: pa.Table) -> pa.Table:
    """Return an empty table for a side without rows, with key columns like those of the other side."""
    if table.num_columns or not other.num_columns:
        return table
    return pa.table({name: pa.nulls(0) for name in side.keys})
