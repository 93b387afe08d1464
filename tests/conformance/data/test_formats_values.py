"""Datasets of values in other forms; datasources and datasinks of programs."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import ray
import ray.data as rd
from ray.data.block import BlockAccessor, BlockMetadata
from ray.data.datasource import (
    BlockBasedFileDatasink,
    Datasink,
    Datasource,
    FileBasedDatasource,
    PathPartitionParser,
    ReadTask,
    RowBasedFileDatasink,
)

pytestmark = pytest.mark.usefixtures("cluster")

FRAME = pd.DataFrame({"a": [1, 2], "b": ["x", "y"]})
ROWS = [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]


def in_order(dataset: Any) -> list[dict[str, Any]]:
    return sorted(dataset.take_all(), key=str)


def test_from_pandas() -> None:
    assert rd.from_pandas(FRAME).take_all() == ROWS
    assert in_order(rd.from_pandas([FRAME.iloc[:1], FRAME.iloc[1:]])) == ROWS
    assert rd.from_pandas(FRAME.set_index("a")).schema().names == ["b"]


def test_from_arrow() -> None:
    table = pa.Table.from_pandas(FRAME)
    assert rd.from_arrow(table).take_all() == ROWS
    assert rd.from_arrow([table, table]).count() == 4


def test_from_numpy() -> None:
    found = rd.from_numpy(np.arange(4).reshape(2, 2)).take_all()
    assert [row["data"].tolist() for row in found] == [[0, 1], [2, 3]]


def test_from_blocks() -> None:
    assert in_order(rd.from_blocks([FRAME.iloc[:1], FRAME.iloc[1:]])) == ROWS


def test_from_refs() -> None:
    assert rd.from_pandas_refs([ray.put(FRAME)]).take_all() == ROWS
    assert rd.from_arrow_refs([ray.put(pa.Table.from_pandas(FRAME))]).take_all() == ROWS
    assert [row["data"] for row in rd.from_numpy_refs([ray.put(np.arange(2))]).take_all()] == [0, 1]


def test_from_torch() -> None:
    assert in_order(rd.from_torch([1, 2])) == [{"item": 1}, {"item": 2}]


def test_range_tensor() -> None:
    found = rd.range_tensor(2, shape=(2, 2)).take_all()
    assert sorted(row["data"].tolist() for row in found) == [[[0, 0], [0, 0]], [[1, 1], [1, 1]]]


def test_partition_parsers() -> None:
    assert PathPartitionParser.of(style="hive")("/x/a=1/b=2/f.csv") == {"a": "1", "b": "2"}
    by_place = PathPartitionParser.of(style="dir", base_dir="/x", field_names=["a", "b"])
    assert by_place("/x/1/2/f.csv") == {"a": "1", "b": "2"}


def make_frame(at: int) -> Any:
    return lambda: [pd.DataFrame({"n": [at, at * at]})]


class Squares(Datasource):
    def estimate_inmemory_data_size(self) -> int | None:
        return None

    def get_read_tasks(
        self, parallelism: int, per_task_row_limit: Any = None, data_context: Any = None
    ) -> list[ReadTask]:
        return [ReadTask(make_frame(at), BlockMetadata(2, 16, None, None)) for at in range(3)]


class Words(FileBasedDatasource):
    def _read_stream(self, f: Any, path: str) -> Iterable[Any]:
        yield pa.table({"word": f.read().decode().split()})


def test_datasources_of_programs(tmp_path: Path) -> None:
    assert sorted(row["n"] for row in rd.read_datasource(Squares()).take_all()) == [0, 0, 1, 1, 2, 4]
    (tmp_path / "a.txt").write_text("to be")
    assert [row["word"] for row in rd.read_datasource(Words(str(tmp_path))).take_all()] == ["to", "be"]


class Lines(BlockBasedFileDatasink):
    def write_block_to_file(self, block: Any, file: Any) -> None:
        file.write("".join(f"{value}\n" for value in block.to_pandas()["id"]).encode())


class Numbers(RowBasedFileDatasink):
    def write_row_to_file(self, row: dict[str, Any], file: Any) -> None:
        file.write(str(row["id"]).encode())


def test_file_datasinks_of_programs(tmp_path: Path) -> None:
    rd.range(4).write_datasink(Lines(str(tmp_path / "l"), file_format="txt"))
    assert sorted(row["text"] for row in rd.read_text(str(tmp_path / "l")).take_all()) == ["0", "1", "2", "3"]
    rd.range(3).write_datasink(Numbers(str(tmp_path / "r"), file_format="txt"))
    assert sorted(path.read_text() for path in (tmp_path / "r").iterdir()) == ["0", "1", "2"]


class Counting(Datasink):  # type: ignore[type-arg]
    result: Any = None
    failure: Any = None

    def write(self, blocks: Iterable[Any], ctx: Any) -> int:
        return sum(BlockAccessor.for_block(block).num_rows() for block in blocks)

    def on_write_complete(self, write_result: Any) -> None:
        self.result = write_result

    def on_write_failed(self, error: Exception) -> None:
        self.failure = error


def test_datasinks_of_programs_are_told_the_end() -> None:
    sink = Counting()
    rd.range(10).write_datasink(sink)
    assert sink.result.num_rows == 10
    assert sum(sink.result.write_returns) == 10
    assert sink.failure is None


def fail(batch: Any) -> Any:
    raise RuntimeError("no")


def test_datasinks_of_programs_are_told_of_a_failure() -> None:
    sink = Counting()
    with pytest.raises(Exception, match="no"):
        rd.range(10).map_batches(fail).write_datasink(sink)
    assert sink.failure is not None


@pytest.mark.chosen_difference("Ray leaves what the other tasks wrote", id="D-data-failed-writes")
def test_a_write_that_fails_leaves_nothing(tmp_path: Path) -> None:
    def fail_on_nine(row: dict[str, Any]) -> dict[str, Any]:
        if row["id"] == 9:
            raise RuntimeError("nine")
        return row

    with pytest.raises(RuntimeError):
        rd.range(10, override_num_blocks=5).map(fail_on_nine).write_csv(str(tmp_path))
    assert not list(tmp_path.iterdir())


@pytest.mark.chosen_difference("Ray needs TensorFlow's or another library for it", id="D-data-tfrecords")
def test_tfrecords(tmp_path: Path) -> None:
    rd.from_items([{"a": 1, "b": 0.5, "c": b"x"}]).write_tfrecords(str(tmp_path))
    assert rd.read_tfrecords(str(tmp_path)).take_all() == [{"a": 1, "b": 0.5, "c": b"x"}]
