"""Written files: the arguments of writers, the contents of paths and files, the output of an empty dataset."""

from __future__ import annotations

import json
import os
import pathlib
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import ray
import ray.data
from ray.data.datasource import (
    BlockBasedFileDatasink,
    DummyOutputDatasink,
    FilenameProvider,
    RowBasedFileDatasink,
)
from ray.exceptions import RayTaskError

pytestmark = pytest.mark.usefixtures("cluster")


def files(folder: pathlib.Path) -> list[pathlib.Path]:
    return sorted(each for each in folder.rglob("*") if each.is_file())


def ten() -> Any:
    return ray.data.range(10, override_num_blocks=2)


def test_parquet_in_a_schema(tmp_path: pathlib.Path) -> None:
    ten().write_parquet(str(tmp_path), schema=pa.schema({"id": pa.float32()}))
    assert pq.read_table(tmp_path).schema.field("id").type == pa.float32()


@pytest.mark.parametrize(("flavor", "name"), [("hive", "g=2"), (None, "2")])
def test_directories_of_partitions(tmp_path: pathlib.Path, flavor: str | None, name: str) -> None:
    dataset = ray.data.from_items([{"a": 1, "g": 2}])
    dataset.write_parquet(str(tmp_path), partition_cols=["g"], partitioning_flavor=flavor)
    assert os.listdir(tmp_path) == [name]


def test_a_flavor_wants_columns(tmp_path: pathlib.Path) -> None:
    with pytest.raises(ValueError, match="partition_cols must be provided when partitioning_flavor is set"):
        ten().write_parquet(str(tmp_path), partitioning_flavor="hive")


@pytest.mark.parametrize(
    ("given", "groups"),
    [
        ({"row_group_size": 500}, 2),
        ({"arrow_parquet_args_fn": lambda: {"row_group_size": 100}, "row_group_size": 500}, 10),
        ({"arrow_parquet_args_fn": lambda: {"row_group_size": 200}}, 5),
    ],
)
def test_rows_of_a_row_group(tmp_path: pathlib.Path, given: dict[str, Any], groups: int) -> None:
    ray.data.range(1000).repartition(1).write_parquet(str(tmp_path), **given)
    assert [pq.ParquetFile(each).num_row_groups for each in files(tmp_path)] == [groups]


@pytest.mark.parametrize("name", ["gzip", "snappy", "zstd"])
def test_compression_of_parquet(tmp_path: pathlib.Path, name: str) -> None:
    ten().write_parquet(str(tmp_path), compression=name)
    for each in files(tmp_path):
        assert pq.ParquetFile(each).metadata.row_group(0).column(0).compression == name.upper()


@pytest.mark.parametrize(
    ("given", "rows"),
    [
        ({}, [5, 5]),
        ({"min_rows_per_file": 10}, [10]),
        ({"max_rows_per_file": 3}, [2, 2, 3, 3]),
        ({"num_rows_per_file": 5}, [5, 5]),
    ],
)
def test_rows_of_a_file(tmp_path: pathlib.Path, given: dict[str, Any], rows: list[int]) -> None:
    ten().write_parquet(str(tmp_path), **given)
    assert sorted(pq.ParquetFile(each).metadata.num_rows for each in files(tmp_path)) == rows


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"min_rows_per_file": 0}, "min_rows_per_file must be a positive integer"),
        ({"max_rows_per_file": 0}, "max_rows_per_file must be a positive integer"),
        ({"min_rows_per_file": 5, "max_rows_per_file": 3}, r"min_rows_per_file \(5\) cannot be greater than"),
        ({"num_rows_per_file": 5, "min_rows_per_file": 5}, "Cannot specify both `num_rows_per_file` and"),
    ],
)
def test_numbers_of_rows_that_cannot_be(tmp_path: pathlib.Path, given: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        ten().write_parquet(str(tmp_path), **given)


@pytest.mark.parametrize(("mode", "rows"), [("append", 13), ("overwrite", 3), ("ignore", 10)])
@pytest.mark.parametrize("format", ["parquet", "csv", "json"])
def test_a_folder_that_is_there(tmp_path: pathlib.Path, mode: str, rows: int, format: str) -> None:
    getattr(ten(), f"write_{format}")(str(tmp_path))
    getattr(ray.data.range(3), f"write_{format}")(str(tmp_path), mode=ray.data.SaveMode(mode))
    assert getattr(ray.data, f"read_{format}")(str(tmp_path)).count() == rows


@pytest.mark.parametrize("mode", [ray.data.SaveMode.ERROR, ray.data.SaveMode.CREATE])
def test_a_folder_that_must_not_be_there(tmp_path: pathlib.Path, mode: Any) -> None:
    with pytest.raises(ValueError, match="already exists"):
        ten().write_parquet(str(tmp_path), mode=mode)


@pytest.mark.parametrize("format", ["parquet", "csv", "json"])
@pytest.mark.parametrize(
    "make",
    [
        lambda: ray.data.range(1).filter(lambda row: False),
        lambda: ray.data.range(0),
        lambda: ray.data.from_pandas(pd.DataFrame({"a": pd.Series([], dtype="int64")})),
    ],
    ids=["filtered", "range", "frame"],
)
def test_nothing_written_leaves_no_folder(tmp_path: pathlib.Path, format: str, make: Any) -> None:
    folder = tmp_path / "new"
    getattr(make(), f"write_{format}")(str(folder))
    assert not folder.exists()


def test_without_leave_to_make_it_a_folder_must_be_there(tmp_path: pathlib.Path) -> None:
    with pytest.raises(FileNotFoundError):
        ten().write_csv(str(tmp_path / "new"), try_create_dir=False)


class Same(FilenameProvider):
    def get_filename_for_block(self, block: Any, *given: Any, **named: Any) -> str:
        return "x.parquet"

    def get_filename_for_task(self, *given: Any, **named: Any) -> str:
        return "x.parquet"


def test_names_that_could_overwrite_each_other_are_refused(tmp_path: pathlib.Path) -> None:
    with pytest.raises(ValueError, match="missing from filename template 'x.parquet'") as caught:
        ten().write_parquet(str(tmp_path), filename_provider=Same())
    assert isinstance(caught.value, RayTaskError)
    assert not files(tmp_path)


# -- values in paths


def partitioned(folder: pathlib.Path, value: int, inside: int) -> Any:
    (folder / f"year={value}").mkdir()
    pq.write_table(pa.table({"data": [0], "year": [inside]}), folder / f"year={value}/x.parquet")
    return ray.data.read_parquet(str(folder))


def test_a_value_in_path_and_file_has_the_files_type(tmp_path: pathlib.Path) -> None:
    dataset = partitioned(tmp_path, 2024, 2024)
    assert dataset.take_all() == [{"data": 0, "year": 2024}]
    assert dataset.schema().types == [pa.int64(), pa.int64()]


def test_a_value_in_the_path_counts(tmp_path: pathlib.Path) -> None:
    assert partitioned(tmp_path, 2025, 2024).take_all() == [{"data": 0, "year": 2025}]


def test_a_value_only_in_the_path_is_text(tmp_path: pathlib.Path) -> None:
    (tmp_path / "year=2024/c=x").mkdir(parents=True)
    pq.write_table(pa.table({"data": [0]}), tmp_path / "year=2024/c=x/x.parquet")
    assert ray.data.read_parquet(str(tmp_path)).take_all() == [{"data": 0, "year": "2024", "c": "x"}]


def test_csv_with_a_value_in_path_and_file(tmp_path: pathlib.Path) -> None:
    (tmp_path / "year=2024").mkdir()
    (tmp_path / "year=2024/x.csv").write_text("a,year\n1,2024\n")
    assert ray.data.read_csv(str(tmp_path)).take_all() == [{"a": 1, "year": 2024}]


def test_csv_with_another_value_in_the_file_is_refused(tmp_path: pathlib.Path) -> None:
    (tmp_path / "year=2024").mkdir()
    (tmp_path / "year=2024/x.csv").write_text("a,year\n1,2023\n")
    with pytest.raises(ValueError):
        ray.data.read_csv(str(tmp_path)).take_all()


def test_no_columns_of_parquet(tmp_path: pathlib.Path) -> None:
    pq.write_table(pa.table({"a": [1, 2]}), tmp_path / "x.parquet")
    dataset = ray.data.read_parquet(str(tmp_path / "x.parquet"), columns=[])
    assert dataset.count() == 2
    assert dataset.schema().names == []


def test_brackets_in_text_are_not_depth(tmp_path: pathlib.Path) -> None:
    (tmp_path / "x.jsonl").write_text(json.dumps({"a": "[" * 5000}) + "\n" + json.dumps({"a": "x"}) + "\n")
    assert ray.data.read_json(str(tmp_path)).count() == 2


# -- blocks of frames


@pytest.mark.parametrize(
    ("act", "kind"),
    [
        (lambda ds: ds, pd.DataFrame),
        (lambda ds: ds.limit(1), pd.DataFrame),
        (lambda ds: ds.map_batches(lambda batch: batch), pa.Table),
        (lambda ds: ds.map_batches(lambda batch: batch, batch_format="pandas"), pa.Table),
        (lambda ds: ds.map(lambda row: row), pa.Table),
    ],
)
def test_blocks_as_they_are(act: Any, kind: type) -> None:
    dataset = act(ray.data.from_pandas(pd.DataFrame({"a": [1]})))
    assert isinstance(next(iter(dataset.iter_batches(batch_format=None))), kind)

    def look(block: Any) -> Any:
        assert isinstance(block, kind), type(block)
        return {"ok": [True]}

    assert dataset.map_batches(look, batch_format=None).take_all() == [{"ok": True}]


# -- names that libraries import


def test_names_of_the_engine_room() -> None:
    from ray.data._internal.datasource.webdataset_datasource import WebDatasetDatasource
    from ray.data._internal.execution.interfaces import TaskContext
    from ray.data._internal.util import _check_import, call_with_retry
    from ray.data.block import UserDefinedFunction
    from ray.data.datasource.path_util import _has_file_extension, _resolve_paths_and_filesystem
    from ray.data.read_api import DefaultFileMetadataProvider, Partitioning
    from ray.data.stats import DatasetSummary

    assert all((WebDatasetDatasource, UserDefinedFunction, DefaultFileMetadataProvider, DatasetSummary))
    assert TaskContext(3, "op").task_idx == 3
    assert call_with_retry(lambda: 5, "give 5") == 5
    with pytest.raises(ZeroDivisionError):
        call_with_retry(lambda: 1 / 0, "divide", match=["no such words"])
    with pytest.raises(ImportError, match="nope-x"):
        _check_import(5, module="nope_x", package="nope-x")
    assert _check_import(5, module="json", package="json") is None
    assert [_has_file_extension("a.CSV", each) for each in (["csv"], None, ["json"])] == [True, True, False]
    assert _resolve_paths_and_filesystem("/tmp/x")[0] == ["/tmp/x"]
    with pytest.raises(ValueError, match="Must provide at least one path"):
        _resolve_paths_and_filesystem([])
    assert Partitioning("hive").style == "hive"
    assert ray.data.datasource.Partitioning is Partitioning


class OneFailure:
    """Fails the first time with an error that is worth a retry."""

    def __init__(self, path: str) -> None:
        super().__init__(path)  # type: ignore[call-arg]
        self.failures = 0

    def fail_once(self) -> None:
        self.failures += 1
        if self.failures == 1:
            raise RuntimeError("AWS Error INTERNAL_FAILURE")


class Blocks(OneFailure, BlockBasedFileDatasink):  # type: ignore[misc]
    def write_block_to_file(self, block: Any, file: Any) -> None:
        self.fail_once()
        file.write(str(block.num_rows()).encode())


class Rows(OneFailure, RowBasedFileDatasink):  # type: ignore[misc]
    def write_row_to_file(self, row: dict[str, Any], file: Any) -> None:
        self.fail_once()
        file.write(str(row["id"]).encode())


class Opened(BlockBasedFileDatasink):  # type: ignore[misc]
    def open_output_stream(self, path: str) -> Any:
        return pa.OSFile(f"{path}.opened", "wb")

    def write_block_to_file(self, block: Any, file: Any) -> None:
        file.write(str(block.num_rows()).encode())


@pytest.mark.parametrize(("sink", "texts"), [(Blocks, ["2"]), (Rows, ["0", "1"])])
def test_files_are_written_again_after_transient_errors(
    tmp_path: pathlib.Path, sink: Any, texts: list[str]
) -> None:
    ray.data.range(2, override_num_blocks=1).write_datasink(sink(str(tmp_path)))
    assert sorted(each.read_text() for each in files(tmp_path)) == texts


def test_a_datasink_may_open_its_files_itself(tmp_path: pathlib.Path) -> None:
    ray.data.range(2, override_num_blocks=1).write_datasink(Opened(str(tmp_path)))
    assert [(each.suffix, each.read_text()) for each in files(tmp_path)] == [(".opened", "2")]


def test_the_datasink_for_tests_counts_in_an_actor() -> None:
    sink = DummyOutputDatasink()
    ten().write_datasink(sink)
    assert ray.get(sink.data_sink.get_rows_written.remote()) == 10
    sink.enabled = False
    with pytest.raises(ValueError):
        ten().write_datasink(sink, ray_remote_args={"max_retries": 0})
    assert (sink.num_ok, sink.num_failed) == (1, 1)


class NamedByUuid(FilenameProvider):  # type: ignore[misc]
    def get_filename_for_task(self, write_uuid: str, task_index: int) -> str:
        return f"part_{write_uuid}"


def test_files_of_parquet_end_with_its_name(tmp_path: pathlib.Path) -> None:
    ten().repartition(1).write_parquet(str(tmp_path), filename_provider=NamedByUuid())
    (written,) = files(tmp_path)
    assert written.suffix == ".parquet" and ray.data.read_parquet(str(tmp_path)).count() == 10


class NamedPictures(FilenameProvider):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__("first", file_format="png")

    def get_filename_for_task(self, write_uuid: str, task_index: int) -> str:
        return f"{self.dataset_uuid}-{task_index}.{self.file_format}"


def test_names_of_rows_follow_from_the_name_of_their_task(tmp_path: pathlib.Path) -> None:
    pictures = ray.data.from_items([{"image": np.zeros((2, 2, 3), np.uint8)} for _ in range(2)])
    pictures.repartition(1).write_images(str(tmp_path), "image", filename_provider=NamedPictures())
    assert [file.name for file in files(tmp_path)] == [f"first-0_000000_00000{row}.png" for row in range(2)]
    plain = FilenameProvider("data", "csv")
    assert plain.get_filename_for_task("write", 3) == "data_write_000003.csv"
    ten().repartition(1).write_csv(str(tmp_path / "csv"))
    (written,) = files(tmp_path / "csv")
    assert written.name.endswith("_000000.csv")
