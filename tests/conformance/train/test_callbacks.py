"""UserCallback: its notifications and their order, and the end of a run whose callback raises."""

from __future__ import annotations

import json
import os
import tempfile

import pytest
import ray
from ray import train
from ray.train import Checkpoint, FailureConfig, RunConfig, ScalingConfig, UserCallback

try:  # Ray keeps the trainer that its RunConfig is for here; the name everybody knows is that of the one before it
    from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer
except ImportError:
    from ray.train.data_parallel_trainer import DataParallelTrainer

pytestmark = pytest.mark.usefixtures("cluster")


class Recorder(UserCallback):
    """Writes a line for each call; it may run in another process."""

    def __init__(self, path, name="recorder"):
        self.path = str(path)
        self.name = name

    def write(self, **what):
        with open(self.path, "a") as file:
            file.write(json.dumps({"who": self.name, **what}) + "\n")

    def after_report(self, run_context, metrics, checkpoint):
        self.write(
            hook="report",
            run=run_context.get_run_config().name,
            config=run_context.train_loop_config,
            metrics=metrics,
            files=sorted(os.listdir(checkpoint.path)) if checkpoint is not None else None,
        )

    def after_exception(self, run_context, worker_exceptions):
        self.write(
            hook="exception",
            ranks=sorted(worker_exceptions),
            texts=[str(error) for error in worker_exceptions.values()],
        )


class Raising(UserCallback):
    def __init__(self, hook):
        self.hook = hook

    def after_report(self, run_context, metrics, checkpoint):
        if self.hook == "report":
            raise ZeroDivisionError("from the callback")

    def after_exception(self, run_context, worker_exceptions):
        if self.hook == "exception":
            raise ZeroDivisionError("from the callback")


class Nothing(UserCallback):
    pass


def reports_in(path):
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def no_callback():
    pass


@pytest.fixture
def fit(tmp_path):
    def run(function, callbacks, workers=1, failures=0, **given):
        return DataParallelTrainer(
            function,
            scaling_config=ScalingConfig(num_workers=workers),
            run_config=RunConfig(
                name="told",
                storage_path=str(tmp_path / "storage"),
                callbacks=callbacks,
                failure_config=FailureConfig(max_failures=failures),
            ),
            **given,
        ).fit()

    return run


def reporting():
    rank = train.get_context().get_world_rank()
    for step in range(2):
        train.report({"rank": rank, "step": step})


def test_a_report_is_told_with_the_metrics_of_all_ranks(fit, tmp_path):
    fit(reporting, [Recorder(tmp_path / "told")], workers=2)
    assert [each["metrics"] for each in reports_in(tmp_path / "told")] == [
        [{"rank": 0, "step": 0}, {"rank": 1, "step": 0}],
        [{"rank": 0, "step": 1}, {"rank": 1, "step": 1}],
    ]


def test_a_report_without_a_checkpoint_is_told_none(fit, tmp_path):
    fit(reporting, [Recorder(tmp_path / "told")])
    assert [each["files"] for each in reports_in(tmp_path / "told")] == [None, None]


def test_a_checkpoint_is_told_where_it_is_kept(fit, tmp_path):
    def loop():
        with tempfile.TemporaryDirectory() as folder:
            with open(f"{folder}/weights", "w") as file:
                file.write("1")
            train.report({}, checkpoint=Checkpoint.from_directory(folder))

    fit(loop, [Recorder(tmp_path / "told")])
    (only,) = reports_in(tmp_path / "told")
    assert "weights" in only["files"]


def test_the_context_has_the_run_and_its_config(fit, tmp_path):
    def loop(config):
        train.report({"x": config["x"]})

    fit(loop, [Recorder(tmp_path / "told")], train_loop_config={"x": 3})
    (only,) = reports_in(tmp_path / "told")
    assert (only["run"], only["config"]) == ("told", {"x": 3})


def test_callbacks_are_told_in_their_order(fit, tmp_path):
    path = tmp_path / "told"
    fit(reporting, [Recorder(path, "first"), Nothing(), Recorder(path, "second")])
    assert [each["who"] for each in reports_in(path)] == ["first", "second"] * 2


def test_a_failure_is_told_with_its_rank(fit, tmp_path):
    def loop():
        if train.get_context().get_world_rank() == 1:
            raise ValueError("rank one is broken")
        train.collective.barrier()

    with pytest.raises(train.TrainingFailedError):
        fit(loop, [Recorder(tmp_path / "told")], workers=2)
    first = reports_in(tmp_path / "told")[0]
    assert first["hook"] == "exception"
    assert 1 in first["ranks"]
    assert any("rank one is broken" in text for text in first["texts"])


def test_each_failure_of_a_run_that_goes_on_is_told(fit, tmp_path):
    def loop(config):
        if len(os.listdir(config["tries"])) < 2:
            with tempfile.NamedTemporaryFile(dir=config["tries"], delete=False):
                raise OSError("not yet")
        train.report({"done": 1})

    (tmp_path / "tries").mkdir()
    fit(
        loop,
        [Recorder(tmp_path / "told")],
        failures=2,
        train_loop_config={"tries": str(tmp_path / "tries")},
    )
    assert [each["hook"] for each in reports_in(tmp_path / "told")] == ["exception", "exception", "report"]


def test_a_run_that_goes_well_is_told_no_exception(fit, tmp_path):
    fit(reporting, [Recorder(tmp_path / "told")], workers=2)
    assert {each["hook"] for each in reports_in(tmp_path / "told")} == {"report"}


@pytest.mark.parametrize("hook", ["report", "exception"])
def test_a_callback_that_raises_ends_the_run(fit, hook):
    def loop():
        train.report({"step": 0})
        raise OSError("from the worker")

    with pytest.raises(train.ControllerError, match="from the callback") as caught:
        fit(loop, [Raising(hook)])
    assert isinstance(caught.value.controller_failure, ZeroDivisionError)


def test_a_callback_that_raises_is_not_tried_again(fit, tmp_path):
    with pytest.raises(train.TrainingFailedError):
        fit(reporting, [Recorder(tmp_path / "told"), Raising("report")], failures=3)
    assert len(reports_in(tmp_path / "told")) == 1


def test_callbacks_after_the_one_that_raises_are_not_told(fit, tmp_path):
    with pytest.raises(train.ControllerError):
        fit(reporting, [Raising("report"), Recorder(tmp_path / "told")])
    assert reports_in(tmp_path / "told") == []


@pytest.mark.parametrize("callback", [object(), print, Nothing])
def test_what_is_no_callback_is_refused(callback):
    with pytest.raises(ValueError, match="UserCallback"):
        RunConfig(callbacks=[callback])


def test_hooks_that_are_not_overridden_do_nothing():
    callback = UserCallback()
    assert callback.after_report(run_context=None, metrics=[], checkpoint=None) is None
    assert callback.after_exception(run_context=None, worker_exceptions={}) is None
    assert ray.train.UserCallback is UserCallback


@pytest.mark.parametrize(
    ("path", "cause"),
    [
        (f"{__name__}.no_callback", TypeError),
        (f"{__name__}.Missing", AttributeError),
        ("missing_package.Callback", ImportError),
        ("nameless", ValueError),
    ],
)
def test_callbacks_of_the_environment_that_cannot_be_made(fit, monkeypatch, path, cause):
    monkeypatch.setenv("RAY_TRAIN_CALLBACKS", f" ,{path}")
    with pytest.raises(ValueError, match=f"Failed to import callback from '{path}'") as raised:
        fit(reporting, [])
    assert isinstance(raised.value.__cause__, cause)
