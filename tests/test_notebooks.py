"""Tables for notebooks: they show what there is, escape it, and run nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

import skate as ray
from skate import tune


@pytest.fixture(scope="module")
def context() -> Iterator[Any]:
    with ray.init(num_cpus=2, log_to_driver=False) as context:
        yield context


def rows(html: str) -> list[list[str]]:
    """Return the cells of a piece of HTML, which must be well-formed."""
    root = ElementTree.fromstring(f"<div>{html}</div>")
    return [[cell.text or "" for cell in row] for row in root.iter("tr")]


def test_dataset_runs_nothing(context: Any) -> None:
    known = ray.data.from_items([{"a<b": 1, "c": "x"}])
    assert rows(known._repr_html_()) == [["column", "type"], ["a<b", "int64"], ["c", "string"]]

    def fails(row: dict[str, Any]) -> dict[str, Any]:
        raise AssertionError("it has run")

    html = known.map(fails)._repr_html_()
    assert "Map(fails)" in html and rows(html) == []


def test_results_of_a_search(context: Any, tmp_path: Path) -> None:
    def objective(config: dict[str, Any]) -> dict[str, Any]:
        return {"score": config["x"] * 1.5, "words": "none"}

    results = tune.Tuner(
        objective,
        param_space={"x": tune.grid_search([1, 2]), "same": 3},
        run_config=tune.RunConfig(storage_path=str(tmp_path)),
    ).fit()
    (first, *found) = rows(results._repr_html_())
    assert first == ["trial", "status", "x", "score"]
    assert [each[1:] for each in found] == [["TERMINATED", "1", "1.5"], ["TERMINATED", "2", "3"]]
    shown = dict(map(tuple, rows(results[0]._repr_html_())[1:]))
    assert shown["score"] == "1.5" and shown["path"] == results[0].path
