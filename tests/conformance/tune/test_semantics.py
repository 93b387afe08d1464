"""Semantics of searches, numbered as in the inventory of Ray's interface (TUNE-1 to TUNE-14)."""

from __future__ import annotations

import inspect
import json
import pathlib
import tempfile

import pytest
import ray
from ray import tune
from ray.exceptions import RayTaskError
from ray.tune import Checkpoint, CheckpointConfig, FailureConfig, TuneError, Tuner
from ray.tune.schedulers import ASHAScheduler, PopulationBasedTraining

pytestmark = pytest.mark.usefixtures("cluster")


def returning(config):
    return {"score": config.get("x", 0)}


def counting(config):
    for step in range(config.get("steps", 3)):
        tune.report({"score": step})


def saved(step):
    """A checkpoint of a step, in a folder of its own."""
    folder = tempfile.mkdtemp()
    pathlib.Path(folder, "step").write_text(str(step))
    return Checkpoint.from_directory(folder)


def last_step():
    """The step that a trial continues from, -1 at its first start."""
    checkpoint = tune.get_checkpoint()
    if checkpoint is None:
        return -1
    with checkpoint.as_directory() as folder:
        return int(pathlib.Path(folder, "step").read_text())


class Counter(tune.Trainable):
    def setup(self, config):
        self.count = config.get("first", 0)

    def step(self):
        self.count += 1
        return {"count": self.count, "done": self.count == 3}

    def save_checkpoint(self, checkpoint_dir):
        pathlib.Path(checkpoint_dir, "count").write_text(str(self.count))

    def load_checkpoint(self, checkpoint):
        self.count = int(pathlib.Path(checkpoint, "count").read_text())


def test_tune_1_a_function_returns_or_reports(fit):
    [returned] = fit(returning, {"x": 3}, name="returns")
    assert (returned.metrics["score"], returned.config) == (3, {"x": 3})
    [reported] = fit(counting, name="reports")
    assert (reported.metrics["score"], reported.metrics["training_iteration"]) == (2, 3)


def test_tune_1_a_trial_holds_a_cpu_and_as_many_run_as_find_room(fit, tmp_path):
    def meeting(config):
        import time

        (tmp_path / str(config["x"])).touch()
        deadline = time.monotonic() + 60
        while len(list(tmp_path.glob("[01]"))) < 2:
            assert time.monotonic() < deadline, "the other trial runs at the same time"
            time.sleep(0.01)  # the other trial is a process that may still start
        return {"cpus": tune.get_context().get_trial_resources().required_resources}

    results = fit(meeting, {"x": tune.grid_search([0, 1])})
    assert [result.metrics["cpus"] for result in results] == [{"CPU": 1}] * 2


def test_tune_2_grids_are_crossed_and_samples_repeat_them(fit):
    space = {"a": tune.grid_search([1, 2]), "b": tune.grid_search([3, 4]), "c": tune.uniform(0, 1)}
    results = fit(lambda config: {"score": 1}, space, num_samples=2)
    found = [(result.config["a"], result.config["b"]) for result in results]
    assert sorted(found) == sorted([(1, 3), (1, 4), (2, 3), (2, 4)] * 2)
    assert len({result.config["c"] for result in results}) == 8


def test_tune_3_what_is_added_to_each_result(fit):
    [result] = fit(counting, {"steps": 2})
    assert set(result.metrics) >= {
        "timestamp", "checkpoint_dir_name", "done", "training_iteration", "trial_id", "date", "time_this_iter_s",
        "time_total_s", "pid", "hostname", "node_ip", "config", "time_since_restore", "iterations_since_restore",
        "experiment_tag",
    }  # fmt: skip


def test_tune_4_what_is_on_disk(fit):
    def failing(config):
        tune.report({"score": 1}, checkpoint=saved(0))
        raise ValueError("no good")

    results = fit(failing, {"x": tune.grid_search([7])})
    top = pathlib.Path(results.experiment_path)
    assert (top / "tuner.pkl").exists() and list(top.glob("experiment_state-*.json"))
    folder = pathlib.Path(results[0].path)
    assert folder.parent == top and folder.name.startswith("failing_") and "_x=7_" in folder.name
    names = {each.name.partition(".out.")[0] for each in folder.iterdir()}
    assert names >= {
        "params.json", "params.pkl", "progress.csv", "result.json", "events", "checkpoint_000000", "error.txt", "error.pkl",
    }  # fmt: skip
    assert json.loads((folder / "params.json").read_text()) == {"x": 7}


def test_tune_5_a_trial_that_fails_does_not_raise(fit):
    def failing(config):
        raise ValueError("no good")

    results = fit(failing)
    assert results.num_errors == len(results.errors) == 1
    assert isinstance(results[0].error, RayTaskError) and isinstance(results[0].error, ValueError)
    assert "no good" in str(results[0].error)


def test_tune_5_failures_may_be_followed_by_another_start(fit):
    def failing_once(config):
        first = last_step() + 1
        for step in range(first, 3):
            tune.report({"step": step}, checkpoint=saved(step))
            if first == 0 and step == 1:
                raise ValueError("once")

    [result] = fit(failing_once, failure_config=FailureConfig(max_failures=1))
    assert (result.error, result.metrics["step"], result.metrics["training_iteration"]) == (None, 2, 3)


def test_tune_6_the_best_result(fit):
    def moving(config):
        for value in {1: [0, 0, 9], 2: [10, 10, 8], 3: [float("nan")] * 3}[config["x"]]:
            tune.report({"score": value})

    results = fit(moving, {"x": tune.grid_search([1, 2, 3])})
    found = {
        scope: results.get_best_result("score", "max", scope).config["x"]
        for scope in ("last", "avg", "last-5-avg", "last-10-avg", "all")
    }
    assert found == {"last": 1, "avg": 2, "last-5-avg": 2, "last-10-avg": 2, "all": 2}


@pytest.mark.chosen_difference("a metric that nobody reports is no metric", id="D-tune-unknown-metric")
def test_tune_6_an_unknown_metric_is_refused(fit):
    results = fit(returning)
    with pytest.raises(ValueError, match="'scroe'.*reported are: score"):
        results.get_best_result("scroe", "max")


@pytest.mark.chosen_difference("modes are min and max", id="D-tune-unknown-metric")
def test_tune_6_another_mode_is_refused():
    with pytest.raises(ValueError, match="maximum"):
        tune.TuneConfig(metric="score", mode="maximum")


def test_tune_7_stopping(fit):
    [by_dict] = fit(counting, {"steps": 9}, name="dict", stop={"training_iteration": 2})
    assert by_dict.metrics["training_iteration"] == 2
    [by_function] = fit(
        counting, {"steps": 9}, name="function", stop=lambda trial, result: result["score"] >= 3
    )
    assert by_function.metrics["score"] == 3

    class Third(tune.Stopper):
        def __call__(self, trial_id, result):
            return result["training_iteration"] >= 3

        def stop_all(self):
            return False

    [by_stopper] = fit(counting, {"steps": 9}, name="stopper", stop=Third())
    assert by_stopper.metrics["training_iteration"] == 3


def test_tune_8_a_class(fit):
    [result] = fit(Counter, {"first": 1}, checkpoint_config=CheckpointConfig(checkpoint_frequency=1))
    assert (result.metrics["count"], result.metrics["training_iteration"], result.metrics["done"]) == (
        3,
        2,
        True,
    )
    with result.checkpoint.as_directory() as folder:
        assert pathlib.Path(folder, "count").read_text() == "3"


def test_tune_9_a_metric_that_a_scheduler_lacks_fails_the_search(fit):
    with pytest.raises(TuneError, match="loss"):
        fit(counting, metric="loss", mode="min", scheduler=ASHAScheduler())


def test_tune_10_restoring(fit, tmp_path):
    marks = tmp_path / "mended"

    def failing_until(config):
        if not marks.exists():
            raise ValueError("not yet")
        return {"score": 1}

    path = fit(failing_until).experiment_path
    marks.touch()
    assert Tuner.can_restore(path)
    assert Tuner.restore(path, failing_until).fit().num_errors == 1
    assert Tuner.restore(path, failing_until, resume_errored=True).fit().num_errors == 0
    assert not Tuner.can_restore(str(tmp_path / "nothing"))
    with pytest.raises(FileNotFoundError, match="tuner.pkl"):
        Tuner.restore(str(tmp_path / "nothing"), failing_until)


def test_tune_11_resources_are_of_what_with_resources_returns(fit):
    def requesting(config):
        return {"cpus": tune.get_context().get_trial_resources().required_resources["CPU"]}

    [result] = fit(tune.with_resources(requesting, {"cpu": 2}))
    assert result.metrics["cpus"] == 2


@pytest.mark.chosen_difference("the function itself asks for what it asked for", id="D-tune-with-resources")
def test_tune_11_the_function_stays_as_it_is(fit):
    before = dict(vars(returning))
    tune.with_resources(returning, {"gpu": 1})
    assert vars(returning) == before
    [result] = fit(returning, {"x": 1})
    assert result.metrics["score"] == 1


@pytest.mark.chosen_difference("what never finds room is said at once", id="D-tune-room")
def test_tune_11_what_never_finds_room_is_said_at_once(fit):
    with pytest.raises(TuneError, match=r"1 GPU \(the cluster has 0\)"):
        fit(tune.with_resources(returning, {"gpu": 1}))


@pytest.mark.chosen_difference("a trainer is a trainable", id="D-tune-trainers")
def test_tune_12_a_trainer_of_torch(fit):
    pytest.importorskip("torch")
    from ray.train.torch import TorchTrainer

    def loop(config):
        import torch.distributed

        total = torch.ones(1) * config["lr"]
        torch.distributed.all_reduce(total)
        ray.train.report({"score": float(total)})

    trainer = TorchTrainer(loop, scaling_config=ray.train.ScalingConfig(num_workers=2))
    space = {"train_loop_config": {"lr": tune.grid_search([1, 5])}}
    results = fit(trainer, space, metric="score", mode="max")
    assert results.errors == []
    assert results.get_best_result().metrics["score"] == 10


def test_tune_12_a_trainer_within_a_function(fit, tmp_path):
    import ray.train
    from trainers import DataParallelTrainer

    def inner(config):
        ray.train.report({"score": config["lr"]}, checkpoint=saved(0))

    def outer(config):
        trainer = DataParallelTrainer(
            inner,
            train_loop_config={"lr": config["lr"]},
            run_config=ray.train.RunConfig(storage_path=str(tmp_path / "train"), name=str(config["lr"])),
        )
        tune.report({"score": trainer.fit().metrics["score"]})

    results = fit(outer, {"lr": tune.grid_search([1, 5])}, max_concurrent_trials=1)
    assert results.errors == []
    assert [result.metrics["score"] for result in results] == [1, 5]


def test_tune_13_a_population_hands_checkpoints_on(fit):
    def growing(config):
        first = last_step() + 1
        for step in range(first, 6):
            tune.report({"score": config["rate"], "step": step, "first": first}, checkpoint=saved(step))

    scheduler = PopulationBasedTraining(
        time_attr="training_iteration", perturbation_interval=2, hyperparam_mutations={"rate": [1, 10]},
        resample_probability=0, synch=True,
    )  # fmt: skip
    space = {"rate": tune.grid_search([1, 10])}
    results = fit(growing, space, metric="score", mode="max", scheduler=scheduler)
    assert results.errors == []
    assert all(result.metrics["step"] == 5 for result in results)
    assert max(result.metrics["first"] for result in results) > 0, (
        "one has gone on from the other's checkpoint"
    )


def test_tune_13_defaults_of_populations():
    found = inspect.signature(PopulationBasedTraining).parameters
    checked = ("perturbation_interval", "quantile_fraction", "resample_probability", "perturbation_factors")
    assert [found[name].default for name in checked] == [60.0, 0.25, 0.25, (1.2, 0.8)]


def test_tune_14_defaults_of_asha(fit):
    scheduler = ASHAScheduler(metric="score", mode="max")
    [result] = fit(counting, {"steps": 200}, scheduler=scheduler)
    assert result.metrics["training_iteration"] == 100


def test_tune_14_one_in_four_goes_on(fit):
    order = list(range(8, 0, -1))
    scheduler = ASHAScheduler(max_t=16, grace_period=1, reduction_factor=4)

    def reporting(config):
        for _ in range(16):
            tune.report({"score": config["x"]})

    results = fit(
        reporting,
        {"x": tune.grid_search(order)},
        metric="score",
        mode="max",
        scheduler=scheduler,
        max_concurrent_trials=1,
    )
    # The best comes first, so all others are below the quarter that continues.
    assert [result.metrics["training_iteration"] for result in results] == [16] + [1] * 7
