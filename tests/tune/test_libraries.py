"""Real searches with the real libraries, one contract for all; a library that is not installed is skipped by name."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import skate as ray
from skate import tune
from skate.tune.schedulers import HyperBandForBOHB
from skate.tune.search import ConcurrencyLimiter, Searcher, create_searcher

pytestmark = pytest.mark.filterwarnings("ignore")  # what the libraries themselves warn of

SPACE = {
    "x": tune.uniform(0, 1),
    "deep": {"y": tune.uniform(0.1, 10)},
    "kind": tune.choice(["a", "b"]),
    "layers": tune.randint(1, 5),
    "step": tune.quniform(0, 1, 0.25),
}
RATE = {"rate": tune.loguniform(1e-4, 1e-1)}
REAL = {"x": SPACE["x"], "deep": SPACE["deep"]}
POINT = {"x": 0.25, "deep": {"y": 1.5}, "kind": "b", "layers": 2, "step": 0.5, "rate": 0.01}

#: What each library is asked, beside the contract: its module, the space it can search, keywords.
LIBRARIES: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "optuna": ("optuna", {**SPACE, **RATE}, {"seed": 1}),
    "hyperopt": ("hyperopt", {**SPACE, **RATE}, {"random_state_seed": 1}),
    "bayesopt": ("bayes_opt", REAL, {"random_search_steps": 5, "patience": 100, "skip_duplicate": False}),
    "ax": ("ax", {**SPACE, **RATE}, {"random_seed": 1, "verbose_logging": False}),
    "nevergrad": ("nevergrad", {**SPACE, **RATE}, {"optimizer_kwargs": {"budget": 60}}),
    "bohb": ("hpbandster", {**SPACE, **RATE}, {"seed": 1}),
    "zoopt": ("zoopt", SPACE, {"budget": 60}),
}


@pytest.fixture(params=LIBRARIES)
def library(request: pytest.FixtureRequest) -> str:
    module = LIBRARIES[request.param][0]
    pytest.importorskip(module, exc_type=ImportError)
    if module == "bayes_opt" and not hasattr(importlib.import_module(module), "acquisition"):
        pytest.skip("bayesian-optimization is older than 2")
    if module == "zoopt":
        importlib.import_module("numpy").random.seed(1)
    return str(request.param)


@pytest.fixture(scope="module", autouse=True)
def session() -> Iterator[None]:
    ray.init(num_cpus=2)
    yield
    ray.shutdown()


def made(library: str, **given: Any) -> Searcher:
    searcher: Searcher = create_searcher(library, **LIBRARIES[library][2], **given)
    return searcher


def space_of(library: str) -> dict[str, Any]:
    return LIBRARIES[library][1]


def point_of(library: str) -> dict[str, Any]:
    return {name: POINT[name] for name in space_of(library)}


def loss(config: dict[str, Any]) -> float:
    return float((config["x"] - 0.3) ** 2 + (config["deep"]["y"] - 1) ** 2 / 100)


def objective(config: dict[str, Any]) -> None:
    for step in range(3):
        tune.report({"loss": loss(config) + 2 - step})


def check(config: dict[str, Any]) -> None:
    """Every value is one of its domain, and of its type."""
    assert 0 <= config["x"] <= 1
    assert type(config["x"]) is float
    assert 0.1 <= config["deep"]["y"] <= 10
    if "kind" in config:
        assert type(config["kind"]) is str
        assert config["kind"] in ("a", "b")
        assert type(config["layers"]) is int
        assert config["layers"] in (1, 2, 3, 4)
        assert config["step"] in (0, 0.25, 0.5, 0.75, 1)
    if "rate" in config:
        assert 1e-4 <= config["rate"] <= 1e-1


def test_a_search(library: str, tmp_path: Path) -> None:
    scheduler = HyperBandForBOHB(max_t=3) if library == "bohb" else None
    searcher = made(library, points_to_evaluate=[point_of(library)])
    results = tune.Tuner(
        objective,
        param_space=space_of(library),
        tune_config=tune.TuneConfig(
            metric="loss",
            mode="min",
            num_samples=8,
            search_alg=ConcurrencyLimiter(searcher, 2),
            scheduler=scheduler,
        ),
        run_config=tune.RunConfig(storage_path=str(tmp_path), name="search"),
    ).fit()
    assert results.num_errors == 0
    assert len(results) == 8
    configs = [result.config for result in results]
    first, point = configs[0], point_of(library)
    assert first["x"] == pytest.approx(point["x"])
    assert {name: first[name] for name in first if name in ("kind", "layers", "step")} == {
        name: point[name] for name in point if name in ("kind", "layers", "step")
    }
    for config in configs:
        check(config)
    assert len({config["x"] for config in configs}) > 3, "it continues searching"


def prepared(searcher: Searcher, space: dict[str, Any], mode: str = "min") -> Searcher:
    assert searcher.set_search_properties("loss", mode, space)
    return searcher


def drive(searcher: Searcher, trials: int, first: int = 0, sign: float = 1.0) -> list[dict[str, Any]]:
    found = []
    for number in range(first, first + trials):
        config: Any = searcher.suggest(str(number))
        assert isinstance(config, dict), config
        found.append(config)
        result = {"loss": sign * loss(config), "training_iteration": 1}
        searcher.on_trial_complete(str(number), result=result)
    return found


def test_it_learns(library: str) -> None:
    """Later suggestions are better than earlier ones, in both modes."""
    if library in ("ax", "bayesopt"):
        pytest.skip("a Gaussian process takes a minute for as many trials; test_a_search runs some")
    if library == "zoopt":
        pytest.skip("ZOOpt ends when it draws nothing new near the best, after ten trials or after a hundred")
    for mode, sign in (("min", 1.0), ("max", -1.0)):
        found = [
            loss(config) for config in drive(prepared(made(library), space_of(library), mode), 40, sign=sign)
        ]
        assert min(found) < 0.1
        early, late = sorted(found[:8])[4], sorted(found[-8:])[4]
        assert late < early, (
            f"the middle of the last eight, {late}, is no better than that of the first, {early}"
        )


def test_saved_and_restored(library: str, tmp_path: Path) -> None:
    first = prepared(made(library), space_of(library))
    drive(first, 5)
    first.save(str(tmp_path / "state"))
    second = made(library)
    second.restore(str(tmp_path / "state"))
    for config in drive(second, 3, first=5):
        check(config)


def test_failures_are_survived(library: str) -> None:
    searcher = prepared(made(library), space_of(library))
    for number in range(4):
        assert isinstance(searcher.suggest(str(number)), dict)
        searcher.on_trial_complete(str(number), error=True)
    check(drive(searcher, 1, first=4)[0])


def test_grids_are_refused_by_name(library: str, tmp_path: Path) -> None:
    tuner = tune.Tuner(
        objective,
        param_space={**REAL, "kind": tune.grid_search(["a", "b"])},
        tune_config=tune.TuneConfig(metric="loss", mode="min", search_alg=made(library)),
        run_config=tune.RunConfig(storage_path=str(tmp_path)),
    )
    with pytest.raises(ValueError, match="does not support grids, but the space has grid_search for kind"):
        tuner.fit()


def test_a_mode_is_asked_for(library: str) -> None:
    with pytest.raises((RuntimeError, ValueError), match="does not know the objective"):
        searcher = made(library)
        searcher.set_search_properties(None, None, space_of(library))
        searcher.suggest("1")
