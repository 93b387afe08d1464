"""Columns by name: chosen, dropped, renamed, added."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import ray
import ray.data
from ray.data.expressions import col, lit

pytestmark = pytest.mark.usefixtures("cluster")

ROWS = [{"a": 1, "b": 2.0, "c": "x"}, {"a": 2, "b": 3.0, "c": "y"}]


def data() -> Any:
    return ray.data.from_items(ROWS, override_num_blocks=1)


@pytest.mark.parametrize(
    ("change", "first"),
    [
        (lambda ds: ds.select_columns(["c", "a"]), {"c": "x", "a": 1}),
        (lambda ds: ds.select_columns("a"), {"a": 1}),
        (lambda ds: ds.drop_columns(["a", "b"]), {"c": "x"}),
        (lambda ds: ds.drop_columns("a"), {"b": 2.0, "c": "x"}),
        (lambda ds: ds.drop_columns([]), ROWS[0]),
        (lambda ds: ds.rename_columns({"a": "z"}), {"z": 1, "b": 2.0, "c": "x"}),
        (lambda ds: ds.rename_columns(["x", "y", "z"]), {"x": 1, "y": 2.0, "z": "x"}),
        (lambda ds: ds.rename_columns({"a": "b", "b": "a"}), {"b": 1, "a": 2.0, "c": "x"}),
        (lambda ds: ds.with_column("z", col("a") + 1), {**ROWS[0], "z": 2}),
        (lambda ds: ds.with_column("a", col("a") + 1), {**ROWS[0], "a": 2}),
        (lambda ds: ds.with_column("z", (col("a") + 1).alias("y")), {**ROWS[0], "z": 2}),
        (lambda ds: ds.with_column("z", lit(None)), {**ROWS[0], "z": None}),
        (lambda ds: ds.with_columns({"a": col("a") + 1, "y": col("a") * 2}), {**ROWS[0], "a": 2, "y": 2}),
        (lambda ds: ds.with_columns({"x": col("a")}, {"y": col("b")}), {**ROWS[0], "x": 1, "y": 2.0}),
        (lambda ds: ds.with_columns(), ROWS[0]),
        (lambda ds: ds.add_column("z", lambda df: df["a"] * 2), {**ROWS[0], "z": 2}),
        (lambda ds: ds.add_column("a", lambda df: df["a"] * 2), {**ROWS[0], "a": 2}),
        (lambda ds: ds.add_column("z", lambda df: 5), {**ROWS[0], "z": 5}),
        (lambda ds: ds.add_column("z", lambda t: t["a"], batch_format="pyarrow"), {**ROWS[0], "z": 1}),
        (lambda ds: ds.add_column("z", lambda x: x["a"] + 1, batch_format="numpy"), {**ROWS[0], "z": 2}),
    ],
    ids=range(20),
)
def test_columns(change: Any, first: dict[str, Any]) -> None:
    row = change(data()).take(1)[0]
    assert row == first
    assert list(row) == list(first)


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        (lambda ds: ds.select_columns(["a", "a"]), ValueError),
        (lambda ds: ds.select_columns([col("a")]), ValueError),
        (lambda ds: ds.select_columns(5), TypeError),
        (lambda ds: ds.drop_columns(["a", "a"]), ValueError),
        (lambda ds: ds.drop_columns(["a", "zz"]), KeyError),
        (lambda ds: ds.rename_columns(["x", "y"]), ValueError),
        (lambda ds: ds.rename_columns({}), ValueError),
        (lambda ds: ds.rename_columns([]), ValueError),
        (lambda ds: ds.rename_columns({"a": 5}), ValueError),
        (lambda ds: ds.rename_columns("a"), TypeError),
        (lambda ds: ds.rename_columns({"a": "z", "b": "z"}), ValueError),
        (lambda ds: ds.add_column("z", 5), ValueError),
        (lambda ds: ds.add_column("z", len, batch_format="other"), ValueError),
    ],
    ids=range(13),
)
def test_what_is_refused_at_once(wrong: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        wrong(data())


@pytest.mark.parametrize(
    "wrong",
    [
        lambda ds: ds.select_columns(["zz"]),
        lambda ds: ds.rename_columns({"zz": "y"}),
        lambda ds: ds.with_column("z", col("zz") + 1),
        lambda ds: ds.filter(expr="zz > 1"),
        lambda ds: ds.with_column("z", col("c") + 1),
        lambda ds: ds.filter(expr=col("a")),
        lambda ds: ds.add_column("z", lambda df: [1]),
    ],
    ids=range(7),
)
def test_what_fails_when_it_runs_at_the_latest(wrong: Any) -> None:
    with pytest.raises(Exception):  # noqa: B017  (Ray has several kinds)
        wrong(data()).take_all()


@pytest.mark.chosen_difference(
    "an unknown column is told at once, with near names", id="D-data-unknown-column"
)
def test_an_unknown_column_is_told_at_once() -> None:
    with pytest.raises(KeyError, match="did you mean 'abc'"):
        ray.data.from_items([{"abc": 1}]).select_columns(["acb"])
    with pytest.raises(ValueError, match="The dataset has columns"):
        data().with_column("z", col("missing"))


@pytest.mark.chosen_difference("a name that is taken is refused", id="D-data-rename-taken")
def test_a_name_that_is_taken_is_refused() -> None:
    with pytest.raises(ValueError, match="column 'b' already exists"):
        data().rename_columns({"a": "b"})
    with pytest.raises(ValueError, match="column 'b' already exists"):
        data().map_batches(lambda batch: batch).rename_columns({"a": "b"}).take_all()


def test_the_columns_of_what_does_not_run() -> None:
    changed = data().with_column("z", col("a") + 1).drop_columns(["b"]).rename_columns({"c": "k"})
    assert changed.columns() == ["a", "k", "z"]
    assert changed.select_columns(["z", "a"]).columns() == ["z", "a"]


def test_arrays_as_columns() -> None:
    def squares(batch: Any) -> Any:
        return np.stack([batch["a"], batch["a"] ** 2], axis=1)

    made = data().map_batches(lambda batch: {**batch, "t": squares(batch)})
    assert made.take_batch(2)["t"].tolist() == [[1, 1], [2, 4]]
