"""Arguments that a search rejects, with their errors; and those it ignores."""

from __future__ import annotations

import os
import warnings

import pytest
from ray import tune
from ray.tune import CheckpointConfig, RunConfig, TuneConfig, TuneError, Tuner

pytestmark = pytest.mark.usefixtures("cluster")


def scoring(config):
    return {"score": config.get("x", 0)}


def nesting(config):
    for step in range(6):
        tune.report({"a": {"b": step}})


OFTEN, AT_END = CheckpointConfig(checkpoint_frequency=1), CheckpointConfig(checkpoint_at_end=True)


class Counting(tune.Trainable):
    def setup(self, config):
        self.count = 0

    def step(self):
        self.count += 1
        return {"loss": abs(3 - self.count), "done": self.count >= 5}

    def save_checkpoint(self, checkpoint_dir):
        return {"count": self.count}

    def load_checkpoint(self, checkpoint):
        self.count = checkpoint["count"]


@pytest.fixture
def run(tmp_path):
    return lambda what, **given: tune.run(what, storage_path=str(tmp_path), verbose=0, **given)


@pytest.mark.parametrize(
    ("what", "given", "error", "phrase"),
    [
        (5, {}, TuneError, "Improper 'run' - not string nor trainable"),
        (None, {}, TuneError, "Improper 'run'"),
        ("nobody_has_this_name", {}, TuneError, "Unknown trainable: nobody_has_this_name"),
        (lambda: 1, {}, ValueError, "Unknown argument found in the Trainable function"),
        (lambda a, b: 1, {}, ValueError, "must include a single 'config' positional parameter"),
        (scoring, {"stop": 5}, ValueError, "Invalid stop criteria"),
        (scoring, {"stop": "x"}, ValueError, "Invalid stop criteria"),
        (scoring, {"stop": [1]}, ValueError, "each element must be an instance of|each element of the list must be"),
        (scoring, {"stop": lambda one: True}, TuneError, None),
        (scoring, {"stop": {"score": "x"}}, TuneError, None),
        (scoring, {"config": 5}, ValueError, "must be a dict. Got"),
        (scoring, {"metric": "score", "mode": "x"}, ValueError, "must be one of \\['min', 'max'\\]"),
        (scoring, {"scheduler": "best"}, ValueError, "must be one of"),
        (scoring, {"local_dir": "/tmp"}, DeprecationWarning, "`local_dir` argument is deprecated"),
        (scoring, {"checkpoint_config": OFTEN}, ValueError, "cannot be set for a function trainable"),
        (scoring, {"checkpoint_config": AT_END}, ValueError, "cannot be used with a function trainable"),
    ],
)  # fmt: skip
def test_run_refuses(run, what, given, error, phrase):
    if "local_dir" in given:
        with pytest.raises(error, match=phrase):
            tune.run(what, verbose=0, **given)
        return
    with pytest.raises(error, match=phrase):
        run(what, **given)


@pytest.mark.parametrize(
    ("experiments", "phrase"),
    [
        (
            {"foo": {"run": scoring, "unknown": 1}},
            "Failed to load the following Tune experiment specification",
        ),
        ({"foo": {"config": {}}}, "No trainable specified"),
        (5, "Invalid argument"),
        ([5], "Invalid argument"),
    ],
)
def test_run_experiments_refuses(experiments, phrase):
    with pytest.raises(TuneError, match=phrase):
        tune.run_experiments(experiments)


def test_a_tuner_needs_a_trainable():
    with pytest.raises(TuneError, match="You need to provide a trainable"):
        Tuner(None)


def test_results_of_a_search_that_has_not_run(tmp_path):
    with pytest.raises(RuntimeError, match="Can't return results as experiment has not been run"):
        Tuner(scoring, run_config=RunConfig(storage_path=str(tmp_path))).get_results()


def test_a_space_is_a_dict(tmp_path):
    with pytest.raises(ValueError, match="must be a dict"):
        Tuner(scoring, param_space=5, run_config=RunConfig(storage_path=str(tmp_path), verbose=0)).fit()


@pytest.mark.parametrize("stop", [{"done": True}, {"nobody_reports_this": 1}, {"score": 0}])
def test_what_ends_a_trial_may_be_true_or_missing(run, stop):
    [trial] = run(scoring, stop=stop).trials
    assert trial.status == "TERMINATED"


def test_a_nested_metric_ends_a_trial_by_its_flat_name(run):
    [trial] = run(nesting, stop={"a/b": 3}).trials
    assert trial.last_result["training_iteration"] == 4


def test_a_nested_dict_of_bounds_is_taken(run):
    [trial] = run(nesting, stop={"a": {"b": 3}}).trials
    assert trial.status == "TERMINATED"


@pytest.mark.chosen_difference("nested bounds end a trial, instead of being ignored", id="D-tune-nested-stop")
def test_a_nested_dict_of_bounds_ends_a_trial(run):
    [trial] = run(nesting, stop={"a": {"b": 3}}).trials
    assert trial.last_result["training_iteration"] == 4


def test_a_metric_that_comes_late_ends_the_trial_once_it_is_there(run):
    def late(config):
        for step in range(8):
            tune.report({"step": step, **({"accuracy": step} if step % 3 == 2 else {})})

    [trial] = run(late, stop={"accuracy": 5}).trials
    assert trial.last_result["step"] == 5


@pytest.mark.parametrize("mode", ["max", "min"])
def test_a_number_without_a_name_is_the_metric_of_a_mode(run, mode):
    analysis = run(lambda config: config["x"], config={"x": tune.grid_search([1, 3])}, mode=mode)
    assert analysis.default_metric == "_metric"
    assert analysis.best_config == {"x": 3 if mode == "max" else 1}


def test_the_best_of_one_trial_needs_no_metric(tmp_path):
    results = Tuner(scoring, run_config=RunConfig(storage_path=str(tmp_path), verbose=0)).fit()
    assert results.get_best_result().metrics["score"] == 0
    assert results.get_best_result("score").metrics["score"] == 0


@pytest.mark.parametrize(
    ("given", "error", "phrase"),
    [
        ({}, ValueError, "No metric is provided. Either pass in a `metric` arg"),
        ({"metric": "score"}, ValueError, "No mode is provided. Either pass in a `mode` arg"),
        ({"metric": "other", "mode": "max"}, RuntimeError, "No best trial found for the given metric: other"),
        ({"metric": "score", "mode": "max", "scope": "x"}, ValueError, "attempting to get best trial for metric score for scope"),
    ],
)  # fmt: skip
def test_the_best_of_several_needs_metric_and_mode(two, given, error, phrase):
    with pytest.raises(error, match=phrase):
        tune.ResultGrid(two).get_best_result(**given)


_shared = []


@pytest.fixture
def two(cluster, tmp_path_factory):
    """A search of two trials that the tests of this module share."""
    if not _shared:
        folder = str(tmp_path_factory.mktemp("two"))
        _shared.append(
            tune.run(scoring, config={"x": tune.grid_search([1, 2])}, storage_path=folder, verbose=0)
        )
    return _shared[0]


@pytest.mark.parametrize(
    ("ask", "phrase"),
    [
        (lambda analysis: analysis.get_best_trial(), "No `metric` has been passed"),
        (lambda analysis: analysis.get_best_trial("score"), "No `mode` has been passed"),
        (lambda analysis: analysis.get_best_trial("score", "x"), "has to be one of \\[min, max\\]"),
        (lambda analysis: analysis.dataframe("score", "x"), "has to be one of \\[min, max\\]"),
        (lambda analysis: analysis.dataframe(mode="max"), "also have to pass a `metric`"),
        (lambda analysis: analysis.best_config, "To fetch the `best_config`"),
        (lambda analysis: tune.ExperimentAnalysis("/nowhere/at/all"), "No experiment snapshot file of form"),
        (lambda analysis: tune.ExperimentAnalysis(analysis.experiment_path, default_mode="x"), "\\[min, max\\]"),
    ],
)  # fmt: skip
def test_questions_that_an_analysis_refuses(two, ask, phrase):
    with pytest.raises(ValueError, match=phrase):
        ask(two)


def test_a_table_of_a_metric_without_a_mode_has_the_last_results(two):
    assert sorted(two.dataframe(metric="score")["score"]) == [1, 2]


def test_configurations_are_by_trial_id(two):
    found = two.get_all_configs()
    assert found == {trial.trial_id: trial.config for trial in two.trials}
    assert list(two.get_all_configs(prefix=True).values()) == [{"config/x": 1}, {"config/x": 2}]


def test_tables_and_results_are_by_trial_id(two):
    ids = {trial.trial_id for trial in two.trials}
    assert set(two.trial_dataframes) == set(two.results) == set(two.results_df.index) == ids
    assert "experiment_tag" in two.results_df.columns


def test_failed_trials_raise_at_the_end(run):
    def failing(config):
        raise ValueError("asked to fail")

    with pytest.raises(TuneError, match="Trials did not complete"):
        run(failing)
    [trial] = run(failing, raise_on_failed_trial=False).trials
    assert trial.status == "ERROR"


def checkpoints(analysis):
    [trial] = analysis.trials
    return sorted(int(each[-6:]) for each in os.listdir(trial.path) if each.startswith("checkpoint_"))


@pytest.mark.parametrize(
    ("given", "kept", "field"),
    [
        ({"checkpoint_freq": 2}, [0, 1], "checkpoint_frequency"),
        ({"checkpoint_at_end": True}, [0], "checkpoint_at_end"),
        ({"keep_checkpoints_num": 2, "checkpoint_freq": 1}, [3, 4], "num_to_keep"),
        (
            {"keep_checkpoints_num": 1, "checkpoint_score_attr": "min-loss", "checkpoint_freq": 1},
            [2, 4],
            "checkpoint_score_attribute",
        ),
        (
            {"keep_checkpoints_num": 1, "checkpoint_score_attr": "loss", "checkpoint_freq": 1},
            [4],
            "num_to_keep",
        ),
    ],
)
def test_checkpoint_arguments_of_old_are_applied_with_a_warning(run, given, kept, field):
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        assert checkpoints(run(Counting, **given)) == kept
    phrase = f"is deprecated and will be removed. use checkpoint_config.{field} instead"
    assert any(each.category is DeprecationWarning and phrase in str(each.message) for each in warned)


def test_names_without_a_date(run, monkeypatch):
    monkeypatch.setenv("TUNE_DISABLE_DATED_SUBDIR", "1")
    assert os.path.basename(run(scoring).experiment_path) == "scoring"


def test_a_name_may_have_folders_in_it(run, tmp_path):
    assert os.path.relpath(run(scoring, name="a/b").experiment_path, tmp_path) == "a/b"


def test_a_searcher_of_old_takes_no_more_than_it_knows(run):
    class Old(tune.search.Searcher):
        def set_search_properties(self, metric, mode, config):
            return True

        def suggest(self, trial_id):
            return {"x": 4}

        def on_trial_complete(self, trial_id, result=None, error=False):
            pass

        def on_trial_result(self, trial_id, result):
            pass

        def save(self, checkpoint_path):
            pass

    analysis = run(scoring, search_alg=Old(metric="score", mode="max"), metric="score", mode="max")
    assert [trial.config for trial in analysis.trials] == [{"x": 4}]


@pytest.mark.parametrize("kind", ["ref", "value"])
def test_parameters_may_be_refs(tmp_path, kind):
    import ray

    data = ray.put([1, 2, 3]) if kind == "ref" else [1, 2, 3]
    sized = tune.with_parameters(lambda config, data: {"n": len(data)}, data=data)
    [result] = Tuner(sized, run_config=RunConfig(storage_path=str(tmp_path), verbose=0)).fit()
    assert result.metrics["n"] == 3


class Resetting(Counting):
    def setup(self, config):
        super().setup(config)
        self.resets = 0

    def step(self):
        return {**super().step(), "resets": self.resets, "x": self.config["x"], "done": self.count >= 2}

    def reset_config(self, new_config):
        self.resets += 1
        self.count = 0
        return "cannot" not in new_config


class Pausing(tune.schedulers.FIFOScheduler):
    def on_trial_result(self, tune_controller, trial, result):
        return tune.schedulers.TrialScheduler.PAUSE


def resets(analysis):
    return [trial.last_result.get("resets") for trial in analysis.trials]


@pytest.mark.parametrize(("reuse", "expected"), [(True, [0, 1, 2, 3]), (False, [0, 0, 0, 0])])
def test_actors_are_reused_one_after_the_other(run, reuse, expected):
    space = {"x": tune.grid_search([1, 2, 3, 4])}
    found = run(Resetting, config=space, reuse_actors=reuse, max_concurrent_trials=1)
    assert resets(found) == expected
    assert [trial.last_result["x"] for trial in found.trials] == [1, 2, 3, 4]


@pytest.mark.parametrize(("reuse", "expected"), [(True, [4, 5, 6, 7]), (False, [0, 0, 0, 0])])
def test_trials_that_pause_make_room_for_those_that_have_not_begun(run, reuse, expected):
    found = run(
        tune.with_resources(Resetting, {"cpu": 2}), config={"x": tune.grid_search([0, 1, 2, 3])}, reuse_actors=reuse,
        scheduler=Pausing(),
    )  # fmt: skip
    assert resets(found) == expected
    assert [trial.last_result["x"] for trial in found.trials] == [0, 1, 2, 3]


def test_what_has_failed_is_not_reused(run):
    class Failing(Resetting):
        def step(self):
            if self.config["fail"]:
                raise RuntimeError("asked to fail")
            return super().step()

    found = run(
        tune.with_resources(Failing, {"cpu": 2}), reuse_actors=True, raise_on_failed_trial=False,
        config={"x": 0, "fail": tune.grid_search([False, True, False, False])},
    )  # fmt: skip
    assert resets(found) == [0, None, 0, 1]


def test_a_class_that_cannot_be_reset_is_not_reused_quietly():
    experiment = {
        "run": tune.with_resources(Resetting, {"cpu": 2}),
        "config": {"x": tune.grid_search([0, 1]), "cannot": True},
    }
    with pytest.raises(TuneError):
        tune.run_experiments({"foo": experiment}, reuse_actors=True, scheduler=Pausing(), verbose=0)


def test_a_tune_config_of_a_wrong_mode_is_refused(tmp_path):
    with pytest.raises(ValueError, match="must be one of \\['min', 'max'\\]"):
        Tuner(
            scoring,
            tune_config=TuneConfig(metric="score", mode="x"),
            run_config=RunConfig(storage_path=str(tmp_path), verbose=0),
        ).fit()
