"""Rejected arguments, and the messages."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import skate
from skate import tune
from skate.tune.search import BasicVariantGenerator, ConcurrencyLimiter, Repeater
from skate.tune.search.hebo import HEBOSearch
from skate.tune.search.optuna import OptunaSearch


@pytest.fixture(scope="module")
def session() -> Iterator[None]:
    skate.init(num_cpus=2, num_gpus=0)
    yield
    skate.shutdown()


def function(config: dict[str, Any]) -> dict[str, Any]:
    return {"loss": 1.0}


def fit(tmp_path: Path, trainable: Any = function, space: Any = None, run: Any = None, **given: Any) -> Any:
    run_config = tune.RunConfig(name="search", storage_path=str(tmp_path), verbose=0, **(run or {}))
    return tune.Tuner(
        trainable, param_space=space, tune_config=tune.TuneConfig(**given), run_config=run_config
    ).fit()


@pytest.mark.usefixtures("session")
def test_an_unknown_metric_names_the_reported_ones(tmp_path: Path) -> None:
    with pytest.raises(tune.TuneError, match=r"the specified metric\(s\) `los` that .*: .* reports loss"):
        fit(tmp_path, metric="los", mode="min")


@pytest.mark.usefixtures("session")
def test_an_unknown_metric_of_results(tmp_path: Path) -> None:
    results = fit(tmp_path)
    with pytest.raises(ValueError, match="No trial reports a number for 'los'; reported are: loss"):
        results.get_best_result("los", "min")
    with pytest.raises(ValueError, match="for scope first not in"):
        results.get_best_result("loss", "min", scope="first")


@pytest.mark.parametrize("mode", ["maximum", "MAX", "x", 1])
def test_modes(mode: Any) -> None:
    with pytest.raises(ValueError, match="must be one of .'min', 'max'."):
        tune.TuneConfig(mode=mode)


@pytest.mark.usefixtures("session")
def test_a_grid_for_a_searcher(tmp_path: Path) -> None:
    space = {"a": {"b": tune.grid_search([1, 2])}}
    with pytest.raises(
        ValueError, match="OptunaSearch does not support grids, but the space has grid_search for a/b"
    ):
        fit(tmp_path, space=space, metric="loss", mode="min", search_alg=OptunaSearch())


@pytest.mark.usefixtures("session")
def test_a_function_for_a_searcher(tmp_path: Path) -> None:
    space = {"a": tune.sample_from(lambda config: 1)}
    with pytest.raises(ValueError, match="OptunaSearch cannot call functions, but 'a' is sample_from"):
        fit(tmp_path, space=space, metric="loss", mode="min", search_alg=OptunaSearch())


def test_a_space_that_cannot_be_serialized(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="param_space cannot be serialized: 'deep/lock' is a lock"):
        fit(tmp_path, space={"deep": {"lock": threading.Lock()}})


@pytest.mark.usefixtures("session")
@pytest.mark.parametrize(
    ("resources", "words"),
    [
        ({"gpu": 1}, r"1 GPU \(the cluster has 0\)"),
        ({"cpu": 3}, r"3 CPU \(the cluster has 2\)"),
        (tune.PlacementGroupFactory([{"CPU": 1}] * 3), r"3 CPU \(the cluster has 2\)"),
    ],
    ids=["gpu", "cpus", "bundles"],
)
def test_a_trial_that_asks_for_more_than_there_is(tmp_path: Path, resources: Any, words: str) -> None:
    with pytest.raises(tune.TuneError, match=words):
        fit(tmp_path, tune.with_resources(function, resources))


@pytest.mark.usefixtures("session")
def test_with_resources_leaves_the_function_as_it_is(tmp_path: Path) -> None:
    tune.with_resources(function, {"gpu": 1})
    assert fit(tmp_path).num_errors == 0


@pytest.mark.usefixtures("session")
def test_options_that_contradict_each_other(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="max_concurrent_trials=2`, but the `search_alg` is already"):
        fit(
            tmp_path,
            metric="loss",
            mode="min",
            max_concurrent_trials=2,
            search_alg=ConcurrencyLimiter(OptunaSearch(), 3),
        )
    with pytest.raises(ValueError, match="set each in one place"):
        scheduler = tune.schedulers.ASHAScheduler(metric="loss", mode="min")
        fit(tmp_path, metric="other", mode="min", scheduler=scheduler)
    with pytest.raises(ValueError, match="max_failures must be 0 if fail_fast=True"):
        tune.FailureConfig(max_failures=1, fail_fast=True)
    with pytest.raises(ValueError, match="already has its own search space, metric or mode"):
        searcher = OptunaSearch(space={"x": tune.uniform(0, 1)}, metric="loss", mode="min")
        fit(tmp_path, space={"x": tune.uniform(0, 1)}, search_alg=searcher)


@pytest.mark.usefixtures("session")
def test_a_stop_by_what_is_not_reported(tmp_path: Path, caplog: Any) -> None:
    with caplog.at_level("WARNING", logger="skate.tune"):
        fit(tmp_path, run={"stop": {"accuracy": 1}})
    assert "stop uses the metric 'accuracy'" in caplog.text
    assert "loss" in caplog.text


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: tune.Tuner(), "need to provide a trainable"),
        (lambda: tune.Tuner(5).fit(), "A trainable is a function"),
        (lambda: tune.Tuner("nobody").fit(), "Unknown trainable: nobody"),
        (lambda: tune.Tuner(lambda a, b: 1).fit(), "must include a single .config. positional parameter"),
        (lambda: tune.Tuner(function, param_space=[1]), "must be a dict. Got list"),
        (lambda: tune.Tuner(function, tune_config={}), "tune_config must be a ray.tune.TuneConfig, not dict"),
        (lambda: tune.TuneConfig(num_samples=-2), "num_samples must be a number of trials"),
        (lambda: tune.TuneConfig(time_budget_s=0), "time_budget_s must be a number of seconds above 0"),
        (lambda: tune.RunConfig(name="a/.."), "a valid folder name"),
        (lambda: tune.CheckpointConfig(num_to_keep=0), "invalid num_to_keep"),
        (lambda: tune.CheckpointConfig(checkpoint_frequency=-1), "checkpoint_frequency must be >=0"),
        (lambda: tune.with_resources(5, {"cpu": 1}), "with_resources.. only works with function trainables"),
        (lambda: tune.with_resources(function, 5), "Resources are a dict"),
        (lambda: tune.with_parameters(5, a=1), "with_parameters.. only works with function trainables"),
        (lambda: tune.with_parameters(function, a=1), "cannot be called with the configuration and a"),
        (lambda: tune.PlacementGroupFactory([]), "at least one bundle"),
        (lambda: tune.PlacementGroupFactory([{"CPU": -1}]), "must be a number >= 0"),
        (lambda: tune.grid_search(5), "grid_search takes a list"),
        (lambda: tune.sample_from(5), "sample_from takes a function"),
        (lambda: tune.create_searcher("nope"), "`search_alg` argument must be one of"),
        (lambda: tune.create_scheduler("nope"), "must be one of"),
        (
            lambda: ConcurrencyLimiter(BasicVariantGenerator(), 2),
            "takes a Searcher, not BasicVariantGenerator",
        ),
        (lambda: Repeater(ConcurrencyLimiter(OptunaSearch(), 1), 2), "would wait for itself"),
        (lambda: OptunaSearch(points_to_evaluate=[{"x": 1}], evaluated_rewards=[1, 2]), "1 and 2 were given"),
        (lambda: HEBOSearch(), "requires numpy below 1.25"),
        (lambda: tune.run(function, local_dir="x"), "set the `storage_path`"),
    ],
)
def test_words(make: Any, words: str) -> None:
    with pytest.raises(
        (ValueError, TypeError, tune.TuneError, NotImplementedError, DeprecationWarning), match=words
    ):
        make()


def test_a_checkpoint_frequency_for_a_function(tmp_path: Path) -> None:
    config = tune.CheckpointConfig(checkpoint_frequency=1)
    with pytest.raises(ValueError, match="cannot be set for a function trainable"):
        fit(tmp_path, run={"checkpoint_config": config})


def test_outside_of_a_trial() -> None:
    with pytest.warns(UserWarning, match="outside of a trial"):
        tune.report({"x": 1})
    assert tune.get_context().get_trial_id() is None


def test_importing_loads_no_searcher_s_library() -> None:
    import subprocess
    import sys

    program = (
        "import sys, skate.tune; from skate.tune import Tuner, TuneConfig; import skate.tune.execution.launch; "
        "heavy = {'optuna', 'hyperopt', 'pandas', 'numpy', 'torch', 'sklearn', 'bayes_opt', 'pyarrow', 'rich', 'tensorboardX'}; "
        "print(sorted(heavy & set(sys.modules)))"
    )
    found = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert found.stdout.strip() == "[]"
