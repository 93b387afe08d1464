"""Random chains of operations, from blocks and from files, compared with plain rows: the rules must not
change the result."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import skate.data
from skate.data import DataContext
from skate.data.expressions import col
from tests.data.properties.tables import alike, blocks, dataset_of, rows_of

Rows = list[dict[str, Any]]
Step = tuple[str, Callable[[Any], Any], Callable[[Rows], Rows]]
START = ["k", "i", "s", "f", "row"]


def _sorted(rows: Rows, name: str, down: bool) -> Rows:
    def rank(row: dict[str, Any]) -> int:
        value = row[name]
        return 2 if value is None else 1 if value != value else 0

    plain = sorted((row for row in rows if not rank(row)), key=lambda row: row[name], reverse=down)
    return plain + [row for row in rows if rank(row) == 1] + [row for row in rows if rank(row) == 2]


@st.composite
def chains(draw: Any) -> list[Step]:
    """Up to six steps that fit each other; the column "row" always stays, and holds whole numbers."""
    names = list(START)
    found: list[Step] = []
    for _ in range(draw(st.integers(1, 6))):
        found.append(_step(draw, names))
    return found


KINDS_OF_ROWS = ("limit", "filter", "expr", "sort", "map", "union", "blocks")
KINDS_OF_COLUMNS = ("select", "drop", "rename", "with", "replace")


def _step(draw: Any, names: list[str]) -> Step:
    numbers = [name for name in names if name not in ("s", "f") and not name.startswith(("s ", "f "))]
    kind = draw(st.sampled_from(KINDS_OF_ROWS + KINDS_OF_COLUMNS))
    n = draw(st.integers(0, 15))
    if kind in ("select", "drop", "rename"):
        return _step_of_names(draw, names, kind)
    if kind in ("with", "replace"):
        return _step_of_values(names, kind, draw(st.sampled_from(numbers)), n)
    return _step_of_rows(draw, names, numbers, kind, n)


def _step_of_rows(draw: Any, names: list[str], numbers: list[str], kind: str, n: int) -> Step:
    if kind == "limit":
        return f"limit {n}", lambda ds: ds.limit(n), lambda rows: rows[:n]
    if kind == "filter":
        return (
            "filter",
            lambda ds: ds.filter(lambda row: row["row"] % 3 != 1),
            lambda rows: [row for row in rows if row["row"] % 3 != 1],
        )
    if kind == "expr":
        name = draw(st.sampled_from(numbers))
        return (
            f"{name} > {n}",
            lambda ds: ds.filter(expr=col(name) > n),
            lambda rows: [row for row in rows if row[name] is not None and row[name] > n],
        )
    if kind == "sort":
        name, down = draw(st.sampled_from(names)), draw(st.booleans())
        return (
            f"sort {name} {down}",
            lambda ds: ds.sort(name, descending=down),
            lambda rows: _sorted(rows, name, down),
        )
    if kind == "map":
        return (
            "map",
            lambda ds: ds.map(lambda row: {**row, "row": row["row"] + 1}),
            lambda rows: [{**row, "row": row["row"] + 1} for row in rows],
        )
    if kind == "union":
        return "union", lambda ds: ds.union(ds.limit(n)), lambda rows: rows + rows[:n]
    return "blocks", lambda ds: ds.repartition(n % 4 + 1), lambda rows: rows


def _step_of_names(draw: Any, names: list[str], kind: str) -> Step:
    if kind in ("select", "drop"):
        rest = [name for name in names if name != "row"]
        chosen = draw(st.lists(st.sampled_from(rest), unique=True, max_size=len(rest))) if rest else []
        if kind == "drop":
            names[:] = [name for name in names if name not in chosen]
            return (
                f"drop {chosen}",
                lambda ds: ds.drop_columns(chosen),
                lambda rows: [
                    {name: value for name, value in row.items() if name not in chosen} for row in rows
                ],
            )
        kept = draw(st.permutations([*chosen, "row"]))
        names[:] = kept
        return (
            f"select {kept}",
            lambda ds: ds.select_columns(kept),
            lambda rows: [{name: row[name] for name in kept} for row in rows],
        )
    old = draw(st.sampled_from(names))
    if old == "row" or f"{old} x" in names:
        return "nothing", lambda ds: ds, lambda rows: rows
    new = f"{old} x"
    names[:] = [new if name == old else name for name in names]
    return (
        f"{old} as {new}",
        lambda ds: ds.rename_columns({old: new}),
        lambda rows: [{new if name == old else name: value for name, value in row.items()} for row in rows],
    )


def _step_of_values(names: list[str], kind: str, name: str, n: int) -> Step:
    new = "row" if kind == "replace" else f"n{n}"
    if new not in names:
        names.append(new)
    source = "row" if new == "row" else name
    return (
        f"{new} = {source} + {n}",
        lambda ds: ds.with_column(new, col(source) + n),
        lambda rows: [{**row, new: None if row[source] is None else row[source] + n} for row in rows],
    )


few = settings(
    max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


def check(ds: Any, rows: Rows, steps: list[Step]) -> None:
    for _, on_dataset, on_rows in steps:
        ds, rows = on_dataset(ds), on_rows(rows)
    shown = " | ".join(name for name, _, _ in steps)
    assert alike(ds.take_all()) == alike(rows), shown
    assert ds.count() == len(rows), shown
    assert alike(ds.take(3)) == alike(rows[:3]), shown
    if rows:
        assert ds.columns() == list(rows[0]), shown


@few
@given(blocks(), chains())
def test_over_blocks(tables: list[pa.Table], steps: list[Step]) -> None:
    given = [table.select(START) for table in tables]
    check(dataset_of(given), rows_of(given), steps)


@few
@given(blocks(), chains())
def test_over_files(tables: list[pa.Table], steps: list[Step]) -> None:
    given = [table.select(START) for table in tables]
    with tempfile.TemporaryDirectory() as folder:
        for number, table in enumerate(given):
            pq.write_table(table, Path(folder) / f"{number}.parquet", row_group_size=4)
        context = DataContext.get_current().copy()
        context.enable_progress_bars = False
        with DataContext.current(context):
            check(skate.data.read_parquet(folder), rows_of(given), steps)


@settings(max_examples=15, deadline=None)
@given(blocks(), st.sampled_from(["numpy", "pandas", "pyarrow", None]), st.sampled_from([None, 1, 4]))
def test_a_batch_that_is_handed_back_is_what_it_was(tables: list[pa.Table], form: Any, size: Any) -> None:
    found = dataset_of(tables).map_batches(lambda batch: batch, batch_format=form, batch_size=size).take_all()
    wanted = rows_of(tables)
    assert [row["row"] for row in found] == [row["row"] for row in wanted]
    for name in ("s", "t", "b", "r", "k", "i", *(() if form == "numpy" else ("l",))):
        values = [alike(row[name]) for row in found]
        if form == "numpy":  # a number without a value is NaN there
            values = [None if value == "NaN" else value for value in values]
        assert values == [alike(row[name]) for row in wanted], name
