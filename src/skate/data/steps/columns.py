"""Expressions over blocks: projections and filters."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from skate.data.block import names
from skate.data.expressions.downloads import DownloadExpr
from skate.data.expressions.generated import Generated
from skate.data.expressions.projection import StarExpr, UnnestExpr, column_of, mask_of
from skate.data.steps.place import Place, here


class FilterStep:
    """A step that keeps the rows for which an expression is true; null is not true."""

    def __init__(self, predicate: Any) -> None:
        self.predicate = predicate

    def __call__(self, given: Iterable[pa.Table]) -> Iterator[pa.Table]:
        place = here()
        for table in given:
            yield table.filter(mask_of(self.predicate, table, place)) if table.num_rows else table
            place.rows += table.num_rows


class ProjectStep:
    """A step that selects, sets, drops and renames columns; `node` is the logical Project."""

    def __init__(self, node: Any) -> None:
        self.columns = node.columns
        self.keep = node.keep
        self.drop = node.drop
        self.renames = node.renames
        #: True if the result depends on how the work is divided.
        self.by_place = any(isinstance(each, Generated) for _, tree in node.columns for each in tree.walk())

    def __call__(self, given: Iterable[pa.Table]) -> Iterator[pa.Table]:
        place = here()
        for table in given:
            yield self.apply(table, place)
            place.rows += table.num_rows

    def apply(self, table: pa.Table, place: Place | None = None) -> pa.Table:
        """Project one block. Raises UnknownColumn for unknown names, with similar ones."""
        if not table.num_columns and not table.num_rows:
            return table  # a block without any schema, such as one made of no rows
        if self.drop:
            return table.drop_columns([names.known(table.column_names, name) for name in self.drop])
        if self.renames:
            return self._renamed(table)
        made: dict[str, Any] = {name: table.column(name) for name in table.column_names} if self.keep else {}
        for name, expression in self.columns:
            if isinstance(expression, UnnestExpr):
                made.update(expression.fields(table, place))
            elif isinstance(expression, StarExpr):
                made.update({each: table.column(each) for each in table.column_names})
            else:
                made[name] = column_of(expression, table, place)
        if not made:
            return table.select([])
        return pa.table(made)

    def schema(self, before: pa.Schema) -> pa.Schema | None:
        """The schema of the output, None if it is unknown until the step runs, as for a user's function."""
        for _, expression in self.columns:
            inner = expression.children if expression.of_users else (expression,)
            if any(each.of_users or isinstance(each, DownloadExpr) for part in inner for each in part.walk()):
                return None
        plain = [(name, each) for name, each in self.columns if not each.of_users]
        kinds = {name: each.get_type(before) for name, each in self.columns if each.of_users}
        if None in kinds.values():
            return None
        stand_in = copy.copy(self)
        stand_in.columns = plain
        try:
            made = stand_in.apply(before.empty_table(), Place()).schema
        except (pa.ArrowException, ValueError, TypeError):
            return None
        order = [*(before.names if self.keep else ()), *(name for name, _ in self.columns)]
        fields = {field.name: field for field in made} | {
            name: pa.field(name, kind) for name, kind in kinds.items()
        }
        if not kinds:
            return made
        return pa.schema([fields[name] for name in dict.fromkeys(order)])

    def _renamed(self, table: pa.Table) -> pa.Table:
        changes = {names.known(table.column_names, old): new for old, new in self.renames}
        taken = [new for new in changes.values() if new in table.column_names and new not in changes]
        if taken:
            raise ValueError(
                f"the column {taken[0]!r} already exists, so no other can be renamed to it; rename or "
                "drop it first"
            )
        return table.rename_columns([changes.get(name, name) for name in table.column_names])


class SampleStep:
    """A step that keeps each row with a probability."""

    by_place = True

    def __init__(self, fraction: float, seed: tuple[int, ...] | None) -> None:
        self.fraction = fraction
        self.seed = seed

    def __call__(self, given: Iterable[pa.Table]) -> Iterator[pa.Table]:
        random = np.random.default_rng(None if self.seed is None else (here().number, *self.seed))
        for table in given:
            yield table.filter(pa.array(random.random(table.num_rows) < self.fraction))


def known(table: pa.Table, name: str) -> str:
    """Return the name if the table has that column. Raises UnknownColumn with the table's columns and similar names."""
    return names.known(table.column_names, name)
