"""Searches: the arguments of trials, their reports, the results."""

from __future__ import annotations

import json
import os
import pathlib
import tempfile

import pytest
import ray
from ray import tune
from ray.tune import Checkpoint, CheckpointConfig, FailureConfig

pytestmark = pytest.mark.usefixtures("cluster")


class Counting(tune.Trainable):
    def setup(self, config):
        self.count = 0
        self.by = config.get("by", 1)

    def step(self):
        self.count += self.by
        return {"count": self.count, "done": self.count >= 4 * self.by}

    def save_checkpoint(self, checkpoint_dir):
        return {"count": self.count}

    def load_checkpoint(self, checkpoint):
        self.count = checkpoint["count"]


def returning(config):
    return {"score": config.get("x", 0)}


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


def test_a_function_that_returns(fit):
    [result] = fit(returning, {"x": 3})
    assert result.metrics["score"] == 3
    assert result.error is None
    assert result.config == {"x": 3}


def test_what_is_added_to_a_result(fit):
    [result] = fit(reporting)
    found = set(result.metrics)
    assert found >= {
        "timestamp", "checkpoint_dir_name", "done", "training_iteration", "trial_id", "date", "time_this_iter_s",
        "time_total_s", "pid", "hostname", "node_ip", "config", "time_since_restore", "iterations_since_restore",
        "experiment_tag",
    }  # fmt: skip
    assert result.metrics["done"] is True
    assert result.metrics["training_iteration"] == 3
    assert result.metrics["nested"] == {"step": 2}


def test_a_generator(fit):
    def yielding(config):
        for step in range(2):
            yield {"step": step}

    [result] = fit(yielding)
    assert result.metrics["step"] == 1
    assert result.metrics["training_iteration"] == 2


def test_a_number_is_the_metric(fit):
    def number(config):
        return 5

    [result] = fit(number)
    assert result.metrics["_metric"] == 5


def test_a_function_that_reports_nothing(fit):
    def silent(config):
        pass

    [result] = fit(silent)
    assert result.error is None
    assert "training_iteration" not in result.metrics


def test_a_grid_and_samples(fit):
    results = fit(returning, {"x": tune.grid_search([1, 2]), "y": tune.uniform(0, 1)}, num_samples=2)
    assert sorted(result.config["x"] for result in results) == [1, 1, 2, 2]
    assert len({result.config["y"] for result in results}) == 4


def test_the_best(fit):
    results = fit(returning, {"x": tune.grid_search([3, 1, 2])}, metric="score", mode="min")
    assert results.get_best_result().config["x"] == 1
    assert results.get_best_result(mode="max").config["x"] == 3
    assert results.get_best_result("score", "max").metrics["score"] == 3


@pytest.mark.parametrize(("scope", "best"), [("last", 1), ("avg", 2), ("all", 2), ("last-5-avg", 2)])
def test_scopes(fit, scope, best):
    def moving(config):
        for value in {1: [0, 0, 9], 2: [10, 10, 8]}[config["x"]]:
            tune.report({"score": value})

    results = fit(moving, {"x": tune.grid_search([1, 2])}, metric="score", mode="max")
    assert results.get_best_result(scope=scope).config["x"] == best


def test_nan_is_not_the_best(fit):
    def maybe(config):
        return {"score": float("nan") if config["x"] == 1 else 0.5}

    results = fit(maybe, {"x": tune.grid_search([1, 2])}, metric="score", mode="max")
    assert results.get_best_result().config["x"] == 2


def test_tables(fit):
    results = fit(reporting, {"x": tune.grid_search([1, 2]), "deep": {"y": 5}}, metric="score", mode="max")
    table = results.get_dataframe()
    assert len(table) == 2
    assert {"score", "nested/step", "config/x", "config/deep/y", "training_iteration", "logdir"} <= set(
        table.columns
    )
    assert list(results[0].metrics_dataframe["nested/step"]) == [0, 1, 2]
    assert "config/x" in results[0].metrics_dataframe.columns


def test_a_table_of_the_best_results(fit):
    def falling(config):
        for value in (5, 9, 1):
            tune.report({"score": value})

    results = fit(falling, metric="score", mode="max")
    assert list(results.get_dataframe(filter_metric="score", filter_mode="max")["score"]) == [9]


def test_length_iteration_and_index(fit):
    results = fit(returning, {"x": tune.grid_search([1, 2, 3])})
    assert len(results) == 3
    assert [result.config["x"] for result in results] == [1, 2, 3]
    assert results[1].config["x"] == 2
    assert results.num_terminated == 3
    assert results.num_errors == 0
    assert results.errors == []


def test_files(fit, tmp_path):
    [result] = fit(saving)
    folder = pathlib.Path(result.path)
    assert folder.parent == tmp_path / "storage" / "search"
    names = {each.name for each in folder.iterdir()}
    assert {"params.json", "params.pkl", "progress.csv", "result.json"} <= names
    assert {"checkpoint_000000", "checkpoint_000001", "checkpoint_000002"} <= names
    assert any(name.startswith("events.out.tfevents") for name in names)
    assert (folder.parent / "tuner.pkl").exists()
    assert list(folder.parent.glob("experiment_state-*.json"))


def test_lines_of_results(fit):
    [result] = fit(reporting, {"x": 2})
    lines = pathlib.Path(result.path, "result.json").read_text().splitlines()
    assert [json.loads(line)["score"] for line in lines] == [0, 2, 4]
    assert json.loads(lines[0])["config"] == {"x": 2}
    assert json.loads(pathlib.Path(result.path, "params.json").read_text()) == {"x": 2}
    rows = pathlib.Path(result.path, "progress.csv").read_text().splitlines()
    assert len(rows) == 4
    assert "nested/step" in rows[0].split(",")


def test_the_name_of_a_trial_s_folder(fit):
    [result] = fit(returning, {"x": tune.grid_search([7])})
    name = pathlib.Path(result.path).name
    assert name.startswith(f"returning_{result.metrics['trial_id']}_0_x=7_")


def test_names_by_functions(fit):
    [result] = fit(
        returning,
        trial_name_creator=lambda trial: f"mine-{trial.config.get('x', 0)}",
        trial_dirname_creator=lambda trial: "folder",
    )
    assert pathlib.Path(result.path).name == "folder"


def test_a_trial_that_fails(fit):
    def failing(config):
        tune.report({"score": 1})
        raise ValueError("no good")

    results = fit(failing)
    assert results.num_errors == 1
    assert isinstance(results[0].error, ValueError)
    assert "no good" in str(results.errors[0])
    assert results[0].metrics["score"] == 1
    assert "no good" in pathlib.Path(results[0].path, "error.txt").read_text()


def test_the_others_go_on(fit):
    def picky(config):
        if config["x"] == 1:
            raise ValueError("no good")
        return {"score": config["x"]}

    results = fit(picky, {"x": tune.grid_search([1, 2])}, metric="score", mode="max")
    assert results.num_errors == 1
    assert results.get_best_result().config["x"] == 2


def test_a_trial_that_fails_starts_again_from_its_checkpoint(fit):
    [result] = fit(saving, {"fail_at": 1}, failure_config=FailureConfig(max_failures=1))
    assert result.error is None
    assert result.metrics["score"] == 2
    assert result.metrics["training_iteration"] == 3
    assert result.metrics["iterations_since_restore"] == 1


def test_fail_fast(fit):
    def failing(config):
        raise ValueError("no good")

    results = fit(
        failing, {"x": tune.grid_search(list(range(20)))}, failure_config=FailureConfig(fail_fast=True)
    )
    assert 1 <= results.num_errors < 20


def test_fail_fast_raises(fit):
    def failing(config):
        raise ValueError("no good")

    with pytest.raises(ValueError, match="no good"):
        fit(failing, failure_config=FailureConfig(fail_fast="raise"))


def test_checkpoints(fit):
    [result] = fit(saving)
    assert len(result.best_checkpoints) == 3
    with result.checkpoint.as_directory() as folder:
        assert pathlib.Path(folder, "step").read_text() == "2"
    assert result.metrics["checkpoint_dir_name"] == "checkpoint_000002"


def test_few_checkpoints_are_kept(fit):
    config = CheckpointConfig(num_to_keep=1, checkpoint_score_attribute="score", checkpoint_score_order="min")
    [result] = fit(saving, checkpoint_config=config)
    names = sorted(each.name for each in pathlib.Path(result.path).glob("checkpoint_*"))
    assert names == ["checkpoint_000000", "checkpoint_000002"]
    assert result.get_best_checkpoint("score", "min").path.endswith("checkpoint_000000")


def test_stop_by_a_dict(fit):
    [result] = fit(saving, {"steps": 10}, stop={"training_iteration": 2})
    assert result.metrics["training_iteration"] == 2


def test_stop_by_a_function(fit):
    [result] = fit(saving, {"steps": 10}, stop=lambda trial_id, result: result["score"] >= 3)
    assert result.metrics["score"] == 3


def test_stop_by_a_stopper(fit):
    from ray.tune.stopper import MaximumIterationStopper

    [result] = fit(saving, {"steps": 10}, stop=MaximumIterationStopper(4))
    assert result.metrics["training_iteration"] == 4


def test_done_ends_a_trial(fit):
    def endless(config):
        step = 0
        while True:
            step += 1
            tune.report({"step": step, "done": step == 3})

    [result] = fit(endless)
    assert result.metrics["step"] == 3


def test_time_budget(fit):
    def endless(config):
        import time

        while True:
            time.sleep(0.05)  # the work of the trial
            tune.report({"score": 1})

    results = fit(endless, {"x": tune.grid_search([1, 2])}, time_budget_s=2)
    assert results.num_errors == 0
    assert len(results) == 2


def test_a_class(fit):
    [result] = fit(Counting, {"by": 2})
    assert result.metrics["count"] == 8
    assert result.metrics["training_iteration"] == 4


def test_a_class_is_saved_as_often_as_was_said(fit):
    [result] = fit(Counting, checkpoint_config=CheckpointConfig(checkpoint_frequency=2))
    assert (
        sorted(each.name for each in pathlib.Path(result.path).glob("checkpoint_*"))[0] == "checkpoint_000000"
    )
    assert result.checkpoint is not None


def test_a_class_is_saved_at_its_end(fit):
    [result] = fit(Counting, checkpoint_config=CheckpointConfig(checkpoint_at_end=True))
    assert result.checkpoint is not None


def test_a_class_goes_on_after_a_failure(fit, tmp_path):
    class Failing(Counting):
        def step(self):
            found = super().step()
            mark = tmp_path / "failed"
            if self.count == 3 and not mark.exists():
                mark.touch()
                raise RuntimeError("once")
            return found

    [result] = fit(
        Failing,
        failure_config=FailureConfig(max_failures=1),
        checkpoint_config=CheckpointConfig(checkpoint_frequency=1),
    )
    assert result.error is None
    assert result.metrics["count"] == 4


def test_a_class_that_writes_its_checkpoint_into_the_folder(fit):
    class Writing(Counting):
        def save_checkpoint(self, checkpoint_dir):
            pathlib.Path(checkpoint_dir, "mine").write_text(str(self.count))

    [result] = fit(Writing, checkpoint_config=CheckpointConfig(checkpoint_frequency=1))
    with result.checkpoint.as_directory() as folder:
        assert pathlib.Path(folder, "mine").read_text() == "4"


def test_who_a_trial_is(fit):
    def requesting(config):
        context = tune.get_context()
        tune.report(
            {
                "id": context.get_trial_id(),
                "name": context.get_trial_name(),
                "experiment": context.get_experiment_name(),
                "dir": str(context.get_trial_dir()),
                "cpus": context.get_trial_resources().required_resources["CPU"],
            }
        )

    [result] = fit(requesting)
    found = result.metrics
    assert found["id"] == found["trial_id"]
    assert found["name"] == f"requesting_{found['trial_id']}"
    assert found["experiment"] == "search"
    assert found["cpus"] == 1


def test_parameters(fit):
    table = list(range(1000))

    def using(config, data, by):
        return {"total": sum(data) * by * config["x"]}

    [result] = fit(tune.with_parameters(using, data=table, by=2), {"x": 3})
    assert result.metrics["total"] == sum(table) * 6


def test_parameters_of_a_class(fit):
    class Using(tune.Trainable):
        def setup(self, config, data):
            self.data = data

        def step(self):
            return {"size": len(self.data), "done": True}

    [result] = fit(tune.with_parameters(Using, data=[1, 2, 3]))
    assert result.metrics["size"] == 3


def test_resources(fit):
    def requesting(config):
        found = tune.get_context().get_trial_resources().required_resources
        return {"cpus": found["CPU"]}

    [result] = fit(tune.with_resources(requesting, {"cpu": 2}))
    assert result.metrics["cpus"] == 2


def test_resources_by_a_function(fit):
    def requesting(config):
        return {"cpus": tune.get_context().get_trial_resources().required_resources["CPU"]}

    results = fit(
        tune.with_resources(requesting, lambda config: tune.PlacementGroupFactory([{"CPU": config["x"]}])),
        {"x": tune.grid_search([1, 2])},
    )
    assert [result.metrics["cpus"] for result in results] == [1, 2]


def test_a_placement_group(fit):
    def requesting(config):
        @ray.remote(num_cpus=1)
        def inner():
            return 7

        return {"found": ray.get(inner.remote())}

    [result] = fit(tune.with_resources(requesting, tune.PlacementGroupFactory([{"CPU": 1}, {"CPU": 1}])))
    assert result.error is None
    assert result.metrics["found"] == 7


def test_few_at_a_time(fit, tmp_path):
    def alone(config):
        mark = tmp_path / "running"
        mark.touch(exist_ok=False)
        tune.report({"score": 1})
        mark.unlink()

    results = fit(alone, {"x": tune.grid_search([1, 2, 3])}, max_concurrent_trials=1)
    assert results.num_errors == 0


def test_actors_are_used_again(fit):
    class Resetting(Counting):
        def reset_config(self, new_config):
            self.count = 0
            self.by = new_config.get("by", 1)
            return True

        def step(self):
            return {**super().step(), "process": os.getpid()}

    results = fit(Resetting, {"by": tune.grid_search([1, 2, 3])}, reuse_actors=True, max_concurrent_trials=1)
    assert [result.metrics["count"] for result in results] == [4, 8, 12]
    assert len({result.metrics["process"] for result in results}) == 1


def test_a_registered_trainable(fit):
    tune.register_trainable("by_name", returning)
    [result] = fit("by_name", {"x": 2})
    assert result.metrics["score"] == 2


def test_callbacks(fit):
    class Seeing(tune.Callback):
        def __init__(self):
            self.seen = []

        def setup(self, **info):
            self.seen.append("setup")

        def on_trial_start(self, iteration, trials, trial, **info):
            self.seen.append("start")

        def on_trial_result(self, iteration, trials, trial, result, **info):
            self.seen.append(result["score"])

        def on_trial_complete(self, iteration, trials, trial, **info):
            self.seen.append("complete")

        def on_experiment_end(self, trials, **info):
            self.seen.append("end")

    callback = Seeing()
    fit(reporting, callbacks=[callback])
    assert callback.seen == ["setup", "start", 0, 1, 2, "complete", "end"]
