"""Searches that continue."""

from __future__ import annotations

import pathlib
import tempfile

import pytest
from ray import tune
from ray.tune import Checkpoint, RunConfig, TuneConfig, Tuner

pytestmark = pytest.mark.usefixtures("cluster")


def failing_once(config):
    marks = pathlib.Path(config["marks"])
    first = 0
    checkpoint = tune.get_checkpoint()
    if checkpoint:
        with checkpoint.as_directory() as folder:
            first = int(pathlib.Path(folder, "step").read_text()) + 1
    with open(marks / f"ran-{config['x']}", "a") as file:
        file.write(f"{first}\n")
    for step in range(first, 4):
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "step").write_text(str(step))
            tune.report({"step": step}, checkpoint=Checkpoint.from_directory(folder))
        if step == 1 and config["x"] == 1 and not (marks / "mended").exists():
            raise RuntimeError("asked to fail")


@pytest.fixture
def failed(tmp_path):
    space = {"x": tune.grid_search([0, 1]), "marks": str(tmp_path)}
    results = Tuner(
        failing_once,
        param_space=space,
        tune_config=TuneConfig(),
        run_config=RunConfig(name="search", storage_path=str(tmp_path / "storage"), verbose=0),
    ).fit()
    assert results.num_errors == 1
    (tmp_path / "mended").touch()
    return results.experiment_path


def starts(tmp_path, x):
    return (tmp_path / f"ran-{x}").read_text().split()


def test_can_restore(failed, tmp_path):
    assert Tuner.can_restore(failed)
    assert not Tuner.can_restore(str(tmp_path / "nothing"))


def test_nothing_to_restore(tmp_path):
    with pytest.raises(FileNotFoundError):
        Tuner.restore(str(tmp_path / "nothing"), trainable=failing_once)


def test_results_without_running(failed):
    results = Tuner.restore(failed, trainable=failing_once).get_results()
    assert len(results) == 2
    assert results.num_errors == 1


def test_what_has_ended_is_left(failed, tmp_path):
    results = Tuner.restore(failed, trainable=failing_once).fit()
    assert results.num_errors == 1
    assert starts(tmp_path, 0) == ["0"]
    assert starts(tmp_path, 1) == ["0"]


def test_what_has_failed_goes_on(failed, tmp_path):
    results = Tuner.restore(failed, trainable=failing_once, resume_errored=True).fit()
    assert results.num_errors == 0
    assert starts(tmp_path, 0) == ["0"]
    assert starts(tmp_path, 1) == ["0", "2"]
    assert [result.metrics["step"] for result in results] == [3, 3]
    assert results[1].metrics["training_iteration"] == 4


def test_what_has_failed_starts_anew(failed, tmp_path):
    results = Tuner.restore(failed, trainable=failing_once, restart_errored=True).fit()
    assert results.num_errors == 0
    assert starts(tmp_path, 1) == ["0", "0"]


def test_configurations_stay(failed, tmp_path):
    results = Tuner.restore(failed, trainable=failing_once, resume_errored=True).fit()
    assert [result.config["x"] for result in results] == [0, 1]


def test_another_trainable(failed):
    def other(config):
        return {}

    with pytest.raises(ValueError):
        Tuner.restore(failed, trainable=other).fit()


def test_the_best_after_restoring(failed):
    results = Tuner.restore(failed, trainable=failing_once).get_results()
    assert results.get_best_result("step", "max").config["x"] == 0
