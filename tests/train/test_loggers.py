"""Loggers of runs: tables, lines of JSON, TensorBoard's events, and the interface of callbacks."""

from __future__ import annotations

import csv
import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import skate as ray
from skate import train
from skate.air.loggers import (
    CSVLoggerCallback,
    JsonLoggerCallback,
    LoggerCallback,
    TBXLoggerCallback,
    pretty_print,
)
from skate.train import Checkpoint, RunConfig, ScalingConfig, UserCallback
from skate.train.data_parallel_trainer import DataParallelTrainer


@pytest.fixture(autouse=True)
def session() -> Iterator[None]:
    ray.init(num_cpus=2)
    yield
    ray.shutdown()


def fit(
    folder: Path | str, loop: Any, *callbacks: UserCallback, workers: int = 0, **given: Any
) -> train.Result:
    return DataParallelTrainer(
        loop,
        scaling_config=ScalingConfig(num_workers=workers),
        run_config=RunConfig(name="run", storage_path=str(folder), callbacks=list(callbacks), **given),
        train_loop_config={"lr": 0.1, "net": {"layers": 2}},
    ).fit()


def loop(config: Any) -> None:
    for step in range(3):
        train.report({"loss": 1.0 / (step + 1), "eval": {"accuracy": step / 2}, "gaps": [0.5, step]})


def test_a_table_has_a_row_a_report(tmp_path: Path) -> None:
    fit(tmp_path, loop, CSVLoggerCallback(), workers=2)
    rows = list(csv.DictReader((tmp_path / "run" / "progress.csv").read_text().splitlines()))
    assert [row["loss"] for row in rows] == ["1.0", "0.5", "0.3333333333333333"]
    assert [row["eval/accuracy"] for row in rows] == ["0.0", "0.5", "1.0"]
    assert [row["training_iteration"] for row in rows] == ["1", "2", "3"]


def test_a_table_goes_on_under_its_heading(tmp_path: Path) -> None:
    fit(tmp_path, loop, CSVLoggerCallback())

    def other(config: Any) -> None:
        train.report({"new": 1, "loss": 7.0})

    fit(tmp_path, other, CSVLoggerCallback())
    rows = list(csv.DictReader((tmp_path / "run" / "progress.csv").read_text().splitlines()))
    assert [(row["loss"], row["training_iteration"]) for row in rows[2:]] == [
        ("0.3333333333333333", "3"),
        ("7.0", "4"),
    ]
    assert "new" not in rows[0]


def test_lines_of_json_with_the_settings(tmp_path: Path) -> None:
    fit(tmp_path, loop, JsonLoggerCallback())
    folder = tmp_path / "run"
    lines = [json.loads(line) for line in (folder / "result.json").read_text().splitlines()]
    assert [line["eval"] for line in lines] == [{"accuracy": 0.0}, {"accuracy": 0.5}, {"accuracy": 1.0}]
    assert json.loads((folder / "params.json").read_text()) == {"lr": 0.1, "net": {"layers": 2}}
    assert (folder / "params.pkl").stat().st_size


@pytest.mark.parametrize("kind", ["tensorboardX", "torch"])
def test_events_for_tensorboard(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("tensorboard")
    if kind == "torch":
        pytest.importorskip("torch")
        monkeypatch.setitem(__import__("sys").modules, "tensorboardX", None)
        monkeypatch.delitem(__import__("sys").modules, "tensorboardX.summary", raising=False)
    else:
        pytest.importorskip("tensorboardX")
    fit(tmp_path, loop, TBXLoggerCallback())
    scalars, histograms = events(tmp_path / "run")
    assert histograms == ["gaps"], "what a library has drawn is in the same file"
    assert scalars["loss"] == [(1, 1.0), (2, 0.5), (3, pytest.approx(1 / 3))]
    assert scalars["eval/accuracy"] == [(1, 0.0), (2, 0.5), (3, 1.0)]


def events(folder: Path) -> tuple[dict[str, list[tuple[int, float]]], list[str]]:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator  # slow, and only here

    found = EventAccumulator(str(folder))
    found.Reload()
    tags = found.Tags()
    scalars = {tag: [(each.step, each.value) for each in found.Scalars(tag)] for tag in tags["scalars"]}
    return scalars, tags["histograms"]


def test_files_follow_a_run_that_is_elsewhere(tmp_path: Path) -> None:
    from pyarrow import fs  # slow, and only here

    elsewhere = fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem())
    for _ in range(2):
        fit("bucket", loop, CSVLoggerCallback(), JsonLoggerCallback(), storage_filesystem=elsewhere)
    written = tmp_path / "bucket" / "run"
    assert len((written / "progress.csv").read_text().splitlines()) == 7
    assert len((written / "result.json").read_text().splitlines()) == 6
    assert not [name for name in os.listdir(tempfile.gettempdir()) if name.startswith("skate-logs-")]


class RecordingCallback(LoggerCallback):
    def __init__(self) -> None:
        self.calls: list[Any] = []

    def setup(self, *args: Any, **info: Any) -> None:
        self.calls.append("setup")

    def log_trial_start(self, trial: Any) -> None:
        self.calls.append(("start", str(trial), trial.config))

    def log_trial_save(self, trial: Any) -> None:
        self.calls.append(("save", os.path.basename(trial.checkpoint.path)))

    def log_trial_result(self, iteration: int, trial: Any, result: dict[str, Any]) -> None:
        self.calls.append((iteration, result["step"]))

    def log_trial_end(self, trial: Any, failed: bool = False) -> None:
        self.calls.append(("end", failed))


@pytest.mark.parametrize("workers", [0, 1])
def test_a_logger_is_told_of_a_run_as_of_a_trial(tmp_path: Path, workers: int) -> None:
    def saving(config: Any) -> None:
        with tempfile.TemporaryDirectory() as folder:
            train.report({"step": 0})
            train.report({"step": 1}, Checkpoint.from_directory(folder), checkpoint_dir_name="kept")
        raise ValueError("over")

    recorder = RecordingCallback()
    with pytest.raises((ValueError, train.WorkerGroupError), match="over"):
        fit(tmp_path, saving, recorder, workers=workers)
    assert recorder.calls == [
        "setup",
        ("start", "run", {"lr": 0.1, "net": {"layers": 2}}),
        (1, 0),
        (2, 1),
        ("save", "kept"),
        ("end", True),
    ]


class Watching(UserCallback):
    def __init__(self, raising: str = "") -> None:
        self.hooks: list[Any] = []
        self.raising = raising

    def record(self, hook: str, what: Any = None) -> None:
        self.hooks.append((hook, what))
        if hook == self.raising:
            raise KeyError(f"no {hook} please")

    def before_run(self, run_context: Any) -> None:
        self.record("before_run", run_context.reports)

    def after_report(self, run_context: Any, metrics: Any, checkpoint: Any) -> None:
        self.record("after_report", run_context.reports)

    def after_exception(self, run_context: Any, worker_exceptions: Any) -> None:
        self.record("after_exception", sorted(worker_exceptions))

    def after_run(self, run_context: Any, error: BaseException | None) -> None:
        self.record("after_run", type(error).__name__ if error else None)


def test_a_run_that_goes_on_counts_its_reports_on(tmp_path: Path) -> None:
    first, second = Watching(), Watching()
    fit(tmp_path, loop, first)
    fit(tmp_path, loop, second, workers=1)
    reports = [("after_report", number) for number in range(1, 7)]
    assert first.hooks == [("before_run", 0), *reports[:3], ("after_run", None)]
    assert second.hooks == [("before_run", 3), *reports[3:], ("after_run", None)]


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("hook", ["before_run", "after_report", "after_run"])
def test_a_callback_that_raises_is_named(tmp_path: Path, hook: str, workers: int) -> None:
    other = Watching()
    with pytest.raises(
        train.ControllerError, match=rf"Watching raised in {hook}\(\): KeyError: 'no {hook} please'"
    ):
        fit(tmp_path, loop, Watching(hook), other, workers=workers)
    assert other.hooks[-1][0] == "after_run", "whoever comes after it is still told of the end"


def test_a_callback_that_raises_at_a_failure_hides_it_not(tmp_path: Path) -> None:
    def broken(config: Any) -> None:
        raise ValueError("the real reason")

    with pytest.raises(
        train.ControllerError, match=r"(?s)rank 0.*the real reason.*no after_exception please"
    ):
        fit(tmp_path, broken, Watching("after_exception"), workers=1)


def test_a_callback_that_raises_at_the_end_of_a_failed_run_hides_nothing(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    def broken(config: Any) -> None:
        raise ValueError("the real reason")

    with pytest.raises(train.WorkerGroupError, match="the real reason"):
        fit(tmp_path, broken, Watching("after_run"), workers=1)
    assert "Watching raised in after_run()" in capfd.readouterr().err


def test_pretty_print() -> None:
    text = pretty_print(
        {"loss": 0.5, "config": {"lr": 1}, "none": None, "eval": {"accuracy": 1}}, exclude={"x"}
    )
    assert text == "eval:\n  accuracy: 1\nloss: 0.5\n"
