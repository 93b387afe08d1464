"""Sorts and groups over the budget that are made in several passes have the rows of the ordinary way, in the same order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skate import data
from skate.data import Dataset
from skate.data.aggregate import Count, CountDistinct, Max, Sum
from skate.data.exchange.aggregate import AggregateKernel
from skate.data.expressions import col
from skate.data.plan.rules import optimized
from skate.data.relational import passes, stages
from skate.data.relational.frames import Frames
from skate.data.relational.held_bytes import flowing_bytes
from skate.data.relational.passes import Passes
from tests.data.relational.both_ways import check, is_staged, whole
from tests.data.relational.test_same_answers import SCHEMA, dataset, every, some, tables

#: Columns whose keys have ranges.
RANGED = ["k", "u", "f", "g", "s", "d"]
ROWS = 3000


@pytest.fixture
def rows(tmp_path: Path) -> Dataset:
    """3,000 rows in three files: `many` has as many values, `most` mostly one."""
    table = pa.table(
        {
            "many": [(row * 7919) % 100_003 for row in range(ROWS)],
            "most": [7 if row % 4 else row for row in range(ROWS)],
            "text": [f"text-{(row * 7) % 1000}" for row in range(ROWS)],
            "value": [row / 3 for row in range(ROWS)],
        }
    )
    for number in range(3):
        pq.write_table(table.slice(number * ROWS // 3, ROWS // 3), tmp_path / f"{number}.parquet")
    return data.read_parquet(str(tmp_path))


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The frames of the sorts and groups that were made."""
    seen: list[Any] = []
    held = Frames.held

    def counted(frames: Frames, *given: Any) -> Any:
        seen.append(held(frames, *given))
        return seen[-1]

    monkeypatch.setattr(Frames, "held", counted)
    return seen


def with_passes(monkeypatch: pytest.MonkeyPatch, ds: Dataset, count: int) -> bool:
    """Set the budget so that a plan needs some passes; return True if that is how it is going to run."""
    size = flowing_bytes(optimized(ds._plan))
    assert size is not None
    if isinstance(ds._plan.kernel, AggregateKernel):
        size *= passes.GROUPS_TIMES
    monkeypatch.setattr(stages, "_budget", lambda context: 3 * max(1, -(-int(size) // count)))
    staged = stages.with_stages(optimized(ds._plan), ds.context)
    return isinstance(getattr(staged, "frame", None), Passes)


@pytest.mark.parametrize("name", RANGED)
def test_keys_of_every_type(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passes, "_SLACK", 100)
    ds = dataset(every(), tmp_path)
    other = "b" if name != "b" else "k"
    for down in (False, True):
        for keys in ([name], [name, other]):
            ordered = ds.sort(keys, descending=[down, not down][: len(keys)])
            assert with_passes(monkeypatch, ordered, 6)
            check(ordered)
    for keys in ([name], [name, other]):
        groups = ds.groupby(keys).aggregate(Count(), Max("t"), CountDistinct("e"), Sum("c"))
        assert with_passes(monkeypatch, groups, 6)
        check(groups, exact=False)


@given(tables(), st.sampled_from(RANGED), st.sampled_from(SCHEMA.names), st.booleans(), st.integers(2, 9))
@some
def test_random_rows(tmp_path: Path, table: pa.Table, name: str, other: str, down: bool, count: int) -> None:
    ds = dataset(table, tmp_path)
    kept = ds.filter(expr=col("i") > 0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(passes, "_SLACK", 100)
        keys = [name] if other == name else [name, other]
        groups = ds.groupby(keys).aggregate(Count(), Sum("f"), Max("s"))
        for plan in (
            ds.sort([name, "z"], descending=[down, False]),
            kept.sort(name, descending=down),
            groups,
        ):
            # Few groups fit without passes.
            assert with_passes(patch, plan, count) or plan is groups or not table.num_rows
            check(plan, exact=False)


def test_each_pass_reads_its_part(rows: Dataset, made: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    groups = rows.groupby("many").aggregate(Sum("value"))
    assert with_passes(monkeypatch, groups, 5)
    del made[:]
    assert check(groups, exact=False).num_rows == ROWS
    # The first two are those of plans.
    sizes = [each.lazy.collect().height for each in made[2:]]
    assert len(sizes) == 5 and sum(sizes) == ROWS and max(sizes) <= ROWS // 5 + 1
    assert groups.count() == ROWS
    first = sorted((row * 7919) % 100_003 for row in range(ROWS))[:2]
    assert [row["many"] for row in groups.limit(2).iter_rows()] == first


def test_a_filter_leaves_fewer_passes(
    rows: Dataset, made: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    few = rows.filter(expr=col("value") < 100).sort("many")
    assert with_passes(monkeypatch, few, 8)
    del made[:]
    assert whole(few).num_rows == 300
    assert len(made) == 2
    none = rows.filter(expr=col("value") < -1).sort("many")
    assert with_passes(monkeypatch, none, 8)
    check(none)


def test_many_rows_of_one_key(rows: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    ordered = rows.sort("most")
    assert with_passes(monkeypatch, ordered, 5)
    found = whole(ordered)
    assert "Polars" not in ordered.stats(), "a sort cannot divide them"
    assert found["most"].to_pylist() == sorted(whole(rows)["most"].to_pylist())
    groups = rows.groupby("most").aggregate(Count(), Max("text"))
    assert with_passes(monkeypatch, groups, 5)
    check(groups)
    assert "Polars" in groups.stats(), "a group holds none of them"


def test_plans_that_are_not_made_in_passes(rows: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    ordered = rows.sort("many")
    assert with_passes(monkeypatch, ordered, 64)
    assert not with_passes(monkeypatch, ordered, 65)
    assert not is_staged(ordered)
    monkeypatch.setattr(passes, "_KEPT", 0)
    assert with_passes(monkeypatch, ordered, 6)
    assert not with_passes(monkeypatch, ordered, 7)
    blocks = data.from_arrow(whole(rows))
    for other in (blocks.sort("many"), rows.union(blocks).sort("many"), ordered.sort("text")):
        monkeypatch.setattr(stages, "_budget", lambda context: 60_000)
        staged = stages.with_stages(optimized(other._plan), other.context)
        assert not isinstance(getattr(staged, "frame", None), Passes)


def test_a_consumer_who_leaves_ends_the_passes(
    rows: Dataset, made: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    ordered = rows.sort("many")
    ordered.context.target_max_block_size = 1
    assert with_passes(monkeypatch, ordered, 30)
    flow = ordered._tables()
    next(flow)
    flow.close()
    assert len(made) < 30
