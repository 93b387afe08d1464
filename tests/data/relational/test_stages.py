"""The parts of plans that Polars runs: when, how they are shown, how they fail and end."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from skate import data
from skate.data import DataContext, Dataset
from skate.data.aggregate import AggregateFn, Count, Sum, Unique
from skate.data.exchange.aggregate import AggregateKernel
from skate.data.expressions import col, lit
from skate.data.iteration import iterator
from skate.data.relational import held_rows, polars_run, stages
from skate.data.relational.polars_run import FrameRun
from tests.data.relational.both_ways import check, is_staged, whole

TABLE = pa.table({"k": [1, 2, 1, None], "v": [0.5, float("nan"), 2.0, 1.0], "s": ["b", "a", "b", None]})


@pytest.fixture
def files(tmp_path: Path) -> str:
    folder = tmp_path / "files"
    folder.mkdir()
    for number in range(3):
        pq.write_table(TABLE, folder / f"{number}.parquet")
    return str(folder)


def test_a_stage_is_shown_in_plans_and_statistics(files: str, capsys: pytest.CaptureFixture[str]) -> None:
    ds = data.read_parquet(files).groupby("k").aggregate(Count())
    ds.explain()
    assert "Polars(ReadParquet, Aggregate)" in capsys.readouterr().out
    assert ds.take_all() == [
        {"k": 1, "count()": 6},
        {"k": 2, "count()": 3},
        {"k": None, "count()": 3},
    ]
    assert "Operator 1 Polars(ReadParquet, Aggregate)" in ds.stats()


def test_functions_run_on_what_a_stage_yields(files: str) -> None:
    ds = data.read_parquet(files).sort("v").map(lambda row: {"twice": (row["v"] or 0) * 2})
    assert is_staged(ds)
    assert [row["twice"] for row in ds.take(4)] == [1.0, 1.0, 1.0, 2.0]


def test_blocks_of_a_stage_need_no_thread_between(files: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []

    class Seen(iterator.Prefetcher):
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            made.append(self)

    monkeypatch.setattr(iterator, "Prefetcher", Seen)
    ds = data.read_parquet(files).sort("v")
    blocks = list(ds.iter_batches(batch_size=None, batch_format="pyarrow"))
    assert sum(block.num_rows for block in blocks) == 12 and not made
    assert len(list(ds.iter_batches(batch_size=5))) == 3 and len(made) == 1
    assert len(list(ds.iter_batches(batch_size=None, batch_format="pandas"))) == 1 and len(made) == 2
    mapped = ds.map(lambda row: row).iter_batches(batch_size=None)
    assert sum(len(batch["v"]) for batch in mapped) == 12 and len(made) == 3


def test_a_scan_for_a_function_stays_with_it(files: str) -> None:
    filtered = data.read_parquet(files).filter(expr=col("k") == 1)
    assert is_staged(filtered)
    assert not is_staged(filtered.map(lambda row: row))
    assert not is_staged(data.read_parquet(files))


@pytest.mark.parametrize("case", ["switch", "size", "budget", "limits", "missing", "old"])
def test_what_keeps_polars_away(files: str, case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ds = data.read_parquet(files).sort("v")
    assert is_staged(ds)
    if case == "switch":
        ds.context.use_relational_engine = False
    elif case == "size":
        monkeypatch.setattr(stages, "_BYTES", 1 << 20)
    elif case == "budget":
        monkeypatch.setattr(stages, "_SHARE_OF_MEMORY", 0)
        monkeypatch.setattr(stages, "_COPIES", 1 << 60)
    elif case == "limits":
        ds.context.execution_options.resource_limits = data.ExecutionResources(cpu=1)
    elif case == "missing":
        monkeypatch.setitem(sys.modules, "polars", None)
    else:
        monkeypatch.setattr(polars, "__version__", "1.9.0")
    assert not is_staged(ds)
    assert whole(ds).num_rows == 12


@pytest.mark.parametrize(
    "build",
    [
        lambda ds: ds.groupby("k").aggregate(AggregateFn(lambda k: 0, max, "m", lambda a, row: a + 1)),
        lambda ds: ds.sort("v", boundaries=[1.0]),
        lambda ds: ds.random_shuffle().sort("v"),
        lambda ds: ds.filter(expr=col("s").str.upper() == "A").sort("v"),
        lambda ds: ds.join(ds, "inner", 1, on=("v",), right_suffix="_r"),
        lambda ds: ds.map(lambda row: row).sort("v"),
    ],
    ids=["function", "boundaries", "shuffle", "text", "float key", "map"],
)
def test_what_is_not_certain_goes_the_ordinary_way(files: str, build: Any) -> None:
    assert not is_staged(build(data.read_parquet(files)))


def test_options_of_readers_go_the_ordinary_way(files: str) -> None:
    for options in (
        {"include_paths": True},
        {"schema": TABLE.schema},
        {"filter": pa.compute.field("k") == 1},
        {"num_cpus": 2},
        {"override_num_blocks": 2},
        {"shuffle": "files"},
    ):
        assert not is_staged(data.read_parquet(files, **options).sort("v"))
    assert is_staged(data.read_parquet(files, columns=["v", "k"]).sort("v"))


def test_files_with_several_schemas_or_values_in_paths_go_the_ordinary_way(tmp_path: Path) -> None:
    for folder, table in (("k=1", TABLE), ("k=2", TABLE)):
        (tmp_path / "hive" / folder).mkdir(parents=True)
        pq.write_table(table.drop_columns(["k"]), tmp_path / "hive" / folder / "0.parquet")
    (tmp_path / "mixed").mkdir()
    pq.write_table(pa.table({"v": pa.array([1], pa.int32())}), tmp_path / "mixed" / "0.parquet")
    pq.write_table(pa.table({"v": pa.array([1], pa.int64())}), tmp_path / "mixed" / "1.parquet")
    for name in ("hive", "mixed"):
        ds = data.read_parquet(str(tmp_path / name)).sort("v")
        assert not is_staged(ds)
        check(ds)


def test_a_stage_that_polars_refuses_runs_the_ordinary_way(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: Any, **__: Any) -> Any:
        raise polars.exceptions.ComputeError("no")

    ds = data.from_arrow(TABLE).sort("s")
    monkeypatch.setattr(polars.LazyFrame, "collect_batches", refused)
    assert is_staged(ds)
    assert [row["s"] for row in ds.take_all()] == ["a", "b", "b", None]
    assert "Polars" not in ds.stats()


@pytest.mark.parametrize("case", ["column", "type", "file"])
def test_errors_are_those_of_the_ordinary_way(files: str, case: str) -> None:
    ds = data.read_parquet(files).filter(expr=col("none" if case == "column" else "k") == 1)
    if case == "type":
        ds = ds.groupby("k").sum("s")
    if case == "file":
        ds = ds.sort("v")
        path = Path(files, "1.parquet")
        path.write_bytes(path.read_bytes()[:200])
    ordinary = DataContext.get_current().copy()
    ordinary.use_relational_engine = False
    errors = []
    for way in (ds, Dataset(ds._plan, ordinary)):
        with pytest.raises(Exception) as found:
            way.take_all()
        errors.append((type(found.value).__mro__[0].__name__, str(found.value).splitlines()[-1]))
    assert errors[0] == errors[1]


def test_a_consumer_that_leaves_ends_the_stage(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[FrameRun] = []
    start = FrameRun.__init__
    monkeypatch.setattr(
        FrameRun, "__init__", lambda self, *given: (start(self, *given), seen.append(self))[0]
    )
    monkeypatch.setattr(polars_run, "_AHEAD", 1)
    ds = data.from_arrow(pa.table({"v": list(range(400_000))})).sort("v")
    assert ds.take(2) == [{"v": 0}, {"v": 1}]
    flow = ds._tables()
    next(flow)
    flow.close()
    for run in seen:
        run._thread.join(30)
        assert not run._thread.is_alive()


def test_another_thread_cancels_a_run_that_waits_for_polars(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, released = threading.Event(), threading.Event()

    def pieces(*_: Any, **__: Any) -> Any:
        begun.set()
        released.wait(60)
        yield polars.from_arrow(TABLE)

    monkeypatch.setattr(polars.LazyFrame, "collect_batches", pieces)
    ds = data.from_arrow(TABLE).sort("v")
    flow = ds._run()

    def cancel() -> None:
        assert begun.wait(60)
        assert ds._last_run is not None
        ds._last_run.cancel()

    canceller = threading.Thread(target=cancel)
    canceller.start()
    assert sum(bundle.rows for bundle in flow) == 0
    canceller.join()
    released.set()


def test_a_reader_that_fails_late_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    def pieces(*_: Any, **__: Any) -> Any:
        yield polars.from_arrow(TABLE)
        raise polars.exceptions.ComputeError("the disk is gone")

    monkeypatch.setattr(polars.LazyFrame, "collect_batches", pieces)
    ds = data.from_arrow(TABLE).sort("v")
    ds.context.target_max_block_size = 1
    with pytest.raises(pa.ArrowInvalid, match="the disk is gone"):
        list(ds._tables())


def test_nothing_imports_polars_before_it_is_used() -> None:
    program = (
        "import sys, skate as ray\n"
        "ray.data.range(1000).map(lambda r: r).filter(lambda r: True).sort('id').count()\n"
        "assert 'polars' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_columns_of_one_value_keep_their_rows() -> None:
    ds = data.from_arrow(TABLE).sort("v")
    check(ds.with_column("one", lit(1)).filter(expr=col("one") == 1))
    check(ds.select_columns(["k"]).with_column("one", lit("x")))
    check(data.from_arrow(TABLE).groupby(None).aggregate(Count(), Sum("v"), Sum("k", False)))
    assert threading.active_count() < 20


def test_polars_counts_the_rows_of_a_stage(files: str) -> None:
    ds = data.read_parquet(files).filter(expr=col("k") == 1)
    assert ds.count() == len(ds.take_all()) == 6
    assert data.read_parquet(files).filter(expr=col("k") == 7).count() == 0
    ds.count()
    assert ", Count)" in ds.stats()


def test_distinct_values_come_in_order_of_appearance(files: str) -> None:
    for ds in (data.read_parquet(files), data.from_arrow(TABLE).sort("s")):
        assert is_staged(ds._exchanged(AggregateKernel((), [Unique("k")])))
        ordinary = Dataset(ds._plan, ds.context.copy())
        ordinary.context.use_relational_engine = False
        for name, ignore_nulls in (("k", False), ("k", True), ("s", False)):
            assert ds.unique(name, ignore_nulls) == ordinary.unique(name, ignore_nulls)
    assert data.read_parquet(files).filter(expr=col("k") == 7).unique("s") == []


def test_a_count_that_polars_refuses_runs_the_ordinary_way(
    files: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: Any, **__: Any) -> Any:
        raise polars.exceptions.ComputeError("no")

    ds = data.read_parquet(files).filter(expr=col("k") == 1)
    monkeypatch.setattr(polars.LazyFrame, "collect", refused)
    assert ds.count() == 6
    assert "Polars" not in ds.stats()


def test_results_of_equal_groups_have_their_own_names_and_types() -> None:
    ds = data.from_arrow(TABLE)
    for _ in range(2):
        check(ds.groupby("k").aggregate(Sum("v"), Count("v")), exact=False)
        check(ds.groupby("k").aggregate(Sum("k", alias_name="sum(v)"), Count("v", ignore_nulls=True)))
        check(ds.groupby("k").aggregate(Sum("v", ignore_nulls=False)), exact=False)


@pytest.fixture
def many() -> Dataset:
    """400 rows of two keys: a join with themselves has 80,000 rows."""
    return data.from_arrow(pa.table({"k": [row % 2 for row in range(400)], "v": list(range(400))}))


@pytest.mark.parametrize("step", ["sort", "groups"])
def test_a_join_of_more_rows_than_memory_runs_the_ordinary_way(
    many: Dataset, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    joined = many.join(many, "inner", 1, on=("k",), right_suffix="_r")
    ds = joined.sort("v") if step == "sort" else joined.groupby("v").aggregate(Count())
    found = whole(ds)
    assert "Polars" in ds.stats()
    monkeypatch.setattr(stages, "_budget", lambda context: 3 * 100_000)
    assert is_staged(ds)  # how many rows the join makes shows only while it runs
    assert whole(ds).num_rows == found.num_rows == (80_000 if step == "sort" else 400)
    assert "Polars" not in ds.stats()


def test_only_columns_that_are_held_are_counted(many: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: set[tuple[str, ...]] = set()
    count = held_rows.RowBudget._counted

    def counted(budget: Any, rows: Any) -> Any:
        seen.add(tuple(rows.columns))
        return count(budget, rows)

    monkeypatch.setattr(held_rows.RowBudget, "_counted", counted)
    joined = many.join(many, "inner", 1, on=("k",), right_suffix="_r").filter(expr=col("v") >= 0)
    whole(joined.groupby("v").aggregate(Count(), Sum("v_r")))
    assert seen == {("v", "v_r")}
    assert joined.aggregate(Count()) == {"count()": 80_000}
    assert seen == {("v", "v_r"), ("k",)}, "a count holds no column, and Polars needs one"
    whole(joined.sort("v"))
    assert seen == {("v", "v_r"), ("k",), ("k", "v", "v_r")}


def test_joins_whose_rows_leave_at_once_need_no_bound(many: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    joined = many.join(many, "inner", 1, on=("k",), right_suffix="_r")
    monkeypatch.setattr(stages, "_budget", lambda context: 3 * 100_000)
    ds = joined.filter(expr=col("v") >= 0)
    assert whole(ds).num_rows == 80_000
    assert "Polars" in ds.stats()
    assert ds.count() == 80_000
    both = joined.union(joined)
    assert is_staged(both) and whole(both).num_rows == 160_000


def test_a_join_of_a_join_holds_no_rows_without_a_bound(many: Dataset) -> None:
    few = data.from_arrow(pa.table({"k": [0], "w": [1]}))
    inner = many.join(few, "inner", 1, on=("k",))
    outer = inner.join(few, "inner", 1, on=("k",), right_suffix="_r")
    outer_stages = [each.name for each in stages.with_stages(outer._plan, outer.context).walk()]
    assert outer_stages == ["Polars(FromArrow, FromArrow, Join)", "FromArrow", "Join"]
    assert is_staged(outer.sort("v"))
    check(outer.sort("v"))
    check(many.join(few, "left_semi", 1, on=("k",)).join(few, "inner", 1, on=("k",)), ordered=False)


def test_unions_of_equal_schemas_are_staged(files: str) -> None:
    blocks = data.from_arrow(TABLE)
    ds = data.read_parquet(files).union(blocks.filter(expr=col("k") == 1), blocks)
    for made in (
        ds.sort("s"),
        ds.filter(expr=col("v") > 0.5),
        ds.groupby("k").aggregate(Count(), Sum("v")),
        ds.limit(14).sort("k"),
        ds.limit(13).filter(expr=col("s").is_not_null()),
    ):
        assert is_staged(made)
        check(made)
    assert not is_staged(blocks.union(blocks))
    assert not is_staged(ds.union(blocks.drop_columns(["s"])).sort("k"))
    check(ds.union(blocks.drop_columns(["s"])).sort("k"))
