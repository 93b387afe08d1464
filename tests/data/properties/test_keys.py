"""Groups and joins by keys of every type, in one partition and in several, against plain rows and DuckDB."""

from __future__ import annotations

from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from skate.data.aggregate import AbsMax, AsList, Count, CountDistinct, Max, Mean, Min, Std, Sum
from tests.data.properties.tables import alike, blocks, dataset_of, rows_of

few = settings(
    max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
KEYS = ["k", "s", "b", "t", "f"]
KINDS = {
    "inner": "INNER",
    "left_outer": "LEFT",
    "right_outer": "RIGHT",
    "full_outer": "FULL",
    "left_semi": "SEMI",
    "left_anti": "ANTI",
}


def several(ds: Any, partitions: bool) -> Any:
    """The dataset, with partitions that hold a few rows if that is wanted."""
    if partitions:
        ds.context.target_partition_size = 500
    return ds


def unordered(rows: Any) -> list[str]:
    return sorted(repr(alike(tuple(row.values()) if isinstance(row, dict) else tuple(row))) for row in rows)


@few
@given(blocks(), st.lists(st.sampled_from(KEYS), min_size=1, max_size=2, unique=True), st.booleans())
def test_groups(tables: list[pa.Table], keys: list[str], partitions: bool) -> None:
    aggregations = [
        Count(),
        Count("i", ignore_nulls=True),
        Sum("i"),
        Min("i"),
        Max("i"),
        AbsMax("i"),
        AsList("row"),
    ]
    aggregations += [CountDistinct("s"), Mean("row"), Std("row", ddof=0)]
    found = several(dataset_of(tables), partitions).groupby(keys).aggregate(*aggregations)
    groups: dict[Any, list[dict[str, Any]]] = {}
    for row in rows_of(tables):
        groups.setdefault(repr([alike(row[key]) for key in keys]), []).append(row)
    made = found.take_all()
    assert len(made) == len(groups)
    for row in made:
        rows = groups[repr([alike(row[key]) for key in keys])]
        numbers = [each["i"] for each in rows if each["i"] is not None]
        assert row["count()"] == len(rows)
        assert row["count(i)"] == len(numbers)
        assert row["sum(i)"] == (sum(numbers) if numbers else None)
        assert row["min(i)"] == min(numbers, default=None)
        assert row["max(i)"] == max(numbers, default=None)
        assert row["abs_max(i)"] == max(map(abs, numbers), default=None)
        assert sorted(row["list(row)"]) == [each["row"] for each in rows]
        assert row["count_distinct(s)"] == len({each["s"] for each in rows if each["s"] is not None})
        mean = sum(each["row"] for each in rows) / len(rows)
        assert row["mean(row)"] == pytest.approx(mean)
        spread = (sum((each["row"] - mean) ** 2 for each in rows) / len(rows)) ** 0.5
        assert row["std(row)"] == pytest.approx(spread)


@pytest.mark.parametrize("kind", KINDS)
@few
@given(
    left=blocks(),
    right=blocks(),
    keys=st.lists(st.sampled_from(["k", "s", "b", "t", "i"]), min_size=1, max_size=2, unique=True),
    partitions=st.booleans(),
)
def test_joins(
    kind: str, left: list[pa.Table], right: list[pa.Table], keys: list[str], partitions: bool
) -> None:
    one = pa.concat_tables([table.select([*keys, "row"]) for table in left])
    two = pa.concat_tables([table.select([*keys, "row"]) for table in right]).rename_columns([*keys, "other"])
    ds = several(dataset_of([table.select([*keys, "row"]) for table in left]), partitions)
    other = dataset_of([table.select([*keys, "row"]) for table in right]).rename_columns({"row": "other"})
    found = ds.join(other, kind, 2, on=tuple(keys)).take_all()
    connection = duckdb.connect()
    connection.register("one", one)
    connection.register("two", two)
    side = "two" if kind == "right_outer" else "one"
    chosen = [f'{side}."{key}"' for key in keys]
    if kind == "full_outer":
        chosen = [f'coalesce(one."{key}", two."{key}")' for key in keys]
    columns = [*chosen, "row"] + ([] if kind in ("left_semi", "left_anti") else ["other"])
    if kind == "right_outer":  # where the keys are those of the right side, they come with its columns
        columns = ["row", *chosen, "other"]
    on = " AND ".join(f'one."{key}" = two."{key}"' for key in keys)
    wanted = connection.execute(
        f"SELECT {', '.join(columns)} FROM one {KINDS[kind]} JOIN two ON {on}"
    ).fetchall()
    assert unordered(found) == unordered(wanted)
