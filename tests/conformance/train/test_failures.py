"""Workers that fail, runs that start again, and arguments that cannot be."""

from __future__ import annotations

import os
import signal
import time

import pytest
import ray
from ray import train
from ray.train import Checkpoint, FailureConfig, RunConfig, ScalingConfig
from trainers import DataParallelTrainer

pytestmark = pytest.mark.usefixtures("cluster")


def trainer(function, tmp_path, workers=2, failures=0, config=None):
    return DataParallelTrainer(
        function,
        train_loop_config=config,
        scaling_config=ScalingConfig(num_workers=workers),
        run_config=RunConfig(
            name="run",
            storage_path=str(tmp_path / "storage"),
            failure_config=FailureConfig(max_failures=failures),
        ),
    )


def test_failure_of_a_rank_is_the_run_s(tmp_path):
    def loop():
        if train.get_context().get_world_rank() == 1:
            raise KeyError("the one")

    with pytest.raises(train.TrainingFailedError, match="the one") as caught:
        trainer(loop, tmp_path).fit()
    assert isinstance(caught.value, train.WorkerGroupError)
    assert set(caught.value.worker_failures) == {1}
    assert "the one" in str(caught.value.worker_failures[1])


@pytest.mark.chosen_difference("failures are caught by their own type", id="D-train-types")
def test_failures_have_their_own_type(tmp_path):
    def loop():
        raise KeyError("x")

    with pytest.raises(train.WorkerGroupError) as caught:
        trainer(loop, tmp_path, workers=1).fit()
    assert isinstance(caught.value.worker_failures[0], KeyError)


@pytest.mark.chosen_difference(
    "the rank that failed first is told first, with where the others hung", id="D-train-first"
)
def test_rank_that_hangs_is_told_with_its_stack(tmp_path):
    def wait_for_ever():
        time.sleep(1000)  # it is what hangs

    def loop():
        if train.get_context().get_world_rank() == 0:
            wait_for_ever()
        raise ValueError("first to fail")

    with pytest.raises(train.WorkerGroupError) as caught:
        trainer(loop, tmp_path).fit()
    text = str(caught.value)
    assert (
        text.index("rank 1 of 2 failed first")
        < text.index("first to fail")
        < text.index("rank 0 was still running")
    )
    assert "in wait_for_ever" in text


def test_run_starts_again_from_its_last_checkpoint(tmp_path):
    def loop(config):
        found = train.get_checkpoint()
        start = 0
        if found is not None:
            with found.as_directory() as folder, open(f"{folder}/step") as file:
                start = int(file.read()) + 1
        with open(config["notes"], "a") as file:
            file.write(f"{start} ")
        for step in range(start, 4):
            folder = f"{config['at']}/{start}-{step}"
            os.makedirs(folder)
            with open(f"{folder}/step", "w") as file:
                file.write(str(step))
            train.report({"step": step}, checkpoint=Checkpoint.from_directory(folder))
            if step == 1 and start == 0:
                raise RuntimeError("once")

    config = {"notes": str(tmp_path / "notes"), "at": str(tmp_path)}
    result = trainer(loop, tmp_path, workers=1, failures=1, config=config).fit()
    assert (tmp_path / "notes").read_text() == "0 2 "
    assert result.metrics == {"step": 3}


@pytest.mark.parametrize("allowed", [0, 1, 2])
def test_number_of_failures_is_bounded(tmp_path, allowed):
    def loop(config):
        with open(config["notes"], "a") as file:
            file.write("x")
        raise RuntimeError("again")

    with pytest.raises(train.TrainingFailedError, match="again"):
        trainer(loop, tmp_path, workers=1, failures=allowed, config={"notes": str(tmp_path / "notes")}).fit()
    assert (tmp_path / "notes").read_text() == "x" * (allowed + 1)


@pytest.mark.parametrize("how", ["SIGKILL", "exit"])
def test_worker_that_dies_is_a_failure(tmp_path, how):
    def loop(config):
        if train.get_context().get_world_rank() == 0 and not os.path.exists(config["mark"]):
            open(config["mark"], "w").close()
            if how == "exit":
                os._exit(7)
            os.kill(os.getpid(), signal.SIGKILL)
        return "well"

    config = {"mark": str(tmp_path / "mark")}
    assert trainer(loop, tmp_path, failures=1, config=config).fit().return_value == "well"
    os.unlink(tmp_path / "mark")
    with pytest.raises(train.TrainingFailedError):
        trainer(loop, tmp_path / "other", failures=0, config=config).fit()


def test_run_of_the_same_name_goes_on(tmp_path):
    def loop(config):
        found = train.get_checkpoint()
        folder = f"{config['at']}/{config['n']}"
        os.makedirs(folder)
        train.report({"n": config["n"]}, checkpoint=Checkpoint.from_directory(folder))
        return None if found is None else os.path.basename(found.path)

    first = trainer(loop, tmp_path, workers=1, config={"at": str(tmp_path), "n": 1}).fit()
    assert first.return_value is None
    second = trainer(loop, tmp_path, workers=1, config={"at": str(tmp_path), "n": 2}).fit()
    assert second.return_value == os.path.basename(first.checkpoint.path)
    assert second.checkpoint.path != first.checkpoint.path


def test_resources_are_free_after_a_failure(tmp_path):
    def loop():
        raise ValueError("x")

    with pytest.raises(train.TrainingFailedError):
        trainer(loop, tmp_path).fit()

    @ray.remote(num_cpus=2)
    def all_of_it():
        return 1

    assert ray.get(all_of_it.remote(), timeout=30) == 1


def test_callback_is_told_of_failures(tmp_path):
    class Notes(train.UserCallback):
        def after_exception(self, run_context, worker_exceptions):
            (tmp_path / "notes").write_text(repr(sorted(worker_exceptions)))

    def loop():
        if train.get_context().get_world_rank() == 1:
            raise ValueError("x")

    with pytest.raises(train.TrainingFailedError):
        DataParallelTrainer(
            loop,
            scaling_config=ScalingConfig(num_workers=2),
            run_config=RunConfig(name="run", storage_path=str(tmp_path / "s"), callbacks=[Notes()]),
        ).fit()
    assert (tmp_path / "notes").read_text() == "[1]"


@pytest.mark.chosen_difference("what cannot be is said at once", id="D-train-room")
def test_more_workers_than_the_cluster_can_hold(tmp_path):
    with pytest.raises(ValueError, match=r"5 workers with 1 CPU each.*cluster has 2 CPU.*room for 2"):
        trainer(lambda: None, tmp_path, workers=5).fit()
    with pytest.raises(ValueError, match="no node has 1 GPU"):
        DataParallelTrainer(lambda: None, scaling_config=ScalingConfig(num_workers=1, use_gpu=True)).fit()


@pytest.mark.chosen_difference(
    "ranks that disagree on the number of reports end with an error", id="D-train-late"
)
def test_rank_that_returns_without_a_report_the_others_wait_in(tmp_path):
    def loop():
        if train.get_context().get_world_rank() == 0:
            train.report({"a": 1})

    with pytest.raises(
        train.WorkerGroupError, match=r"rank 0 waits in report\(\) number 1, which rank 1 never reached"
    ):
        trainer(loop, tmp_path).fit()


@pytest.mark.parametrize(
    ("metrics", "words"),
    [
        (3, "metrics must be a dict"),
        ({1: 2}, "must be strings"),
        ({"a": {"b": object()}}, "'a/b' is a object"),
    ],
)
@pytest.mark.chosen_difference("metrics that a journal cannot hold are refused", id="D-train-metrics")
def test_metrics_that_cannot_be_reported(tmp_path, metrics, words):
    def loop():
        train.report(metrics)

    with pytest.raises(TypeError, match=words):
        raise trainer_failure(loop, tmp_path)


def trainer_failure(loop, tmp_path):
    with pytest.raises(train.WorkerGroupError) as caught:
        trainer(loop, tmp_path, workers=1).fit()
    return caught.value.worker_failures[0]


@pytest.mark.chosen_difference("metrics of numpy types are kept", id="D-train-metrics")
def test_metrics_of_numpy_and_nested(tmp_path):
    import numpy as np

    def loop():
        folder = f"{tmp_path}/c"
        os.makedirs(folder)
        metrics = {"a": np.float32(0.5), "b": {"c": np.int64(3)}, "d": [1, 2]}
        train.report(metrics, checkpoint=Checkpoint.from_directory(folder))

    found = trainer(loop, tmp_path, workers=1).fit().metrics
    assert found["a"] == 0.5 and found["b"]["c"] == 3 and list(found["d"]) == [1, 2]


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (lambda: ScalingConfig(num_workers=1, resources_per_worker={"GPU": 1}), ValueError),
        (lambda: ScalingConfig(num_workers="2"), ValueError),
        (lambda: RunConfig(stop={"a": 1}), DeprecationWarning),
        (lambda: FailureConfig(fail_fast=True), DeprecationWarning),
        (lambda: Checkpoint.from_directory("/nowhere/at/all").to_directory(), Exception),
    ],
)
def test_settings_that_cannot_be(make, kind):
    with pytest.raises(kind):
        make()


def test_function_of_two_arguments_is_refused(tmp_path):
    with pytest.raises(ValueError):
        trainer(lambda a, b: None, tmp_path).fit()


@pytest.mark.parametrize("name", ["restore", "can_restore"])
def test_restore_says_what_took_its_place(name):
    with pytest.raises(DeprecationWarning):
        getattr(DataParallelTrainer, name)("/some/path")
