"""Writing: modes, names, leftovers of failed and repeated writes, custom datasinks."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

import skate.data as rd
from skate.data.block import BlockAccessor, BlockMetadata
from skate.data.datasource import (
    BlockBasedFileDatasink,
    Datasink,
    Datasource,
    DummyOutputDatasink,
    FileBasedDatasource,
    FilenameProvider,
    ReadTask,
    RowBasedFileDatasink,
    WriteResult,
)
from skate.data.source.files.output import Output


def names(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def ids(folder: Path) -> list[int]:
    return [row["id"] for row in rd.read_csv(folder).take_all()]


def test_modes(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    rd.range(2).write_csv(folder, mode="error")  # type: ignore[arg-type]
    for mode in (rd.SaveMode.ERROR, rd.SaveMode.CREATE):
        with pytest.raises(ValueError, match="already exists"):
            rd.range(3).write_csv(folder, mode=mode)
    rd.range(3).write_csv(folder, mode=rd.SaveMode.IGNORE)
    assert ids(folder) == [0, 1]
    rd.range(3).write_csv(folder)
    assert sorted(ids(folder)) == [0, 0, 1, 1, 2]
    rd.range(1).write_csv(folder, mode=rd.SaveMode.OVERWRITE)
    assert ids(folder) == [0]
    with pytest.raises(ValueError, match="mode must be one of"):
        rd.range(1).write_csv(folder, mode="replace")  # type: ignore[arg-type]
    (tmp_path / "file").write_text("")
    with pytest.raises(NotADirectoryError, match="file"):
        rd.range(1).write_csv(tmp_path / "file")


def test_a_dataset_may_overwrite_what_it_reads(tmp_path: Path) -> None:
    rd.range(5).write_csv(tmp_path / "x")
    rd.read_csv(tmp_path / "x").map(lambda row: {"id": row["id"] + 1}).write_csv(
        tmp_path / "x", mode=rd.SaveMode.OVERWRITE
    )
    assert ids(tmp_path / "x") == [1, 2, 3, 4, 5]


def refuse_seven(batch: dict[str, Any]) -> dict[str, Any]:
    if 7 in batch["id"]:
        raise RuntimeError("seven")
    return batch


def test_a_write_that_fails_leaves_nothing_and_what_was_there_stays(tmp_path: Path) -> None:
    rd.range(2).write_parquet(tmp_path / "x")
    before = names(tmp_path / "x")
    failing = rd.range(10, override_num_blocks=5).map_batches(refuse_seven)
    for mode in (rd.SaveMode.APPEND, rd.SaveMode.OVERWRITE):
        with pytest.raises(RuntimeError, match="seven"):
            failing.write_parquet(tmp_path / "x", mode=mode)
        assert names(tmp_path / "x") == before
        with pytest.raises(RuntimeError, match="seven"):
            failing.write_json(tmp_path / "y")
        assert names(tmp_path / "y") == []


def test_a_file_is_not_there_before_it_is_whole(tmp_path: Path) -> None:
    from pyarrow import fs

    output = Output(fs.LocalFileSystem(), f"{tmp_path}/x.csv.gz", {}, ())
    output.file.write(b"half")
    assert [name for name in os.listdir(tmp_path) if not name.startswith(".")] == []
    output.drop()
    assert os.listdir(tmp_path) == []
    output = Output(fs.LocalFileSystem(), f"{tmp_path}/x.txt.gz", {}, ())
    output.file.write(b"whole\n")
    output.done()
    assert rd.read_text(tmp_path).take_all() == [{"text": "whole"}]


def test_files_in_order_of_their_names_have_the_rows_in_order(tmp_path: Path) -> None:
    rd.range(100, override_num_blocks=20).map(lambda row: row).write_parquet(tmp_path)
    assert len(names(tmp_path)) == 20
    assert len({name.split("_")[0] for name in names(tmp_path)}) == 1
    assert [row["id"] for row in rd.read_parquet(tmp_path).take_all()] == list(range(100))


def test_empty_datasets_write_no_files(tmp_path: Path) -> None:
    rd.range(5).filter(lambda row: False).write_parquet(tmp_path)
    assert names(tmp_path) == []


def test_a_repeated_task_writes_over_its_own_files(tmp_path: Path) -> None:
    marker = tmp_path / "died"

    def die_once(batch: dict[str, Any]) -> dict[str, Any]:
        if 3 in batch["id"] and not marker.exists():
            marker.touch()
            os._exit(1)
        return batch

    def twice(batch: dict[str, Any]) -> Iterable[dict[str, Any]]:
        yield batch
        yield batch

    dataset = (
        rd.range(4, override_num_blocks=1)
        .map_batches(twice, num_cpus=1, memory=1)
        .map_batches(die_once, batch_size=2, num_cpus=1, memory=1)
    )
    dataset.write_parquet(tmp_path / "out", max_rows_per_file=2, ray_remote_args={"num_cpus": 1, "memory": 1})
    assert marker.exists()
    assert sorted(row["id"] for row in rd.read_parquet(tmp_path / "out").take_all()) == [
        0,
        0,
        1,
        1,
        2,
        2,
        3,
        3,
    ]


def test_blocks_of_other_types_go_into_one_file_or_into_another(tmp_path: Path) -> None:
    rd.from_blocks([{"a": [1]}, {"a": [2.5]}, {"a": ["x"]}]).repartition(1)
    tables = [pa.table({"a": [1, 2]}), pa.table({"a": pa.array([3], pa.int32())}), pa.table({"a": ["x"]})]
    sink = rd.read_parquet  # the writers below are given the blocks as one task's
    from skate.data.source.datasink import TaskContext
    from skate.data.source.formats.parquet_writer import ParquetDatasink

    writer = ParquetDatasink(str(tmp_path))
    assert len(writer.write(tables, TaskContext())) == 2
    assert sink(str(sorted(tmp_path.iterdir())[0])).take_all() == [{"a": 1}, {"a": 2}, {"a": 3}]


def test_csv_says_which_column_it_has_no_form_for(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="column 'l' is list"):
        rd.from_items([{"l": [1]}]).write_csv(tmp_path)


def test_arguments_reach_the_writers(tmp_path: Path) -> None:
    rd.range(2).write_csv(tmp_path / "c", include_header=False)
    assert (tmp_path / "c" / names(tmp_path / "c")[0]).read_text() == "0\n1\n"
    rd.range(2).write_parquet(
        tmp_path / "p", compression="zstd", arrow_parquet_args_fn=lambda: {"version": "1.0"}
    )
    metadata = pa.parquet.read_metadata(tmp_path / "p" / names(tmp_path / "p")[0])
    assert metadata.row_group(0).column(0).compression == "ZSTD"
    assert metadata.format_version == "1.0"
    rd.range(2).write_csv(tmp_path / "z", arrow_open_stream_args={"compression": "gzip"})
    assert rd.read_csv(tmp_path / "z", arrow_open_stream_args={"compression": "gzip"}).count() == 2


class Named(FilenameProvider):
    def get_filename_for_block(self, block: Any, write_uuid: str, task_index: int, block_index: int) -> str:
        return f"part-{task_index}-{block_index}.txt"

    def get_filename_for_row(
        self, row: dict[str, Any], write_uuid: str, task_index: int, block_index: int, row_index: int
    ) -> str:
        return f"row-{row['id']}.txt"


class Lines(BlockBasedFileDatasink):
    def write_block_to_file(self, block: BlockAccessor, file: Any) -> None:
        file.write("".join(f"{value}\n" for value in block.to_pandas()["id"]).encode())


class Rows(RowBasedFileDatasink):
    def write_row_to_file(self, row: dict[str, Any], file: Any) -> None:
        file.write(str(row["id"]).encode())


def test_file_datasinks_of_programs(tmp_path: Path) -> None:
    rd.range(4, override_num_blocks=2).write_datasink(Lines(str(tmp_path / "l"), file_format="txt"))
    assert [row["text"] for row in rd.read_text(tmp_path / "l").take_all()] == ["0", "1", "2", "3"]
    rd.range(4, override_num_blocks=2).write_datasink(Lines(str(tmp_path / "n"), filename_provider=Named()))
    assert names(tmp_path / "n") == ["part-0-0.txt", "part-1-0.txt"]
    rd.range(2).write_datasink(Rows(str(tmp_path / "r"), filename_provider=Named()))
    assert names(tmp_path / "r") == ["row-0.txt", "row-1.txt"]


class Counting(Datasink[int]):
    started = failed = 0
    result: WriteResult[int] | None = None

    def on_write_start(self, schema: pa.Schema | None = None) -> None:
        self.started += 1

    def write(self, blocks: Iterable[pa.Table], ctx: Any) -> int:
        return sum(BlockAccessor.for_block(block).num_rows() for block in blocks)

    def on_write_complete(self, write_result: WriteResult[int]) -> None:
        self.result = write_result

    def on_write_failed(self, error: Exception) -> None:
        self.failed += 1


def test_datasinks_of_programs_are_told_the_start_and_the_end() -> None:
    sink = Counting()
    rd.range(10, override_num_blocks=5).write_datasink(sink)
    assert (sink.started, sink.failed) == (1, 0)
    assert sink.result is not None and (sink.result.num_rows, sink.result.write_returns) == (10, [2] * 5)
    with pytest.raises(RuntimeError):
        rd.range(10).map_batches(refuse_seven).write_datasink(sink)
    assert (sink.started, sink.failed) == (2, 1)
    dummy = DummyOutputDatasink()
    rd.range(3).write_datasink(dummy)
    assert (dummy.num_ok, dummy.rows_written) == (1, 3)


class Squares(Datasource):
    def estimate_inmemory_data_size(self) -> int | None:
        return None

    def get_read_tasks(self, parallelism: int) -> list[ReadTask]:  # type: ignore[override]
        return [
            ReadTask(lambda at=at: [pd.DataFrame({"n": [at, at * at]})], BlockMetadata(2, 16, None, None))  # type: ignore[misc]
            for at in range(3)
        ]


class OldSquares(Datasource):
    def prepare_read(self, parallelism: int, n: int = 1) -> list[ReadTask]:  # type: ignore[override]
        return [ReadTask(lambda: [{"n": [n]}], BlockMetadata(1, 8))]

    def estimate_inmemory_data_size(self) -> int | None:
        return 8


class Words(FileBasedDatasource):
    def _read_stream(self, f: Any, path: str) -> Any:
        yield {"word": f.read().decode().split()}


def test_datasources_of_programs(tmp_path: Path) -> None:
    assert [row["n"] for row in rd.read_datasource(Squares()).take_all()] == [0, 0, 1, 1, 2, 4]
    assert rd.read_datasource(OldSquares(), n=7).take_all() == [{"n": 7}]
    (tmp_path / "a.txt").write_text("to be")
    found = rd.read_datasource(Words(str(tmp_path), include_paths=True)).take_all()
    assert found == [{"word": word, "path": str(tmp_path / "a.txt")} for word in ("to", "be")]
    for wrong in (object(), Squares):
        with pytest.raises(TypeError):
            rd.read_datasource(wrong)  # type: ignore[arg-type]
