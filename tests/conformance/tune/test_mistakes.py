"""Mistakes in trainables, callbacks and combinations of settings: the errors that report them."""

from __future__ import annotations

import tempfile
import warnings

import numpy as np
import pytest
from ray import train, tune
from ray.tune import Checkpoint
from ray.tune.schedulers import (
    ASHAScheduler,
    HyperBandScheduler,
    MedianStoppingRule,
    PopulationBasedTraining,
    ResourceChangingScheduler,
)
from ray.tune.search import BasicVariantGenerator, ConcurrencyLimiter, Searcher
from ray.tune.stopper import Stopper, TimeoutStopper


class Climbing(tune.Trainable):
    def setup(self, config):
        self.height = config.get("height", 0)

    def step(self):
        self.height += 1
        return {"height": self.height, "episodes_this_iter": 2, "timesteps_this_iter": 5}

    def save_checkpoint(self, checkpoint_dir):
        return {"height": self.height}

    def load_checkpoint(self, checkpoint):
        self.height = checkpoint["height"]


class Mine(Searcher):
    def suggest(self, trial_id):
        return {"x": 1}

    def on_trial_complete(self, trial_id, result=None, error=False):
        pass


def like(**members):
    return type("Changed", (Climbing,), members)


def scoring(config):
    return {"score": config.get("x", 0)}


# -- a class on its own


def test_what_a_step_adds_up():
    one = Climbing({})
    one.train()
    result = one.train()
    assert (result["episodes_total"], result["timesteps_total"], result["training_iteration"]) == (4, 10, 2)


def test_keys_of_results_that_the_trainable_may_set_itself():
    def step(self):
        return {"training_iteration": 7, "timestamp": 12, "pid": "mine", "hostname": "mine", "config": {}}

    result = like(step=step)({"height": 3}).train()
    assert (result["training_iteration"], result["timestamp"]) == (7, 12)
    assert "mine" not in (result["pid"], result["hostname"])
    assert result["config"] == {"height": 3}


def test_a_step_that_returns_no_dict():
    with pytest.raises(AssertionError, match=r"step\(\) needs to return a dict"):
        like(step=lambda self: 5)({}).train()


def test_a_saved_checkpoint_has_the_last_result():
    one = Climbing({})
    one.train()
    saved = one.save()
    assert isinstance(saved.checkpoint, Checkpoint)
    assert saved.metrics["height"] == 1
    one.train()
    one.restore(saved)
    assert one.height == 1


def test_a_checkpoint_saved_elsewhere_is_refused(tmp_path):
    with pytest.raises(ValueError, match="must be None or the same as the provided path argument"):
        like(save_checkpoint=lambda self, folder: "/tmp")({}).save(str(tmp_path))


def test_a_checkpoint_that_is_gone_is_not_restored(tmp_path):
    with pytest.raises(ValueError, match="Could not recover from checkpoint as it does not exist"):
        Climbing({}).restore(str(tmp_path / "gone"))


# -- spaces, stoppers and reporters


@pytest.mark.parametrize(
    "domain", [tune.uniform(0, 1), tune.loguniform(1, 9), tune.randint(0, 9), tune.randn(0, 1)]
)
def test_several_numbers_of_a_domain_are_an_array(domain):
    found = domain.sample(size=3, random_state=3)
    assert isinstance(found, np.ndarray) and found.shape == (3,)


def test_a_seed_is_one_of_numpy_s_new_generators():
    assert tune.uniform(0, 1).sample(random_state=3) == np.random.default_rng(3).uniform(0, 1, size=1)[0]


def test_a_normal_distribution_of_no_width():
    with pytest.raises(AssertionError, match="SD has to be strictly greater than 0"):
        tune.randn(0, -1)


def test_a_timeout_ends_a_search_rather_than_a_trial():
    stopper = TimeoutStopper(0)
    assert (stopper("trial", {}), stopper.stop_all()) == (False, True)


def test_a_stopper_defines_what_is_asked_of_it():
    with pytest.raises(NotImplementedError):
        Stopper().stop_all()


def test_a_column_is_added_once():
    reporter = tune.CLIReporter()
    reporter.add_metric_column("loss")
    reporter.add_parameter_column("loss")
    with pytest.raises(ValueError, match="Column loss already exists"):
        reporter.add_metric_column("loss")


# -- searchers and schedulers


@pytest.mark.parametrize(
    ("make", "error", "phrase"),
    [
        (lambda: ConcurrencyLimiter(5, max_concurrent=2), RuntimeError, "only works with `Searcher` objects"),
        (lambda: ConcurrencyLimiter(BasicVariantGenerator(), max_concurrent=2), RuntimeError, "only works with"),
        (lambda: ConcurrencyLimiter(Mine(), max_concurrent=0), AssertionError, None),
        (lambda: ConcurrencyLimiter(Mine(), max_concurrent=1.5), AssertionError, None),
        (lambda: Mine(metric="a", mode="most"), AssertionError, "'min'"),
        (lambda: Mine(metric="a", mode=["max"]), AssertionError, "must be of the same type"),
        (lambda: Mine(metric=["a", "b"], mode=["max"]), AssertionError, "must be the same length"),
    ],
)  # fmt: skip
def test_arguments_of_searchers_that_cannot_be(make, error, phrase):
    with pytest.raises(error, match=phrase):
        make()


def test_a_resource_changing_scheduler_without_a_function_warns():
    with pytest.warns(UserWarning, match="`resources_allocation_function` is None"):
        ResourceChangingScheduler(resources_allocation_function=None)


@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize(
    "scheduler",
    [
        ASHAScheduler,
        HyperBandScheduler,
        MedianStoppingRule,
        lambda: PopulationBasedTraining(hyperparam_mutations={"x": [1]}),
    ],
)
def test_a_scheduler_without_a_metric(fit, scheduler):
    with pytest.raises(ValueError, match="has been instantiated without a valid `metric`"):
        fit(scoring, scheduler=scheduler())


@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize(
    ("given", "phrase"),
    [
        (
            {"search_alg": Mine(), "scheduler": PopulationBasedTraining(hyperparam_mutations={"x": [1]})},
            "Search algorithms cannot be used with PopulationBasedTraining",
        ),
        ({"reuse_actors": True, "scheduler": ResourceChangingScheduler()}, "cannot be used with `reuse_actors=True`"),
        (
            {"max_concurrent_trials": 3, "search_alg": ConcurrencyLimiter(Mine(), 2)},
            "`max_concurrent_trials=3`, but the `search_alg` is already a `ConcurrencyLimiter`",
        ),
    ],
)  # fmt: skip
def test_settings_that_do_not_go_together(fit, given, phrase):
    with pytest.raises(ValueError, match=phrase):
        fit(scoring, {"x": 1} if "search_alg" not in given else None, metric="score", mode="max", **given)


@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize(
    "search_alg", [ConcurrencyLimiter(Mine(), 2), BasicVariantGenerator(max_concurrent=2)]
)
def test_a_limit_that_is_said_twice(fit, search_alg):
    most = 2 if isinstance(search_alg, ConcurrencyLimiter) else 3
    found = fit(
        scoring, metric="score", mode="max", search_alg=search_alg, max_concurrent_trials=most, num_samples=2
    )
    assert len(found) == 2


# -- what trials fail with


def reporting_to_train(config):
    train.report({"score": 1})


def asking_train(config):
    train.get_context()


@pytest.mark.usefixtures("cluster")
def test_trials_that_fail_by_mistakes(fit):
    def of(config):
        return config["make"](config)

    makes = {
        "a list": (lambda config: [1], ValueError, "Invalid return or yield value"),
        "a text": (lambda config: "one", ValueError, "Invalid return or yield value"),
        "a report to Train": (
            reporting_to_train,
            DeprecationWarning,
            "`ray.train.report` is deprecated when",
        ),
        "a context of Train": (
            asking_train,
            DeprecationWarning,
            "`ray.train.get_context` is deprecated when",
        ),
    }
    found = fit(of, {"make": tune.grid_search([make for make, _, _ in makes.values()])})
    for (_, error, phrase), result in zip(makes.values(), found, strict=True):
        assert isinstance(result.error, error), result.error
        assert phrase in str(result.error)


def raising(*given, **named):
    raise KeyError("mine")


@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize("where", ["on_trial_result", "stop"])
def test_an_error_while_a_result_is_processed_is_one_of_the_search(fit, where):
    callback = type("Failing", (tune.Callback,), {where: raising})()
    given = {"stop": lambda trial_id, result: raising()} if where == "stop" else {"callbacks": [callback]}
    with pytest.raises(tune.TuneError, match="KeyError: 'mine'"):
        fit(scoring, **given)


@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize("stop", [[], {}, None])
def test_an_empty_list_of_stoppers_ends_nothing(fit, stop):
    assert len(fit(scoring, stop=stop)) == 1


# -- results


@pytest.mark.usefixtures("cluster")
def test_questions_about_results_that_have_no_answer(fit):
    found = fit(scoring, {"x": tune.grid_search([1, 2])})
    assert [each.config["x"] for each in found[0:2]] == [1, 2]
    assert sorted(found.get_dataframe("nothing", "max")["score"]) == [1, 2]
    with pytest.raises(RuntimeError, match="No checkpoint exists in the trial directory"):
        found[0].get_best_checkpoint("score", "max")


# -- callbacks and resuming


class Told(tune.Callback):
    def setup(self, **given):
        self.given = given


@pytest.mark.usefixtures("cluster")
def test_a_callback_is_told_of_the_search_at_its_start(fit):
    callback = Told()
    fit(scoring, callbacks=[callback], stop={"score": 5}, num_samples=2)
    assert callback.given == {
        "stop": {"score": 5}, "num_samples": 2, "time_budget_s": None, "total_num_samples": 2,
    }  # fmt: skip


class Plain(tune.Callback):
    was_set_up = False

    def setup(self):
        self.was_set_up = True


@pytest.mark.usefixtures("cluster")
def test_a_callback_that_takes_no_arguments_at_its_start_is_called_with_a_warning(fit):
    callback = Plain()
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        fit(scoring, callbacks=[callback])
    assert callback.was_set_up
    [warning] = [each for each in seen if issubclass(each.category, FutureWarning)]
    assert "Please update `setup` method in callback" in str(warning.message)


@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize(
    ("resume", "error", "phrase"),
    [
        ("LOCAL", DeprecationWarning, r"Please pass in one of \(True, False, 'AUTO'\)"),
        ("ERRORED_ONLY", DeprecationWarning, "is deprecated"),
        ("AUTO+ALL", ValueError, "Invalid resume setting: 'ALL'"),
    ],
)
def test_ways_to_resume_that_there_are_not(resume, error, phrase):
    with tempfile.TemporaryDirectory() as folder, pytest.raises(error, match=phrase):
        tune.run(scoring, storage_path=folder, name="search", verbose=0, resume=resume)


def test_a_point_to_evaluate_with_an_unknown_parameter_is_refused():
    first = BasicVariantGenerator(points_to_evaluate=[{"b": 1}])
    with pytest.raises((KeyError, ValueError), match="b"):
        tune.run(lambda config: {"x": 1}, config={"a": tune.uniform(0, 1)}, search_alg=first, verbose=0)


def test_a_storage_path_that_is_no_path_is_refused():
    with pytest.raises((TypeError, ValueError)):
        tune.Tuner(lambda config: {"x": 1}, run_config=tune.RunConfig(storage_path=5)).fit()
