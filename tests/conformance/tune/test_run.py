"""`tune.run`, and searches and trials read again from their folders."""

from __future__ import annotations

import pathlib
import tempfile

import pytest
from ray import tune
from ray.tune import Checkpoint, TuneError

pytestmark = pytest.mark.usefixtures("cluster")


def reporting(config):
    for step in range(3):
        tune.report({"score": config.get("x", 1) * step, "nested": {"step": step}})


def saving(config):
    first = 0
    checkpoint = tune.get_checkpoint()
    if checkpoint:
        with checkpoint.as_directory() as folder:
            first = int(pathlib.Path(folder, "step").read_text()) + 1
    for step in range(first, config.get("steps", 3)):
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "step").write_text(str(step))
            tune.report({"score": step}, checkpoint=Checkpoint.from_directory(folder))
        if config.get("fail_at") == step and first == 0:
            raise RuntimeError("asked to fail")


def test_run(tmp_path):
    analysis = tune.run(
        reporting,
        config={"x": tune.grid_search([1, 2])},
        metric="score",
        mode="max",
        storage_path=str(tmp_path),
        name="run",
        verbose=0,
    )
    assert analysis.best_config == {"x": 2}
    assert analysis.best_result["score"] == 4
    assert analysis.best_trial.config == {"x": 2}
    assert len(analysis.trials) == 2
    assert len(analysis.dataframe()) == 2
    assert len(analysis.trial_dataframes) == 2


def test_run_raises_for_trials_that_fail(tmp_path):
    def failing(config):
        raise ValueError("no good")

    with pytest.raises(TuneError):
        tune.run(failing, storage_path=str(tmp_path), verbose=0)
    analysis = tune.run(failing, storage_path=str(tmp_path), verbose=0, raise_on_failed_trial=False)
    assert analysis.trials[0].status == "ERROR"


def test_an_analysis_of_a_folder(fit, tmp_path):
    results = fit(reporting, {"x": tune.grid_search([1, 2])})
    analysis = tune.ExperimentAnalysis(results.experiment_path, default_metric="score", default_mode="max")
    assert analysis.best_config == {"x": 2}


def test_an_analysis_of_nothing(tmp_path):
    with pytest.raises(ValueError):
        tune.ExperimentAnalysis(str(tmp_path))


def test_a_result_of_a_folder(fit):
    [result] = fit(saving)
    again = tune.Result.from_path(result.path)
    assert again.metrics["score"] == 2
    assert again.checkpoint.path == result.checkpoint.path
    assert len(again.metrics_dataframe) == 3
