"""Stages over CSV files: the types, nulls and errors are those of Skate's reader, which also restricts the columns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.csv as pacsv
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skate import data
from skate.data import Dataset
from skate.data.aggregate import Count, Max, Mean, Min, Sum
from skate.data.execution.physical import Physical
from skate.data.expressions import col
from skate.data.plan.operators import Read
from skate.data.relational import csv_scans, stages
from skate.data.relational.frames import Frames
from skate.data.relational.refusals import StageRefused
from skate.data.source.files import source
from skate.data.source.formats.csv import CSVDatasource
from tests.data.relational.both_ways import check, in_both_ways, is_staged, whole
from tests.data.relational.test_same_answers import some

TEXT = "k,v,s,d\n1,0.5,b,2024-01-01\n2,nan,a,2024-01-02\n1,NA,,NULL\n,7,b,2024-01-01\n"


@pytest.fixture
def files(tmp_path: Path) -> str:
    folder = tmp_path / "files"
    folder.mkdir()
    for number in range(3):
        (folder / f"{number}.csv").write_text(TEXT)
    return str(folder)


def test_plans_over_csv_files_have_the_same_answers(files: str, capsys: pytest.CaptureFixture[str]) -> None:
    ds = data.read_csv(files)
    ds.groupby("k").aggregate(Count()).explain()
    assert "Polars(ReadCSV, Aggregate)" in capsys.readouterr().out
    rows = check(ds.groupby("k").aggregate(Count(), Sum("v"), Mean("v"), Max("s"), Min("d")), exact=False)
    assert rows.num_rows == 3
    for made in (
        ds.sort(["s", "v"], descending=[True, False]),
        ds.filter(expr=(col("k") == 1) & (col("v") > 0)),
        ds.filter(expr=col("s") == "none"),
        ds.drop_columns(["d"]).rename_columns({"v": "w"}).sort("w").limit(5),
        ds.with_column("twice", col("k") + col("k")).select_columns(["twice", "s"]).sort("twice"),
        ds.union(ds).groupby("s").aggregate(Count()),
    ):
        assert is_staged(made)
        check(made)
    assert ds.filter(expr=col("k") == 1).count() == 6
    assert not is_staged(ds)
    few = data.read_csv(files).groupby("k").aggregate(Max("d"))
    check(ds.join(few, "inner", 1, on=("k",)), ordered=False)
    check(ds.join(ds, "left_semi", 1, on=("s",)).sort("d"), ordered=False)


def test_times_in_csv_files_have_seconds(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(
        "t,v\n2024-01-01 12:00:01,1\n1969-12-31 23:59:59,2\n,3\n2024-01-01 12:00:01,4\n"
    )
    ds = data.read_csv(str(tmp_path / "a.csv"))
    assert str(ds.schema().types[0]) == "timestamp[s]"
    for made in (
        ds.sort("t"),
        ds.groupby("t").aggregate(Count(), Max("v")),
        ds.groupby("v").aggregate(Max("t")),
        ds.filter(expr=col("t").is_not_null()),
    ):
        assert is_staged(made)
        check(made)


VALUES = {
    "k": st.sampled_from(["", "0", "1", "-7", "9223372036854775807", "NULL"]),
    "v": st.sampled_from(["", "0.0", "-0.0", "1e300", "nan", "NaN", "inf", "3", "NA"]),
    "s": st.sampled_from(["", "a", "b", '"b"', '"a,""b"""', '""', "ä", "null", "true", "1"]),
    "b": st.sampled_from(["true", "false", "", "TRUE", "1"]),
    "d": st.sampled_from(["2024-02-29", "1969-12-31", "", "none"]),
}
LINES = st.lists(st.tuples(*VALUES.values()), max_size=6)


@given(LINES, LINES, st.data())
@some
def test_random_files(tmp_path: Path, first: list[Any], second: list[Any], drawn: Any) -> None:
    folder = tmp_path / "random"
    folder.mkdir(exist_ok=True)
    for name, lines in (("0", first), ("1", second)):
        text = "".join(",".join(each) + "\n" for each in lines)
        (folder / f"{name}.csv").write_text(",".join(VALUES) + "\n" + text)
    ds = data.read_csv(str(folder))
    name = drawn.draw(st.sampled_from(list(VALUES)))
    key = drawn.draw(st.sampled_from([other for other in VALUES if other != name]))
    for made in (
        ds.sort(name),
        ds.groupby(key).aggregate(Count(name), Max(name)),
        ds.filter(expr=col("k") > 0),
    ):
        try:
            found, wanted = in_both_ways(made)
        except AssertionError:  # Polars is given no blocks of several types
            assert "Polars" not in made.stats()
        except Exception as error:  # noqa: BLE001  # both ways raise it
            made.context.use_relational_engine = False
            with pytest.raises(type(error)):
                whole(made)
            made.context.use_relational_engine = True
        else:
            assert found.schema.equals(wanted.schema) and repr(found.to_pylist()) == repr(wanted.to_pylist())


def scanned(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return a list to which each scan adds the columns that it reads."""
    seen: list[Any] = []
    read = csv_scans._restricted

    def restricted(node: Read, used: Any) -> Read:
        made = read(node, used)
        seen.append(made.columns)
        return made

    monkeypatch.setattr(csv_scans, "_restricted", restricted)
    return seen


def test_only_columns_in_use_are_read(files: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = scanned(monkeypatch)
    ds = data.read_csv(files)
    check(ds.filter(expr=col("v") > 0).groupby("k").aggregate(Count(), Max("d")))
    assert ds.filter(expr=col("s") == "b").count() == 6
    check(ds.rename_columns({"s": "t", "k": "s"}).groupby("t").aggregate(Count("s")))
    check(ds.with_column("w", col("k") + 1).with_column("v", col("w") * 2).groupby("s").aggregate(Sum("v")))
    check(ds.sort("k"))
    assert seen == [("d", "k", "v"), ("s",), ("k", "s"), ("k", "s"), None]


def test_a_scan_of_two_inputs_is_read_once(files: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = scanned(monkeypatch)
    ds = data.read_csv(files)
    chosen = ds.filter(expr=col("k") == 2).select_columns(["s"])
    check(ds.select_columns(["k", "s"]).join(chosen, "left_semi", 1, on=("s",)).sort("k"))
    assert seen == [("k", "s")]


def test_a_filter_is_applied_where_files_are_read(files: str, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[int] = []
    blocks = Frames._blocks

    def counted(frames: Frames, tables: list[Any]) -> Any:
        given.append(sum(table.num_rows for table in tables))
        return blocks(frames, tables)

    monkeypatch.setattr(Frames, "_blocks", counted)
    ds = data.read_csv(files)
    few = ds.filter(expr=col("v") > 1)
    for made, rows in (
        (few, 3),
        (few.filter(expr=col("k").is_null()).sort("d"), 3),
        (ds.filter(expr=col("k") < 0), 0),
    ):
        del given[:]
        check(made)
        assert given[-1] == rows
    both = few.union(ds).groupby("s").aggregate(Count())
    check(both)
    del given[:]
    assert both.take_all() and given[-2:] == [12, 12], "the scan is used twice"


def test_scans_of_several_files_are_not_mixed_up(tmp_path: Path) -> None:
    physical = Physical(data.DataContext.get_current())
    for number in range(20):
        path = tmp_path / f"{number}.csv"
        path.write_text("k\n1\n")
        # Nothing else keeps the scan, so that the next one may have its identity.
        tasks = physical._tasks(Read(datasource=CSVDatasource(str(path))))
        assert [each.metadata.input_files for each in tasks] == [[str(path)]]


def test_options_that_change_what_is_read(files: str, tmp_path: Path) -> None:
    (tmp_path / "hive" / "year=2024").mkdir(parents=True)
    (tmp_path / "hive" / "year=2024" / "0.csv").write_text(TEXT)
    for ds in (
        data.read_csv(str(tmp_path / "hive")),
        data.read_csv(files, include_paths=True),
        data.read_csv(files, convert_options=pacsv.ConvertOptions(column_types={"s": "large_string"})),
        data.read_csv(files, convert_options=pacsv.ConvertOptions(include_columns=["v", "k"])),
        data.read_csv(files, read_options=pacsv.ReadOptions(skip_rows=1, autogenerate_column_names=True)),
    ):
        key = ds.schema().names[0]
        assert is_staged(ds.sort(key))
        check(ds.sort(key))
        check(ds.groupby(key).aggregate(Count()))
    for options in ({"shuffle": "files"}, {"override_num_blocks": 2}, {"num_cpus": 2}):
        assert not is_staged(data.read_csv(files, **options).sort("k"))
    handler = pacsv.ParseOptions(invalid_row_handler=lambda row: "skip")
    assert not is_staged(data.read_csv(files, parse_options=handler).sort("k"))
    assert not is_staged(data.read_csv(files).limit(2).sort("k"))


def ran_ordinarily(ds: Dataset) -> bool:
    """Assert that Polars would be tried for a dataset, and return True if it gives up and the result is right."""
    assert is_staged(ds)
    found = whole(ds)
    ordinary = Dataset(ds._plan, ds.context.copy())
    ordinary.context.use_relational_engine = False
    return found.equals(whole(ordinary)) and "Polars" not in ds.stats()


def test_blocks_of_several_types_run_the_ordinary_way(files: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "_JOINED_BYTES", 1)
    Path(files, "2.csv").write_text(TEXT.replace("2,nan", "2.5,nan"))
    assert ran_ordinarily(data.read_csv(files).sort("k"))
    check(data.read_csv(files).groupby("s").aggregate(Count()))  # reads other columns
    Path(files, "1.csv").write_text("k,other\n1,2\n")
    assert ran_ordinarily(data.read_csv(files).sort("k"))


def test_more_rows_than_expected_run_the_ordinary_way(files: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stages, "_budget", lambda context: 600)
    monkeypatch.setattr(CSVDatasource, "_INFLATION", 0.5)
    assert ran_ordinarily(data.read_csv(files).sort("k"))


def test_errors_name_the_file_and_the_row(files: str) -> None:
    Path(files, "1.csv").write_text(TEXT + "1,2\n")
    for ds in (data.read_csv(files).sort("k"), data.read_csv(files).filter(expr=col("k") == 1)):
        assert is_staged(ds)
        with pytest.raises(ValueError, match=r"1\.csv.*Row #6"):
            ds.take_all()


def test_a_consumer_who_leaves_ends_the_reading(files: str) -> None:
    ds = data.read_csv(files)
    rows = csv_scans.AllRows(ds._plan, {}, lambda node: [], 1 << 30, lambda: False)
    tasks = ds._plan.datasource.get_read_tasks(1)
    with pytest.raises(StageRefused, match="closed"):
        rows._blocks(tasks[0])
