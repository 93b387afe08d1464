"""Parquet: facts known without reading, skipped data, and files larger than memory."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import skate.data as rd
from skate.data.source.formats.parquet import ParquetDatasource


@pytest.fixture
def grouped(tmp_path: Path) -> Path:
    table = pa.table({"a": range(100), "b": [f"s{at}" for at in range(100)]})
    pq.write_table(table, tmp_path / "x.parquet", row_group_size=10)
    return tmp_path / "x.parquet"


def test_count_and_schema_read_footers_alone(grouped: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = rd.read_parquet(grouped, columns=["b"])
    monkeypatch.setattr(ParquetDatasource, "read_pieces", None)
    assert dataset.count() == 100
    assert dataset.schema().names == ["b"]


def test_row_groups_go_to_several_tasks_in_order(grouped: Path) -> None:
    dataset = rd.read_parquet(grouped, override_num_blocks=4).materialize()
    assert dataset.num_blocks() == 4
    assert [row["a"] for row in dataset.take_all()] == list(range(100))


@pytest.mark.parametrize("limit", [1, 15, 99])
def test_a_limit_reads_batches(grouped: Path, limit: int) -> None:
    assert [row["a"] for row in rd.read_parquet(grouped).limit(limit).take_all()] == list(range(limit))


def test_filters_are_pyarrow_expressions_or_lists(grouped: Path) -> None:
    wanted = [3, 4]
    for given in (
        {"filter": (pc.field("a") > 2) & (pc.field("a") < 5)},
        {"filters": [("a", ">", 2), ("a", "<", 5)]},
    ):
        dataset = rd.read_parquet(grouped, columns=["b"], **given)
        assert dataset.take_all() == [{"b": f"s{at}"} for at in wanted]
        assert dataset.count() == 2


def test_row_hashes_are_each_rows_own_however_it_is_read(grouped: Path) -> None:
    once = rd.read_parquet(grouped, include_row_hash=True).take_all()
    parts = rd.read_parquet(grouped, include_row_hash=True, override_num_blocks=5).take_all()
    assert once == parts
    assert len({row["row_hash"] for row in once}) == 100


def test_raw_arrays_in_binary_columns(tmp_path: Path) -> None:
    arrays = np.arange(12, dtype=np.int16).reshape(3, 2, 2)
    pq.write_table(pa.table({"x": [array.tobytes() for array in arrays]}), tmp_path / "x.parquet")
    found = rd.read_parquet(tmp_path, tensor_column_schema={"x": (np.int16, (2, 2))}).take_all()
    np.testing.assert_array_equal(np.stack([row["x"] for row in found]), arrays)


def test_paths_to_skip(tmp_path: Path) -> None:
    for at in range(3):
        pq.write_table(pa.table({"a": [at]}), tmp_path / f"{at}.parquet")
    found = rd.read_parquet(tmp_path, skip_paths=[str(tmp_path / "1.parquet")])
    assert [row["a"] for row in found.take_all()] == [0, 2]
    assert found.count() == 2


def test_pieces_follow_what_rules_ask_for(grouped: Path) -> None:
    source = ParquetDatasource(str(grouped), partitioning=None)
    fewer = source.with_columns(("b",))
    assert fewer is not None and source._columns is None
    (table,) = [table for task in fewer.get_read_tasks(1) for table in task()]
    assert table.column_names == ["b"]


def test_many_files_have_only_some_footers_read_before(tmp_path: Path) -> None:
    for at in range(40):
        pq.write_table(pa.table({"a": [at] * 3}), tmp_path / f"{at:02}.parquet")
    source = ParquetDatasource(str(tmp_path))
    assert len(source._footers) == 16
    assert source.known_rows() == 120
    assert rd.read_parquet(tmp_path).sum("a") == 3 * sum(range(40))


SCRIPT = """
import resource, sys
import skate.data as rd
from skate.data.source.formats.parquet import ParquetDatasource
source = ParquetDatasource(sys.argv[1], partitioning=None)
(task,) = source.get_read_tasks(1)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
rows = sum(table.num_rows for table in task())
print(rows, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10)
"""


@pytest.mark.parametrize("group_rows", [250_000, 16_000_000], ids=["many row groups", "one row group"])
def test_a_file_streams_in_a_fraction_of_its_size(tmp_path: Path, group_rows: int) -> None:
    rows = 16_000_000
    schema = pa.schema([("a", pa.int64()), ("b", pa.float64()), ("c", pa.int64())])
    with pq.ParquetWriter(tmp_path / "x.parquet", schema, use_dictionary=False, compression="none") as writer:
        numbers = np.arange(rows)
        batch = pa.table({"a": numbers, "b": numbers.astype(float), "c": numbers})
        writer.write_table(batch, row_group_size=group_rows)
    del batch
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path / "x.parquet")],
        capture_output=True,
        text=True,
        check=True,
    )
    read, megabytes = map(int, done.stdout.split())
    assert read == rows
    assert megabytes < 200, f"384 MB of rows were read with {megabytes} MB"
