"""Results of a search, by each way of asking, and searches that are gone on with."""

from __future__ import annotations

import json
import os
import pickle
import shutil
from pathlib import Path
from typing import Any

import pytest
from ray import tune
from ray.tune import ExperimentAnalysis, Trainable, Tuner
from ray.tune.stopper import MaximumIterationStopper


def steps(config: dict[str, Any]) -> None:
    for step in range(3):
        tune.report({"x": step, "v": config["a"] * step})


def failing(config: dict[str, Any]) -> None:
    tune.report({"x": 1})
    raise RuntimeError("on purpose")


class Stepping(Trainable):
    """Counts, and fails to continue from a checkpoint as often as `config["restores_fail"]` says."""

    def setup(self, config: dict[str, Any]) -> None:
        self.count = 0

    def step(self) -> dict[str, Any]:
        self.count += 1
        if self.count == 2 and self.config.get("fails") and not self.was("failed", 1):
            raise RuntimeError("on purpose")
        return {"x": self.count, "done": self.count >= 3}

    def was(self, what: str, times: int) -> bool:
        """Return True if it was asked so often already, by any process of the trial."""
        path = Path(self.config["folder"], what)
        count = len(path.read_text()) if path.exists() else 0
        path.write_text("." * (count + 1))
        return count >= times

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        Path(checkpoint_dir, "count").write_text(str(self.count))

    def load_checkpoint(self, checkpoint: Any) -> None:
        if not self.was("restored", self.config.get("restores_fail", 0)):
            raise OSError("cannot be read yet")
        self.count = int(Path(checkpoint, "count").read_text())


FOUND: list[Any] = []


@pytest.fixture
def search(cluster: Any, tmp_path_factory: Any) -> Any:
    """One search for all the tests that only look at its results."""
    if not FOUND:
        FOUND.append(searched(tmp_path_factory.mktemp("searches")))
    return FOUND[0]


def searched(folder: Path) -> Any:
    return tune.Tuner(
        steps,
        param_space={"a": tune.grid_search([1, 2])},
        tune_config=tune.TuneConfig(metric="v", mode="max"),
        run_config=tune.RunConfig(name="search", storage_path=str(folder), verbose=0),
    ).fit()


@pytest.fixture
def analysis(search: Any) -> ExperimentAnalysis:
    return ExperimentAnalysis(search.experiment_path, default_metric="v", default_mode="max")


def test_how_many_results_there_are(search: Any) -> None:
    assert (len(search), search.num_errors, search.num_terminated, search.errors) == (2, 0, 2, [])
    assert len(list(search)) == 2
    with pytest.raises(IndexError):
        search[2]


@pytest.mark.parametrize(("mode", "a"), [("max", 2), ("min", 1)])
@pytest.mark.parametrize("scope", ["last", "avg", "last-5-avg", "last-10-avg", "all"])
def test_the_best_result(search: Any, mode: str, a: int, scope: str) -> None:
    best = search.get_best_result("v", mode, scope=scope)
    assert best.config["a"] == a if scope != "all" or mode == "max" else best.metrics["v"] in (2, 4)


@pytest.mark.parametrize(
    ("given", "phrase"),
    [
        ({"scope": "nothing"}, "scope nothing not in"),
        ({"mode": "up"}, r"If set, `mode` has to be one of \[min, max\]"),
    ],
    ids=str,
)
def test_the_best_by_a_way_that_there_is_not(search: Any, given: dict[str, Any], phrase: str) -> None:
    with pytest.raises(ValueError, match=phrase):
        search.get_best_result("v", **{"mode": "max", **given})


@pytest.mark.parametrize(("mode", "values"), [("max", [2, 4]), ("min", [0, 0])])
def test_the_table_by_a_metric(search: Any, mode: str, values: list[int]) -> None:
    assert sorted(search.get_dataframe(filter_metric="v", filter_mode=mode)["v"]) == values


def test_the_table(search: Any) -> None:
    table = search.get_dataframe()
    assert sorted(table["v"]) == [2, 4]
    assert sorted(table["config/a"]) == [1, 2]
    for name in (
        "trial_id",
        "training_iteration",
        "time_total_s",
        "logdir",
        "pid",
        "hostname",
        "node_ip",
        "done",
        "date",
    ):
        assert name in table


@pytest.mark.parametrize("name", ["params.json", "params.pkl", "progress.csv", "result.json"])
def test_a_file_that_a_trial_writes(search: Any, name: str) -> None:
    found = Path(search[0].path, name)
    if name == "params.json":
        assert json.loads(found.read_text()) == search[0].config
    elif name == "params.pkl":
        assert pickle.loads(found.read_bytes()) == search[0].config
    elif name == "result.json":
        lines = [json.loads(line) for line in found.read_text().splitlines()]
        assert [line["x"] for line in lines] == [0, 1, 2]
        assert lines[0]["config"] == search[0].config
    else:
        lines = found.read_text().splitlines()
        assert {"x", "v", "training_iteration", "trial_id", "timestamp"} <= set(lines[0].split(","))
        assert len(lines) == 4


def test_one_result(search: Any) -> None:
    result = search.get_best_result()
    assert result.metrics["v"] == 4
    assert result.error is None
    assert result.checkpoint is None
    assert result.best_checkpoints == []
    assert list(result.metrics_dataframe["x"]) == [0, 1, 2]
    assert result.path.startswith(search.experiment_path)
    assert result.metrics["experiment_tag"] == "1_a=2"
    assert result.metrics["config"] == {"a": 2}


@pytest.mark.parametrize(
    "ask",
    [
        lambda found: found.best_trial.config["a"] == 2,
        lambda found: found.best_config == {"a": 2},
        lambda found: found.best_result["v"] == 4,
        lambda found: found.best_checkpoint is None,
        lambda found: list(found.best_dataframe["x"]) == [0, 1, 2],
        lambda found: len(found.results) == 2,
        lambda found: len(found.results_df) == 2,
        lambda found: found.get_best_trial("x", "max") is not None,
        lambda found: found.get_best_config("v", "min") == {"a": 1},
        lambda found: found.get_best_checkpoint(found.trials[0], "v", "max") is None,
        lambda found: found.get_last_checkpoint() is None,
        lambda found: len(found.dataframe("v", "max")) == 2,
        lambda found: len(found.trial_dataframes) == 2,
        lambda found: sorted(each["a"] for each in found.get_all_configs().values()) == [1, 2],
        lambda found: found.get_best_trial("not-there", "max") is None,
        lambda found: found.get_best_config("not-there", "max") is None,
        lambda found: found.experiment_path.endswith("search"),
    ],
)
def test_what_an_analysis_says(analysis: ExperimentAnalysis, ask: Any) -> None:
    assert ask(analysis)


def test_an_analysis_of_nothing(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="No experiment snapshot file of form"):
        ExperimentAnalysis(str(tmp_path / "nothing"))


def test_a_trial_that_fails(fit: Any, cluster: Any) -> None:
    found = fit(failing)
    assert found.num_errors == 1
    assert "on purpose" in str(found[0].error)
    assert found[0].metrics["x"] == 1
    assert {"error.txt", "error.pkl"} <= set(os.listdir(found[0].path))


@pytest.mark.parametrize("raising", [True, False])
def test_a_trial_that_fails_under_run(cluster: Any, tmp_path: Path, raising: bool) -> None:
    def run() -> Any:
        return tune.run(failing, storage_path=str(tmp_path), verbose=0, raise_on_failed_trial=raising)

    if raising:
        with pytest.raises(tune.TuneError, match="Trials did not complete"):
            run()
    else:
        assert run().trials[0].status == "ERROR"


@pytest.mark.parametrize(
    ("stop", "iterations"),
    [
        ({"x": 1}, 2),
        ({"training_iteration": 1}, 1),
        (lambda trial_id, result: result["x"] >= 1, 2),
        (MaximumIterationStopper(2), 2),
        (None, 3),
    ],
)
def test_what_ends_trials(fit: Any, cluster: Any, stop: Any, iterations: int) -> None:
    assert fit(steps, {"a": 1}, stop=stop)[0].metrics["training_iteration"] == iterations


@pytest.mark.parametrize(
    ("given", "kind", "phrase"),
    [
        ({"stop": 3}, ValueError, "Invalid stop criteria"),
        ({"stop": "x"}, ValueError, "Invalid stop criteria"),
        ({"search_alg": "nothing"}, ValueError, r"The `search_alg` argument must be one of \["),
        ({"scheduler": "nothing"}, ValueError, "The `scheduler` argument must be one of"),
        ({"mode": "up", "metric": "v"}, ValueError, "The `mode` parameter"),
    ],
)
def test_an_argument_that_cannot_be_is_refused(
    fit: Any, cluster: Any, given: Any, kind: Any, phrase: str
) -> None:
    with pytest.raises(kind, match=phrase):
        fit(steps, {"a": 1}, **given)


@pytest.mark.parametrize(
    "scheduler", ["fifo", "async_hyperband", "asynchyperband", "median_stopping_rule", "hyperband"]
)
def test_a_scheduler_by_its_name(fit: Any, cluster: Any, scheduler: str) -> None:
    found = fit(steps, {"a": 1}, scheduler=scheduler, metric="v", mode="max")
    assert found[0].metrics["training_iteration"] == 3


@pytest.mark.parametrize("search_alg", ["random", "variant_generator"])
def test_a_searcher_by_its_name(fit: Any, cluster: Any, search_alg: str) -> None:
    assert len(fit(steps, {"a": tune.grid_search([1, 2])}, search_alg=search_alg)) == 2


@pytest.mark.parametrize(
    ("trainable", "kind", "phrase"),
    [
        (None, tune.TuneError, "Improper 'run' - not string nor trainable"),
        (3, tune.TuneError, "Improper 'run' - not string nor trainable"),
        ("results-unknown", tune.TuneError, "Unknown trainable: results-unknown"),
        (lambda: None, ValueError, "Unknown argument found in the Trainable function"),
        (lambda a, b: None, ValueError, "Unknown argument found in the Trainable function"),
    ],
)
def test_what_cannot_be_run_is_refused(
    cluster: Any, tmp_path: Path, trainable: Any, kind: Any, phrase: str
) -> None:
    with pytest.raises(kind, match=phrase):
        tune.run(trainable, storage_path=str(tmp_path), verbose=0)


@pytest.mark.parametrize(("value", "name"), [({"q": 1}, "q"), (3, "_metric"), (2.5, "_metric")], ids=str)
def test_what_a_function_returns_is_its_result(fit: Any, cluster: Any, value: Any, name: str) -> None:
    assert fit(lambda config: value)[0].metrics[name] == (value[name] if isinstance(value, dict) else value)


@pytest.mark.parametrize("name", ["checkpoint_frequency", "checkpoint_at_end"])
def test_a_function_saves_by_itself(fit: Any, cluster: Any, name: str) -> None:
    given: dict[str, Any] = {name: 2}
    with pytest.raises(ValueError, match=f"'{name}' cannot be"):
        fit(steps, {"a": 1}, checkpoint_config=tune.CheckpointConfig(**given))


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({}, "checkpoint_000000"),
        ({"checkpoint_frequency": 2}, "checkpoint_000001"),
        ({"checkpoint_frequency": 2, "checkpoint_at_end": False}, "checkpoint_000000"),
        ({"checkpoint_frequency": 5}, "checkpoint_000000"),
        ({"checkpoint_frequency": 1, "num_to_keep": 1}, "checkpoint_000002"),
        ({"checkpoint_at_end": True}, "checkpoint_000000"),
        ({"checkpoint_frequency": 2, "checkpoint_at_end": True, "num_to_keep": 1}, "checkpoint_000001"),
    ],
    ids=str,
)
def test_checkpoints_of_a_class(fit: Any, cluster: Any, tmp_path: Path, given: Any, name: str) -> None:
    found = fit(Stepping, {"folder": str(tmp_path)}, checkpoint_config=tune.CheckpointConfig(**given))
    assert os.path.basename(found[0].checkpoint.path) == name


@pytest.mark.parametrize(
    ("retries", "restores_fail", "ends_well"), [(0, 1, False), (1, 1, True), (2, 2, True), (1, 2, False)]
)
def test_failures_to_go_on_are_retried(
    fit: Any,
    cluster: Any,
    tmp_path: Path,
    monkeypatch: Any,
    retries: int,
    restores_fail: int,
    ends_well: bool,
) -> None:
    monkeypatch.setenv("TUNE_RESTORE_RETRY_NUM", str(retries))
    found = fit(
        Stepping,
        {"folder": str(tmp_path), "fails": True, "restores_fail": restores_fail},
        checkpoint_config=tune.CheckpointConfig(checkpoint_frequency=1),
        failure_config=tune.FailureConfig(max_failures=1),
    )
    assert (found.num_errors == 0) is ends_well


def test_what_can_be_restored(search: Any, tmp_path: Path) -> None:
    assert Tuner.can_restore(search.experiment_path)
    assert Tuner.can_restore(Path(search.experiment_path))
    assert not Tuner.can_restore(str(tmp_path / "nothing"))


def test_results_of_a_search_that_was_restored(search: Any) -> None:
    results = Tuner.restore(search.experiment_path, trainable=steps).get_results()
    assert sorted(each.metrics["v"] for each in results) == [2, 4]


def test_a_search_that_was_moved_is_restored(search: Any, tmp_path: Path) -> None:
    moved = str(tmp_path / "moved")
    shutil.copytree(search.experiment_path, moved)
    assert Tuner.restore(moved, trainable=steps).get_results().experiment_path == moved
    results = Tuner.restore(moved, trainable=steps).fit()
    assert all(each.path.startswith(moved) for each in results)


@pytest.mark.parametrize(
    ("given", "kind", "phrase"),
    [
        ({"trainable": failing}, ValueError, r"Invalid `trainable` input to `Tuner.restore\(\)`"),
        (
            {"trainable": steps, "param_space": {"b": 1}},
            ValueError,
            r"Invalid `param_space` input to `Tuner.restore\(\)`",
        ),
        ({"trainable": steps, "param_space": {}}, ValueError, "Invalid `param_space` input"),
        ({}, TypeError, "trainable"),
    ],
    ids=["trainable", "other-name", "no-names", "nothing"],
)
def test_a_search_is_restored_with_what_it_had(search: Any, given: Any, kind: Any, phrase: str) -> None:
    with pytest.raises(kind, match=phrase):
        Tuner.restore(search.experiment_path, **given)


def test_a_search_is_restored_with_its_space(search: Any) -> None:
    Tuner.restore(search.experiment_path, trainable=steps, param_space={"a": tune.grid_search([1, 2])})


def test_a_search_that_is_not_there_is_not_restored(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Tuner.restore(str(tmp_path / "nothing"), trainable=steps)


@pytest.mark.parametrize("how", [{"restart_errored": True}, {"resume_errored": True}], ids=str)
def test_trials_that_have_failed_are_begun_again(fit: Any, cluster: Any, how: Any) -> None:
    found = fit(failing)
    again = Tuner.restore(found.experiment_path, trainable=failing, **how).fit()
    assert again.num_errors == 1


def test_a_search_that_has_not_run_has_no_results() -> None:
    with pytest.raises(RuntimeError, match="experiment has not been run, yet"):
        Tuner(steps).get_results()


@pytest.mark.parametrize("resume", [True, "AUTO", "AUTO+ERRORED", False])
def test_run_goes_on_with_a_search(search: Any, tmp_path: Path, resume: Any) -> None:
    shutil.copytree(search.experiment_path, tmp_path / "search")
    found = tune.run(
        steps,
        config={"a": tune.grid_search([1, 2])},
        name="search",
        storage_path=str(tmp_path),
        resume=resume,
        verbose=0,
    )
    assert len(found.trials) == 2
