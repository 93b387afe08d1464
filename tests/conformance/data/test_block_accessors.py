"""Blocks as custom datasources and datasinks handle them: `BlockAccessor`, `BlockColumnAccessor`, facts about blocks."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
import ray.data
from ray.data.aggregate import AbsMax, Count, CountDistinct, Max, Mean, Min, Std, Sum
from ray.data.block import (
    BatchFormat,
    BlockAccessor,
    BlockColumnAccessor,
    BlockMetadata,
    BlockMetadataWithSchema,
    BlockType,
    to_stats,
)

TABLE = pa.table({"a": [1, 2, None], "s": ["x", "y", None]})
FRAME = pd.DataFrame({"a": [1, 2, 3], "s": ["x", "y", "z"]})
SCHEMA = pa.schema([("i", pa.int32()), ("s", pa.string()), ("f", pa.float32()), ("b", pa.bool_())])


@pytest.mark.parametrize(("block", "kind"), [(TABLE, BlockType.ARROW), (FRAME, BlockType.PANDAS)])
def test_operations_give_back_blocks_of_the_kind_that_was_put_in(block: Any, kind: BlockType) -> None:
    accessor = BlockAccessor.for_block(block)
    assert accessor.block_type() is kind
    assert accessor.num_rows() == 3 and accessor.size_bytes() > 0
    made = [
        accessor.slice(1, 2),
        accessor.take([0, 2]),
        accessor.select(["a"]),
        accessor.drop(["s"]),
        accessor.rename_columns({"a": "b"}),
        accessor.upsert_column("n", pa.array([7, 8, 9])),
        accessor.random_shuffle(1),
        accessor.zip(pa.table({"a": [4, 5, 6]})),
    ]
    assert all(isinstance(each, type(block)) for each in made)
    columns = [list(BlockAccessor.for_block(each).to_pandas().columns) for each in made]
    assert columns == [["a", "s"]] * 2 + [["a"]] * 2 + [
        ["b", "s"],
        ["a", "s", "n"],
        ["a", "s"],
        ["a", "s", "a_1"],
    ]
    assert [BlockAccessor.for_block(each).num_rows() for each in made] == [1, 2, 3, 3, 3, 3, 3, 3]


@pytest.mark.parametrize(
    ("name", "arguments", "found"),
    [
        ("count", ("a",), 3), ("count", ("a", True), 2), ("sum", ("a", True), 3), ("sum", ("a", False), None),
        ("min", ("a", True), 1), ("max", ("a", True), 2), ("mean", ("a", True), 1.5),
        ("sum_of_squared_diffs_from_mean", ("a", True), 0.5),
        ("sum_of_squared_diffs_from_mean", ("a", True, 1.5), 0.5),
    ],
)  # fmt: skip
def test_numbers_of_a_column_of_a_block(name: str, arguments: tuple[Any, ...], found: Any) -> None:
    assert getattr(BlockAccessor.for_block(TABLE), name)(*arguments) == found


def test_blocks_of_unequal_lengths_are_not_put_side_by_side() -> None:
    with pytest.raises(ValueError, match=r"Cannot zip self \(length 3\) with block of length 1"):
        BlockAccessor.for_block(TABLE).zip(pa.table({"q": [1]}))


def test_an_unknown_batch_format_is_refused() -> None:
    with pytest.raises(ValueError, match="The batch format must be one of"):
        BlockAccessor.for_block(TABLE).to_batch_format("nope")


@pytest.mark.parametrize(
    ("name", "arguments", "found"),
    [
        ("count", {"ignore_nulls": True}, 2), ("count", {"ignore_nulls": False}, 3), ("sum", {"ignore_nulls": True}, 3),
        ("sum", {"ignore_nulls": False}, None), ("min", {"ignore_nulls": True}, 1), ("max", {"ignore_nulls": True}, 2),
        ("mean", {"ignore_nulls": True}, 1.5), ("quantile", {"q": 0.5, "ignore_nulls": True}, 1.5),
        ("value_counts", {}, {"values": [1, 2, None], "counts": [1, 1, 1]}), ("is_composed_of_lists", {}, False),
        ("sum_of_squared_diffs_from_mean", {"ignore_nulls": True}, 0.5), ("to_pylist", {}, [1, 2, None]),
    ],
)  # fmt: skip
@pytest.mark.parametrize("column", [TABLE["a"], TABLE["a"].combine_chunks()], ids=["chunked", "array"])
def test_numbers_of_a_column(column: Any, name: str, arguments: dict[str, Any], found: Any) -> None:
    assert getattr(BlockColumnAccessor.for_column(column), name)(**arguments) == found


def test_what_is_no_column_is_refused() -> None:
    with pytest.raises(TypeError, match="Expected either a pandas.Series or pyarrow.Array"):
        BlockColumnAccessor.for_column([1])


def test_facts_about_blocks() -> None:
    metadata = BlockMetadata(num_rows=1, size_bytes=2, exec_stats=None)
    assert metadata == BlockMetadata(1, 2, None) and metadata.input_files is None
    stats = metadata.to_stats()
    assert (stats.num_rows, stats.size_bytes) == (1, 2) and to_stats([metadata]) == [stats]
    full = BlockMetadataWithSchema.from_block(TABLE)
    assert full.schema == TABLE.schema and full.metadata.num_rows == 3
    assert BlockMetadataWithSchema.from_metadata(metadata, TABLE.schema).num_rows == 1
    assert BlockAccessor.for_block(TABLE).get_metadata(input_files=["x"]).input_files == ("x",)


def test_formats_of_batches_are_text() -> None:
    assert [each.value for each in BatchFormat] == ["pyarrow", "pandas", "numpy", "cudf"]
    assert BatchFormat.NUMPY == "numpy"


@pytest.mark.parametrize(
    ("aggregation", "kind"),
    [
        (Sum("i"), pa.int64()), (Sum("f"), pa.float64()), (Sum("s"), None), (Min("i"), pa.int32()),
        (Max("s"), pa.string()), (AbsMax("i"), pa.int32()), (AbsMax("s"), None), (Mean("i"), pa.float64()),
        (Std("i"), pa.float64()), (Count("i"), pa.int64()), (Count(), pa.int64()), (CountDistinct("i"), None),
        (Sum("nope"), None), (Max("b"), pa.bool_()),
    ],
)  # fmt: skip
def test_type_of_the_results_of_an_aggregation(aggregation: Any, kind: pa.DataType | None) -> None:
    field = aggregation.output_field(SCHEMA)
    assert (field.type if field else None) == kind
    assert field is None or field.name == aggregation.name


def test_rows_of_random_numbers(cluster: None) -> None:
    source = ray.data.datasource.RandomIntRowDatasource(n=10, num_columns=2)
    found = ray.data.read_datasource(source).take_all()
    assert len(found) == 10 and all(sorted(row) == ["c_0", "c_1"] for row in found)
