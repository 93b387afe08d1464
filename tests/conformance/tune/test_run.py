"""`tune.run`, and searches and trials read again from their folders."""

from __future__ import annotations

import pathlib
import pickle
import tempfile

import pytest
import ray
from ray import tune
from ray.tune import Callback, Checkpoint, TuneError

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
    best = analysis.best_trial
    assert analysis.results_df.loc[best.trial_id, "score"] == 4
    assert analysis.best_result_df.loc[best.trial_id, "score"] == 4
    assert not [name for name in best.metric_analysis if name.startswith("config")]
    assert pickle.loads(pickle.dumps(analysis)).best_config == {"x": 2}


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


class Counting(Callback):
    """Named by `RAY_TUNE_CALLBACKS`."""

    results = 0

    def on_trial_result(self, iteration, trials, trial, result, **info):
        Counting.results += 1


def not_a_callback():
    pass


def test_callbacks_of_the_environment(fit, monkeypatch):
    monkeypatch.setenv("RAY_TUNE_CALLBACKS", f"{__name__}.Counting, ,")
    Counting.results = 0
    fit(reporting)
    assert Counting.results == 3
    for path, cause in (
        (f"{__name__}.not_a_callback", TypeError),
        (f"{__name__}.Missing", AttributeError),
        ("missing_package.Callback", ImportError),
    ):
        monkeypatch.setenv("RAY_TUNE_CALLBACKS", path)
        with pytest.raises(ValueError, match=f"Failed to import callback from '{path}'") as raised:
            fit(reporting)
        assert isinstance(raised.value.__cause__, cause)


def test_the_short_form_of_an_environment(tmp_path):
    spec = {"run": reporting, "env": "CartPole-v1", "storage_path": str(tmp_path)}
    [trial] = tune.run_experiments({"short": spec}, verbose=0)
    assert trial.config == {"env": "CartPole-v1"}
    assert str(trial) == f"reporting_CartPole-v1_{trial.trial_id}"


def test_a_trial_s_resources_are_requested_once(tmp_path):
    class Requesting(tune.Trainable):
        @classmethod
        def default_resource_request(cls, config):
            return tune.PlacementGroupFactory([{"CPU": 1}])

    with pytest.raises(TuneError, match="resources_per_trial"):
        tune.run(Requesting, resources_per_trial={"cpu": 1}, storage_path=str(tmp_path), verbose=0)


@pytest.mark.chosen_difference(
    "Ray fails a trial that starts a task without having reserved resources for it; here the task waits for "
    "free ones, and cannot wait for its own trial",
    id="D-tune-nested",
)
def test_a_trial_starts_tasks_with_what_is_free(fit):
    @ray.remote(num_cpus=1)
    def square(x):
        return x * x

    def searching(config):
        tune.report({"score": ray.get(square.remote(config["x"]))})

    results = fit(searching, {"x": tune.grid_search([1, 2, 3, 4])})
    assert [result.metrics["score"] for result in results] == [1, 4, 9, 16]
