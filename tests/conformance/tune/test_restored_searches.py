"""Searches that continue: the fate of failed and unfinished trials, and of arguments that are passed again."""

from __future__ import annotations

import os
import pathlib
import shutil
import tempfile

import pytest
from ray import tune
from ray.tune import Callback, Checkpoint, CheckpointConfig, FailureConfig, RunConfig, TuneConfig, Tuner
from ray.tune.schedulers import ASHAScheduler

pytestmark = pytest.mark.usefixtures("cluster")


def stepping(config):
    """Reports `steps` times and once more, continuing from its checkpoint; fails between if the marker is there."""
    at = 0
    checkpoint = tune.get_checkpoint()
    if checkpoint:
        with checkpoint.as_directory() as folder:
            at = int(pathlib.Path(folder, "at").read_text())
    for step in range(config.get("steps", 1) + 1):
        if step == config.get("steps", 1) and config.get("marker") and os.path.exists(config["marker"]):
            raise RuntimeError("asked to fail")
        at += 1
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "at").write_text(str(at))
            tune.report({"it": at}, checkpoint=Checkpoint.from_directory(folder))


def returning(config):
    return {"score": 1}


class Interrupting(Callback):
    """Ends the search from outside once so many trials have ended."""

    def __init__(self, ended):
        self.ended = ended

    def on_step_end(self, iteration, trials, **info):
        if sum(trial.status in ("TERMINATED", "ERROR") for trial in trials) >= self.ended:
            raise ConnectionError("asked to end the search")


@pytest.fixture
def marker(tmp_path):
    path = tmp_path / "marker"
    path.write_text("")
    return path


@pytest.fixture
def search(tmp_path):
    def make(trainable, space=None, **given):
        of_run = {key: given.pop(key) for key in list(given) if key in RunConfig.__dataclass_fields__}
        return Tuner(
            trainable,
            param_space=space,
            tune_config=TuneConfig(**given),
            run_config=RunConfig(name="search", storage_path=str(tmp_path / "storage"), verbose=0, **of_run),
        )

    return make


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "storage" / "search")


def its(results):
    return [result.metrics.get("it") for result in results]


def test_a_search_that_has_ended_has_the_same_trials_when_it_is_restored(search, path):
    assert len(search(returning, num_samples=4).fit()) == 4
    tuner = Tuner.restore(path, trainable=returning)
    assert len(tuner.get_results()) == 4
    assert [result.metrics["score"] for result in tuner.fit()] == [1] * 4


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"resume_errored": True}, [2, 3, 2, 3]),
        ({"restart_errored": True}, [2, 2, 2, 2]),
        ({"resume_errored": True, "restart_errored": True}, [2, 3, 2, 3]),
    ],
)
def test_trials_that_failed_go_on_or_start_anew(search, path, marker, given, expected):
    space = {"marker": tune.grid_search([None, str(marker), None, str(marker)])}
    results = search(stepping, space).fit()
    assert sorted(its(results)) == [1, 1, 2, 2]
    assert len(results.errors) == 2
    marker.unlink()
    tuner = Tuner.restore(path, trainable=stepping, **given)
    assert sorted(its(tuner.get_results())) == [1, 1, 2, 2]
    results = tuner.fit()
    assert results.errors == []
    assert sorted(its(results)) == sorted(expected)


def test_trials_that_failed_are_left_by_default(search, path, marker):
    search(stepping, {"marker": str(marker)}).fit()
    marker.unlink()
    results = Tuner.restore(path, trainable=stepping).fit()
    assert len(results.errors) == 1
    assert its(results) == [1]


def test_trials_that_had_not_ended_go_on(tmp_path):
    given = {
        "name": "search", "storage_path": str(tmp_path), "config": {"n": tune.grid_search([0, 1, 2])}, "verbose": 0,
        "max_concurrent_trials": 1,
    }  # fmt: skip
    with pytest.raises(Exception, match="asked to end the search"):
        tune.run(stepping, callbacks=[Interrupting(1)], **given)
    analysis = tune.run(stepping, resume="AUTO", **given)
    assert sorted(trial.last_result["it"] for trial in analysis.trials) == [2, 2, 2]
    assert {trial.status for trial in analysis.trials} == {"TERMINATED"}


@pytest.mark.chosen_difference(
    "what is whole of the checkpoints is gone on from", id="D-tune-checkpoint-gone"
)
def test_what_is_left_of_the_checkpoints_is_gone_on_from(search, path, marker):
    [result] = search(stepping, {"marker": str(marker), "steps": 4}).fit()
    assert result.metrics["it"] == 4
    marker.unlink()
    for number in (2, 3):
        shutil.rmtree(os.path.join(result.path, f"checkpoint_{number:06d}"))
    tuner = Tuner.restore(path, trainable=stepping, resume_errored=True)
    [result] = tuner.fit()
    assert result.error is None
    assert result.metrics["it"] == 7


def test_a_trainable_of_another_name_is_refused(search, path):
    search(returning).fit()

    def another(config):
        return {"score": 2}

    with pytest.raises(ValueError):
        Tuner.restore(path, trainable=another)


def test_a_trainable_of_another_kind_is_refused(search, path):
    search(returning).fit()
    tune.register_trainable("another_kind", returning)
    with pytest.raises(ValueError):
        Tuner.restore(path, trainable="another_kind")


def test_the_code_of_a_trainable_may_change(search, path):
    def changing(config):
        raise RuntimeError("not yet")

    assert len(search(changing).fit().errors) == 1

    def changing(config):
        return {"score": 3}

    [result] = Tuner.restore(path, trainable=changing, resume_errored=True).fit()
    assert result.error is None
    assert result.metrics["score"] == 3


def test_parameters_are_given_anew(search, path, marker):
    def needing(config, data=None):
        assert data is not None
        if os.path.exists(config["marker"]):
            raise RuntimeError("asked to fail")
        return {"size": len(data)}

    assert search(tune.with_parameters(needing, data=[1, 2]), {"marker": str(marker)}).fit().errors
    marker.unlink()
    again = tune.with_parameters(needing, data=[1, 2, 3])
    [result] = Tuner.restore(path, trainable=again, resume_errored=True).fit()
    assert result.metrics["size"] == 3


@pytest.mark.parametrize("by_tuner", [True, False])
def test_a_search_that_was_moved_goes_on_where_it_is(search, path, tmp_path, marker, by_tuner):
    keep = CheckpointConfig(num_to_keep=2)
    search(stepping, {"marker": str(marker)}, checkpoint_config=keep).fit()
    shutil.move(str(tmp_path / "storage"), str(tmp_path / "moved"))
    os.rename(tmp_path / "moved" / "search", tmp_path / "moved" / "other")
    marker.unlink()
    if by_tuner:
        results = Tuner.restore(str(tmp_path / "moved" / "other"), stepping, resume_errored=True).fit()
    else:
        analysis = tune.run(
            stepping, name="other", storage_path=str(tmp_path / "moved"), resume="AUTO+ERRORED", verbose=0,
            config={"marker": str(marker)}, checkpoint_config=keep,
        )  # fmt: skip
        results = tune.ResultGrid(analysis)
    assert its(results) == [3]
    assert results[0].path.startswith(str(tmp_path / "moved" / "other"))
    assert sorted(each for each in os.listdir(results[0].path) if each.startswith("checkpoint_")) == [
        "checkpoint_000001", "checkpoint_000002",
    ]  # fmt: skip
    assert not (tmp_path / "storage").exists()


def test_checkpoints_are_counted_on(search, path, marker):
    search(
        stepping, {"marker": str(marker), "steps": 2}, checkpoint_config=CheckpointConfig(num_to_keep=4)
    ).fit()
    marker.unlink()
    [result] = Tuner.restore(path, trainable=stepping, resume_errored=True).fit()
    assert result.metrics["it"] == 5
    assert result.metrics["training_iteration"] == 5
    assert result.metrics["iterations_since_restore"] == 3
    kept = sorted(each for each in os.listdir(result.path) if each.startswith("checkpoint_"))
    assert kept == [f"checkpoint_{number:06d}" for number in (1, 2, 3, 4)]


def test_searches_can_be_restored_from_their_own_folder_alone(search, path, tmp_path):
    assert not Tuner.can_restore(path)
    [result] = search(returning).fit()
    assert Tuner.can_restore(path)
    assert Tuner.can_restore(pathlib.Path(path))
    assert not Tuner.can_restore(result.path)
    assert not Tuner.can_restore(tmp_path)
    assert not Tuner.can_restore(str(tmp_path / "storage" / "other"))


def test_a_search_can_be_restored_as_soon_as_there_is_a_tuner(search, path):
    search(returning)
    assert Tuner.can_restore(path)


def test_restore_is_no_method_of_an_instance(search, path):
    with pytest.raises(AttributeError, match="is a classmethod and cannot be called on an instance"):
        search(returning).restore(path, returning)


def test_nothing_to_restore(tmp_path):
    with pytest.raises(FileNotFoundError):
        Tuner.restore(str(tmp_path / "nowhere"), trainable=returning)


class Data:
    def __init__(self, name):
        self.name = name


def test_a_space_that_is_given_anew_reaches_trials_that_are_there(search, path):
    def failing(config):
        raise RuntimeError("not yet")

    results = search(failing, {"data": tune.grid_search([Data("a"), Data("b")]), "more": Data("c")}).fit()
    assert len(results.errors) == 2

    def failing(config):
        return {"names": config["data"].name + config["more"].name}

    again = {"data": tune.grid_search([Data("d"), Data("e")]), "more": Data("f")}
    results = Tuner.restore(path, failing, param_space=again, resume_errored=True).fit()
    assert sorted(result.metrics["names"] for result in results) == ["df", "ef"]
    assert sorted(result.config["data"].name for result in results) == ["d", "e"]


def test_a_scheduler_goes_on_with_the_search(search, path, marker):
    results = search(
        stepping,
        {"marker": str(marker)},
        scheduler=ASHAScheduler(grace_period=1, max_t=50),
        metric="it",
        mode="max",
    ).fit()
    assert its(results) == [1]
    marker.unlink()
    results = Tuner.restore(path, trainable=stepping, resume_errored=True).fit()
    assert its(results) == [3]
    assert results.get_best_result().metrics["it"] == 3


def test_a_study_of_optuna_goes_on_with_a_trial_that_failed(search, path, marker):
    pytest.importorskip("optuna", reason="Optuna is not installed")
    from ray.tune.search.optuna import OptunaSearch

    space = {"x": tune.uniform(0, 1), "marker": str(marker)}
    given = {"metric": "it", "mode": "max", "num_samples": 2}
    searcher = OptunaSearch(seed=1)
    results = search(stepping, space, search_alg=searcher, **given).fit()
    assert (its(results), len(results.errors)) == ([1, 1], 2)
    assert len(searcher._ot_study.trials) == 2, "programs plot the study"
    marker.unlink()
    results = Tuner.restore(path, trainable=stepping, resume_errored=True).fit()
    assert results.errors == []
    assert its(results) == [3, 3]


def test_failures_are_counted_anew(search, path, marker):
    given = {"failure_config": FailureConfig(max_failures=1)}
    [result] = search(stepping, {"marker": str(marker)}, **given).fit()
    assert result.error is not None
    marker.unlink()
    [result] = Tuner.restore(path, trainable=stepping, resume_errored=True).fit()
    assert result.error is None


@pytest.mark.parametrize("resume", [True, "AUTO", "AUTO+ERRORED", "AUTO+RESTART_ERRORED"])
def test_resume_of_nothing_begins(tmp_path, resume):
    analysis = tune.run(returning, name="fresh", storage_path=str(tmp_path), resume=resume, verbose=0)
    assert [trial.status for trial in analysis.trials] == ["TERMINATED"]
