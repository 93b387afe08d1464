"""Spans of a run in the timeline."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import skate as ray
from skate import train
from skate.train import Checkpoint, RunConfig, ScalingConfig
from skate.train.data_parallel_trainer import DataParallelTrainer
from skate.util.engine import record_span


@pytest.fixture(autouse=True)
def session() -> Iterator[None]:
    ray.init(num_cpus=2)
    yield
    ray.shutdown()


def loop(config: dict[str, Any]) -> int:
    train.report({"step": 0})
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "weights").write_text("1")
        train.report({"step": 1}, Checkpoint.from_directory(folder), checkpoint_dir_name="first")
    train.collective.barrier()
    return os.getpid()


def fit(folder: Path, workers: int) -> train.Result:
    return DataParallelTrainer(
        loop,
        scaling_config=ScalingConfig(num_workers=workers),
        run_config=RunConfig(name="run", storage_path=str(folder)),
    ).fit()


def of_train() -> list[dict[str, Any]]:
    events = ray.timeline()
    assert events is not None
    return [event for event in events if event["cat"] == "train"]


def test_reports_and_checkpoints_have_spans(tmp_path: Path) -> None:
    result = fit(tmp_path, 2)
    found = of_train()
    names = sorted(event["name"] for event in found)
    assert names == [
        "train.checkpoint 1",
        *["train.collective 0"] * 2,
        *["train.report 0"] * 2,
        *["train.report 1"] * 2,
        *["train.upload 1"] * 2,
    ]
    assert f"worker:{result.return_value}" in {event["tid"] for event in found}, "in the rows of the workers"
    (checkpoint,) = [event for event in found if event["name"] == "train.checkpoint 1"]
    assert checkpoint["args"]["path"].endswith("/run/first")
    reports = [event for event in found if event["name"] == "train.report 1"]
    assert sorted(event["args"]["rank"] for event in reports) == [0, 1]
    for event in reports:
        assert event["ts"] <= checkpoint["ts"] + 1
        assert event["ts"] + event["dur"] >= checkpoint["ts"] + checkpoint["dur"] - 1


def test_a_local_run_has_spans_in_its_own_row(tmp_path: Path) -> None:
    fit(tmp_path, 0)
    assert {event["tid"] for event in of_train()} == {f"worker:{os.getpid()}", "train:run"}


def test_spans_are_written_to_the_file(tmp_path: Path) -> None:
    fit(tmp_path, 1)
    assert ray.timeline(str(tmp_path / "trace.json")) is None
    names = {event["name"] for event in json.loads((tmp_path / "trace.json").read_text())}
    assert {"train.report 0", "train.upload 1"} <= names


def test_spans_belong_to_their_session(tmp_path: Path) -> None:
    record_span("mine", "test", 1.0, 0.5, "row", {"x": 1})
    (mine,) = [event for event in ray.timeline() or () if event["cat"] == "test"]
    assert (mine["ts"], mine["dur"], mine["tid"], mine["args"]) == (1e6, 5e5, "row", {"x": 1})
    ray.shutdown()
    record_span("lost", "test", 1.0, 0.5, "row")
    ray.init(num_cpus=1)
    assert [event for event in ray.timeline() or () if event["cat"] == "test"] == []
