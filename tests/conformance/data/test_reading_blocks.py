"""The blocks that readers make, and private arguments of read_parquet that programs pass."""

from __future__ import annotations

import pathlib

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
import ray
import ray.data
from ray.data.datasource import PathPartitionParser

pytestmark = pytest.mark.usefixtures("cluster")
TABLE = pa.table({"a": list(range(10))})


@pytest.mark.parametrize("blocks", [1, 4, 10])
def test_one_small_file_gives_the_requested_number_of_blocks(tmp_path: pathlib.Path, blocks: int) -> None:
    path = tmp_path / "f.csv"
    pyarrow.csv.write_csv(TABLE, path)
    data = ray.data.read_csv(str(path), override_num_blocks=blocks).materialize()
    assert data.num_blocks() == blocks
    assert sorted(row["a"] for row in data.take_all()) == list(range(10))


def test_a_function_of_blocks_while_reading_parquet(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "f.parquet"
    pq.write_table(TABLE, path)

    def doubled(table: pa.Table) -> pa.Table:
        return table.append_column("b", pc.multiply(table["a"], 2))

    made = ray.data.read_parquet(str(path), _block_udf=doubled, to_batches_kwargs={"batch_size": 4})
    assert [row["b"] for row in made.sort("a").take_all()] == list(range(0, 20, 2))


@pytest.mark.parametrize(("path", "values"), [("b/q/f.csv", {"m": "q"}), ("c/q/f.csv", {})])
def test_directories_of_a_relative_path(path: str, values: dict[str, str]) -> None:
    assert PathPartitionParser.of(style="dir", base_dir="b", field_names=["m"])(path) == values
