"""Files read and written, as the public names promise."""

from __future__ import annotations

import io
import json
import os
import pickle
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import ray.data as rd
from ray.data.datasource import FilenameProvider, Partitioning, PathPartitionFilter

pytestmark = pytest.mark.usefixtures("cluster")


def rows_of(dataset: Any, *keys: str) -> list[Any]:
    """The rows as tuples, in an order that does not depend on how they were read."""
    return sorted(tuple(row[key] for key in keys) for row in dataset.take_all())


def files_in(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("kind", ["parquet", "csv", "json"])
def test_rows_come_back(kind: str, tmp_path: Path) -> None:
    getattr(rd.range(10), f"write_{kind}")(str(tmp_path / "x"))
    found = getattr(rd, f"read_{kind}")(str(tmp_path / "x"))
    assert rows_of(found, "id") == [(at,) for at in range(10)]
    assert found.count() == 10
    assert found.schema().names == ["id"]


@pytest.mark.parametrize("kind", ["parquet", "csv", "json"])
def test_files_end_with_their_format_one_a_block(kind: str, tmp_path: Path) -> None:
    getattr(rd.range(10, override_num_blocks=2), f"write_{kind}")(str(tmp_path / "x"))
    assert [path.suffix for path in files_in(tmp_path)] == [f".{kind}"] * 2


@pytest.mark.parametrize("kind", ["parquet", "csv", "json", "text", "binary_files", "numpy", "images"])
def test_a_path_that_is_missing_is_refused_at_once(kind: str, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        getattr(rd, f"read_{kind}")(str(tmp_path / "gone.x"))


@pytest.mark.parametrize("kind", ["parquet", "csv", "text"])
def test_an_empty_directory_is_refused(kind: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError):
        getattr(rd, f"read_{kind}")(str(tmp_path)).take_all()


def test_missing_paths_may_be_ignored(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a\n1\n")
    found = rd.read_csv([str(tmp_path / "a.csv"), str(tmp_path / "b.csv")], ignore_missing_paths=True)
    assert found.take_all() == [{"a": 1}]


def test_hidden_names_in_directories_are_left_out(tmp_path: Path) -> None:
    for name in ("a.csv", "_b.csv", ".c.csv"):
        (tmp_path / name).write_text(f"n\n{name}\n")
    assert rd.read_csv(str(tmp_path)).take_all() == [{"n": "a.csv"}]


def test_file_extensions_choose(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a\n1\n")
    (tmp_path / "b.txt").write_text("a\n2\n")
    assert rd.read_csv(str(tmp_path), file_extensions=["txt"]).take_all() == [{"a": 2}]
    with pytest.raises(ValueError):
        rd.read_csv(str(tmp_path), file_extensions=["parquet"]).take_all()


def test_include_paths(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x\n")
    assert rd.read_text(str(tmp_path / "a.txt"), include_paths=True).take_all() == [
        {"text": "x", "path": str(tmp_path / "a.txt")}
    ]


def test_lines_of_text(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"a\r\n\nb\n  \nc")
    assert [row["text"] for row in rd.read_text(str(tmp_path)).take_all()] == ["a", "b", "c"]
    every = rd.read_text(str(tmp_path), drop_empty_lines=False).take_all()
    assert [row["text"] for row in every] == ["a", "", "b", "  ", "c"]


def test_bytes_of_files(tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(b"\0\1")
    assert rd.read_binary_files(str(tmp_path)).take_all() == [{"bytes": b"\0\1"}]


def test_arrays_of_npy_files(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.arange(6).reshape(3, 2))
    found = rd.read_numpy(str(tmp_path)).take_all()
    assert [row["data"].tolist() for row in found] == [[0, 1], [2, 3], [4, 5]]


def test_npy_files_written(tmp_path: Path) -> None:
    rd.range_tensor(4, shape=(2,)).write_numpy(str(tmp_path), column="data")
    assert sorted(row["data"].tolist() for row in rd.read_numpy(str(tmp_path)).take_all()) == [
        [at, at] for at in range(4)
    ]


def test_images(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    image.fromarray(np.zeros((4, 5, 3), np.uint8)).save(tmp_path / "a.png")
    image.fromarray(np.zeros((4, 5), np.uint8)).save(tmp_path / "b.png")
    (row,) = rd.read_images(str(tmp_path / "a.png")).take_all()
    assert (row["image"].shape, row["image"].dtype) == ((4, 5, 3), np.uint8)
    found = rd.read_images(str(tmp_path), size=(2, 3), mode="RGB").take_all()
    assert [row["image"].shape for row in found] == [(2, 3, 3)] * 2
    rd.read_images(str(tmp_path / "a.png")).write_images(str(tmp_path / "out"), column="image")
    assert [path.suffix for path in files_in(tmp_path / "out")] == [".png"]


@pytest.mark.parametrize(
    ("text", "rows"),
    [('[{"a": 1}, {"a": 2}]', [1, 2]), ('{"a": 1}\n{"a": 2}\n', [1, 2]), ('{"a":\n1}', [1])],
)
def test_json_as_an_array_lines_or_one_object(text: str, rows: list[int], tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(text)
    assert [row["a"] for row in rd.read_json(str(tmp_path)).take_all()] == rows


def test_json_is_written_an_object_a_line(tmp_path: Path) -> None:
    rd.from_items([{"a": 1, "b": "x"}]).write_json(str(tmp_path))
    (path,) = files_in(tmp_path)
    assert json.loads(path.read_text().splitlines()[0]) == {"a": 1, "b": "x"}


def test_csv_options_of_arrow(tmp_path: Path) -> None:
    import pyarrow.csv as pacsv

    (tmp_path / "a.csv").write_text("a;b\n1;2\n")
    found = rd.read_csv(str(tmp_path), parse_options=pacsv.ParseOptions(delimiter=";"))
    assert found.take_all() == [{"a": 1, "b": 2}]


def test_hive_partitions_are_columns_of_strings(tmp_path: Path) -> None:
    frame = pd.DataFrame({"k": [1, 1, 2], "v": [1.0, 2.0, 3.0]})
    rd.from_pandas(frame).write_parquet(str(tmp_path), partition_cols=["k"])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["k=1", "k=2"]
    assert rows_of(rd.read_parquet(str(tmp_path)), "k", "v") == [("1", 1.0), ("1", 2.0), ("2", 3.0)]
    typed = rd.read_parquet(str(tmp_path), partitioning=Partitioning("hive", field_types={"k": int}))
    assert rows_of(typed, "k", "v") == [(1, 1.0), (1, 2.0), (2, 3.0)]
    assert rd.read_parquet(str(tmp_path), partitioning=None).schema().names == ["v"]


def test_partition_filters(tmp_path: Path) -> None:
    for at in (1, 2):
        (tmp_path / f"k={at}").mkdir()
        (tmp_path / f"k={at}" / "a.csv").write_text(f"v\n{at}\n")
    chosen = PathPartitionFilter.of(lambda values: values["k"] == "2", style="hive")
    assert rows_of(rd.read_csv(str(tmp_path), partition_filter=chosen), "v") == [(2,)]


def test_columns_of_parquet(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1], "b": ["x"], "c": [1.5]}), tmp_path / "x.parquet")
    assert rd.read_parquet(str(tmp_path), columns=["c", "a"]).take_all() == [{"c": 1.5, "a": 1}]


def test_what_is_no_parquet_is_refused_at_once(tmp_path: Path) -> None:
    (tmp_path / "x.parquet").write_bytes(b"no parquet" * 20)
    with pytest.raises(ValueError):
        rd.read_parquet(str(tmp_path / "x.parquet"))


def test_a_bad_csv_row_is_a_value_error(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("a,b\n1,2\n1,2,3\n")
    with pytest.raises(ValueError):
        rd.read_csv(str(tmp_path)).take_all()


@pytest.mark.chosen_difference("Ray says what Arrow says", id="D-data-files-named")
def test_a_bad_csv_row_is_named(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("a,b\n1,2\n1,2,3\n")
    with pytest.raises(ValueError, match=r"x\.csv.*Row #3"):
        rd.read_csv(str(tmp_path)).take_all()


@pytest.mark.chosen_difference("Ray reads rows of an unrequested column", id="D-data-unknown-columns")
def test_unknown_columns_are_refused_at_once(tmp_path: Path) -> None:
    pq.write_table(pa.table({"price": [1]}), tmp_path / "x.parquet")
    with pytest.raises(ValueError, match="did you mean 'price'"):
        rd.read_parquet(str(tmp_path), columns=["prize"])


@pytest.mark.chosen_difference("Ray takes a pattern for a name", id="D-data-patterns")
def test_patterns(tmp_path: Path) -> None:
    for name in ("a1.csv", "a2.csv", "b.csv"):
        (tmp_path / name).write_text("n\n1\n")
    assert rd.read_csv(f"{tmp_path}/a*.csv").count() == 2


def test_modes(tmp_path: Path) -> None:
    path = str(tmp_path / "x")
    rd.range(2, override_num_blocks=1).write_csv(path)
    rd.range(2, override_num_blocks=1).write_csv(path)
    assert len(os.listdir(path)) == 2
    rd.range(2, override_num_blocks=1).write_csv(path, mode=rd.SaveMode.IGNORE)
    assert len(os.listdir(path)) == 2
    rd.range(2, override_num_blocks=1).write_csv(path, mode=rd.SaveMode.OVERWRITE)
    assert len(os.listdir(path)) == 1
    for mode in (rd.SaveMode.ERROR, rd.SaveMode.CREATE):
        with pytest.raises(ValueError):
            rd.range(2).write_csv(path, mode=mode)


def test_rows_a_file(tmp_path: Path) -> None:
    rd.range(100, override_num_blocks=10).write_parquet(str(tmp_path / "a"), min_rows_per_file=50)
    assert [pq.read_metadata(path).num_rows for path in files_in(tmp_path / "a")] == [50, 50]
    rd.range(100, override_num_blocks=1).write_parquet(str(tmp_path / "b"), max_rows_per_file=30)
    assert max(pq.read_metadata(path).num_rows for path in files_in(tmp_path / "b")) <= 30


def test_empty_datasets_write_no_rows(tmp_path: Path) -> None:
    rd.range(10).filter(lambda row: False).write_parquet(str(tmp_path / "x"))
    assert not files_in(tmp_path)


class Named(FilenameProvider):
    def get_filename_for_task(self, write_uuid: str, task_index: int) -> str:
        return f"part-{task_index}.csv"


def test_names_of_files_may_be_given(tmp_path: Path) -> None:
    rd.range(4, override_num_blocks=2).write_csv(str(tmp_path), filename_provider=Named())
    assert [path.name for path in files_in(tmp_path)] == ["part-0.csv", "part-1.csv"]


def test_input_files(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a\n1\n")
    assert rd.read_csv(str(tmp_path)).input_files() == [str(tmp_path / "a.csv")]


def test_compressed_text(tmp_path: Path) -> None:
    with pa.CompressedOutputStream(str(tmp_path / "a.csv.gz"), "gzip") as file:
        file.write(b"a\n1\n")
    assert rd.read_csv(str(tmp_path)).take_all() == [{"a": 1}]


def test_sql(tmp_path: Path) -> None:
    import sqlite3

    path = str(tmp_path / "x.db")
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE t (id INTEGER)")
    connection.commit()
    connection.close()
    rd.range(3, override_num_blocks=1).write_sql("INSERT INTO t VALUES (?)", lambda: sqlite3.connect(path))
    found = rd.read_sql("SELECT * FROM t", lambda: sqlite3.connect(path))
    assert rows_of(found, "id") == [(0,), (1,), (2,)]


def test_lists_as_lines_of_json(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('["a", "b"]\n["c"]\n')
    assert rd.read_json(str(tmp_path / "a.jsonl"), lines=True).take_all() == [
        {"0": "a", "1": "b"},
        {"0": "c", "1": None},
    ]


def test_what_is_no_csv_is_said_to_be_none(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1, 2]}), tmp_path / "a.parquet")
    with pytest.raises(ValueError, match="Failed to read CSV file"):
        rd.read_csv(str(tmp_path / "a.parquet")).materialize()


def test_the_base_of_partitions_may_be_a_path(tmp_path: Path) -> None:
    (tmp_path / "us").mkdir()
    (tmp_path / "us" / "a.txt").write_text("x")
    scheme = Partitioning("dir", field_names=["country"], base_dir=tmp_path)
    assert rd.read_text(str(tmp_path), partitioning=scheme).take_all() == [{"text": "x", "country": "us"}]


def test_a_number_in_a_file_agrees_with_its_text_in_the_path(tmp_path: Path) -> None:
    (tmp_path / "month=01").mkdir()
    (tmp_path / "month=01" / "a.csv").write_text("month,x\n1,5\n,6\n")
    assert rows_of(rd.read_csv(str(tmp_path)), "month", "x") == [(1, 5), (1, 6)]


def test_partitioning_is_no_argument_for_arrow(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1]}), tmp_path / "a.parquet")
    with pytest.raises(ValueError, match="partitioning"):
        rd.read_parquet(str(tmp_path), dataset_kwargs={"partitioning": "hive"})


def tar(path: Path, **members: bytes) -> str:
    with tarfile.open(path, "w") as file:
        for name, data in members.items():
            info = tarfile.TarInfo(name.replace("_", "."))
            info.size = len(data)
            file.addfile(info, io.BytesIO(data))
    return str(path)


def test_members_of_tar_files_are_chosen_by_suffix(tmp_path: Path) -> None:
    path = tar(tmp_path / "a.tar", a_txt=b"1", a_test_txt=b"2", a_cls=b"3")

    def names(suffixes: Any) -> list[str]:
        (row,) = rd.read_webdataset(path, suffixes=suffixes).take_all()
        return sorted(row)

    always = ["__key__", "__url__"]
    assert names(["txt"]) == [*always, "txt"]
    assert names(["*.txt"]) == [*always, "test.txt", "txt"]
    assert names(lambda name: name.endswith("txt")) == [*always, "test.txt", "txt"]


def test_pickles_in_tar_files_are_only_read_if_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tar(tmp_path / "a.tar", a_pkl=pickle.dumps({"a": 1}))
    broken = tar(tmp_path / "b.tar", a_pt=b"no tensor")
    for each in (path, broken):
        with pytest.raises(Exception, match="Refusing to"):
            rd.read_webdataset(each).take_all()
    monkeypatch.setenv("RAY_DATA_WEBDATASET_ALLOW_UNSAFE_DESERIALIZATION", "1")
    assert rd.read_webdataset(path).take_all()[0]["pkl"] == {"a": 1}


def test_a_torch_stream_with_a_length_is_read_as_a_stream() -> None:
    torch = pytest.importorskip("torch.utils.data")

    class Stream(torch.IterableDataset):  # type: ignore[misc, name-defined]
        def __len__(self) -> int:
            return 2

        def __iter__(self) -> Any:
            return iter([5, 6])

    assert rd.from_torch(Stream()).take_all() == [{"item": 5}, {"item": 6}]


def test_statistics_name_blocks_that_were_given() -> None:
    assert "FromNumpy" in rd.from_numpy(np.zeros((2, 1))).stats()
    assert "FromArrow" in rd.from_arrow(pa.table({"a": [1]})).stats()


def test_the_format_of_tensors_is_the_type_of_their_columns() -> None:
    kind = rd.DataContext.get_current().arrow_fixed_shape_tensor_format.to_type()
    schema = rd.range_tensor(2, shape=(3, 2)).schema()
    assert isinstance(schema.types[0], kind)
    assert repr(schema) == "Column  Type\n------  ----\ndata    ArrowTensorTypeV2(shape=(3, 2), dtype=int64)"
