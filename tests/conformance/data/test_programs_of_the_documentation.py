"""Names beside the public ones that programs of Ray's documentation import."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import ray
import ray.data
from ray.data._internal.datasource.range_datasource import RangeDatasource
from ray.data._internal.delegating_block_builder import DelegatingBlockBuilder
from ray.data._internal.util import is_null
from ray.data.block import BlockAccessor


def rows(builder: Any) -> list[dict[str, Any]]:
    return list(BlockAccessor.for_block(builder.build()).iter_rows(public_row_format=True))


def test_blocks_are_built_of_rows_batches_and_blocks() -> None:
    builder = DelegatingBlockBuilder()
    builder.add({"a": 1})
    builder.add_batch({"a": np.array([2, 3])})
    assert builder.num_rows() == 3 and builder.get_estimated_memory_usage() > 0
    assert sorted(row["a"] for row in rows(builder)) == [1, 2, 3]
    second = DelegatingBlockBuilder()
    second.add_block(pd.DataFrame({"a": [4]}))
    assert [row["a"] for row in rows(second)] == [4]
    images = DelegatingBlockBuilder()
    images.add({"image": np.zeros((2, 3))})
    assert rows(images)[0]["image"].shape == (2, 3)
    assert BlockAccessor.for_block(DelegatingBlockBuilder().build()).num_rows() == 0
    with pytest.raises((TypeError, AssertionError)):
        builder.add([1])


def test_ranges_as_a_source() -> None:
    numbers = ray.data.read_datasource(RangeDatasource(n=3, block_format="arrow")).take_all()
    assert sorted(row["value"] for row in numbers) == [0, 1, 2]
    arrays = RangeDatasource(n=2, block_format="tensor", tensor_shape=(2, 2), column_name="x")
    found = ray.data.read_datasource(arrays).take_all()
    assert sorted(row["x"].tolist() for row in found) == [[[0, 0], [0, 0]], [[1, 1], [1, 1]]]


def test_nulls() -> None:
    assert [is_null(value) for value in (None, float("nan"), 0, "")] == [True, True, False, False]
