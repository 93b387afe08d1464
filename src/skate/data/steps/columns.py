"""Expressions over blocks: other columns, fewer rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa


class FilterStep:
    """Rows for which an expression is true; null is not true."""

    def __init__(self, predicate: Any) -> None:
        self.predicate = predicate

    def __call__(self, given: Iterable[pa.Table]) -> Iterator[pa.Table]:
        for table in given:
            yield table.filter(self.predicate.evaluate(table)) if table.num_rows else table


class ProjectStep:
    """Columns chosen, set, dropped, renamed; `node` is the logical Project."""

    def __init__(self, node: Any) -> None:
        self.columns = node.columns
        self.keep = node.keep
        self.drop = node.drop
        self.renames = node.renames

    def __call__(self, given: Iterable[pa.Table]) -> Iterator[pa.Table]:
        for table in given:
            yield self.apply(table)

    def apply(self, table: pa.Table) -> pa.Table:
        """One block with its other columns. Raises ValueError for names that are not there, with near ones."""
        if self.drop:
            return table.drop_columns([known(table, name) for name in self.drop])
        if self.renames:
            changes = {known(table, old): new for old, new in self.renames}
            return table.rename_columns([changes.get(name, name) for name in table.column_names])
        made: dict[str, Any] = {name: table.column(name) for name in table.column_names} if self.keep else {}
        for name, expression in self.columns:
            made[name] = expression.evaluate(table)
        return pa.table(made)


class SampleStep:
    """Each row with a probability."""

    def __init__(self, fraction: float, seed: int | None) -> None:
        self.fraction = fraction
        self.seed = seed

    def __call__(self, given: Iterable[pa.Table]) -> Iterator[pa.Table]:
        random = np.random.default_rng(self.seed)
        for table in given:
            yield table.filter(pa.array(random.random(table.num_rows) < self.fraction))


def known(table: pa.Table, name: str) -> str:
    """The name, if the table has such a column. Raises ValueError naming those it has and the nearest ones."""
    if name in table.column_names:
        return name
    import difflib  # only errors need it

    near = difflib.get_close_matches(name, table.column_names, 3, 0.5)
    hint = f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
    raise ValueError(f"there is no column {name!r}; the columns are {', '.join(table.column_names)}{hint}")
