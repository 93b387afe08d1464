"""How a dataset prints and how far it runs ahead of its reader, where Skate differs from Ray on purpose."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest
import ray.data
from ray.data.expressions import col

pytestmark = pytest.mark.usefixtures("cluster")


@pytest.mark.chosen_difference("a dataset prints as its plan, in a line for each step", id="D-data-repr")
def test_a_dataset_prints_as_its_plan_and_never_its_rows() -> None:
    dataset = ray.data.range(3)
    assert repr(dataset) == "Dataset(num_rows=3, schema={id: int64})"
    assert repr(dataset.map(lambda row: row)).splitlines()[-1] == "+- Dataset(num_rows=3, schema={id: int64})"
    assert repr(dataset.materialize()).count("\n") == 0


@pytest.mark.chosen_difference("a pipeline stays a window of blocks ahead", id="D-data-ahead")
def test_a_pipeline_waits_for_its_reader(tmp_path: pathlib.Path) -> None:
    def note(batch: dict[str, Any]) -> dict[str, Any]:
        (tmp_path / str(batch["id"][0])).touch()
        return batch

    found = iter(ray.data.range(200, override_num_blocks=200).map_batches(note).iter_rows())
    first = [next(found)["id"] for _ in range(3)]
    made = len(list(tmp_path.iterdir()))
    rest = [row["id"] for row in found]
    assert first + rest == list(range(200))
    assert made < 200 and len(list(tmp_path.iterdir())) == 200


@pytest.mark.chosen_difference("an expression prints in a line", id="D-data-expression-repr")
def test_an_expression_prints_as_it_is_written() -> None:
    assert repr(col("a") + 1) == "col('a') + 1"
    assert repr(~col("b").is_null()) == "~col('b').is_null()"
