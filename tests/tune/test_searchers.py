"""Searchers: their suggestions, learning and saved states."""

from __future__ import annotations

import sys
import types
from pathlib import Path
from typing import Any

import pytest

from skate import tune
from skate.tune.search import ConcurrencyLimiter, Repeater, Searcher, create_searcher

optuna = pytest.importorskip("optuna")
from skate.tune.search.optuna import OptunaSearch  # noqa: E402 - after the check that Optuna is there

SPACE = {"x": tune.uniform(0, 1), "deep": {"y": tune.loguniform(0.1, 10)}, "kind": tune.choice(["a", "b"])}


def loss(config: dict[str, Any]) -> float:
    return float((config["x"] - 0.3) ** 2 + (config["deep"]["y"] - 1) ** 2 + (config["kind"] == "b"))


def prepared(
    searcher: Searcher, space: dict[str, Any] | None = None, metric: Any = "loss", mode: Any = "min"
) -> Searcher:
    assert searcher.set_search_properties(metric, mode, SPACE if space is None else space)
    return searcher


def drive(searcher: Searcher, trials: int, first: int = 0, objective: Any = loss) -> list[dict[str, Any]]:
    found = []
    for number in range(first, first + trials):
        config: Any = searcher.suggest(str(number))
        assert isinstance(config, dict)
        found.append(config)
        value = objective(config)
        result = value if isinstance(value, dict) else {"loss": value}
        searcher.on_trial_complete(str(number), result={**result, "training_iteration": 1})
    return found


def test_the_same_points_as_optuna_alone() -> None:
    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=7))

    def objective(trial: Any) -> float:
        x = trial.suggest_float("x", 0, 1)
        y = trial.suggest_float("deep/y", 0.1, 10, log=True)
        return loss({"x": x, "deep": {"y": y}, "kind": trial.suggest_categorical("kind", ["a", "b"])})

    study.optimize(objective, n_trials=30)
    found = drive(prepared(OptunaSearch(seed=7)), 30)
    assert [trial.params["x"] for trial in study.trials] == [config["x"] for config in found]
    assert min(map(loss, found)) == study.best_value


def test_points_to_evaluate_come_first() -> None:
    found = drive(prepared(OptunaSearch(points_to_evaluate=[{"x": 0.3, "deep": {"y": 1.0}, "kind": "a"}])), 2)
    assert found[0] == {"x": 0.3, "deep": {"y": 1.0}, "kind": "a"}


def test_evaluated_rewards_are_learnt_from_and_not_run() -> None:
    point = {"x": 0.3, "deep": {"y": 1.0}, "kind": "a"}
    searcher = prepared(OptunaSearch(points_to_evaluate=[point], evaluated_rewards=[0.0], seed=1))
    assert searcher._study.best_value == 0.0
    assert drive(searcher, 1)[0] != point


def test_optuna_learns_from_a_trial_that_failed_and_goes_on() -> None:
    searcher = prepared(OptunaSearch(seed=1), {"x": tune.uniform(0, 1)})
    config: Any = searcher.suggest("a")
    searcher.on_trial_complete("a", error=True)
    searcher.on_trial_result("a", {"loss": 3.0, "training_iteration": 1})
    searcher.on_trial_complete("a", error=True)
    assert [each.state.name for each in searcher._study.trials] == ["FAIL"]
    searcher.on_trial_complete("a", {"loss": 2.0, "training_iteration": 2})
    failed, learnt = searcher._study.trials
    assert (failed.state.name, learnt.state.name) == ("FAIL", "COMPLETE")
    assert (learnt.params, learnt.value) == (config, 2.0)


def test_optuna_keeps_the_first_result_of_a_trial() -> None:
    searcher = prepared(OptunaSearch(seed=1), {"x": tune.uniform(0, 1)})
    searcher.suggest("a")
    for number in (1, 2):
        result = {"loss": float(number), "training_iteration": number}
        searcher.on_trial_result("a", result)
        searcher.on_trial_complete("a", result)
    (only,) = searcher._study.trials
    assert only.value == 1.0


def test_several_objectives() -> None:
    searcher = prepared(OptunaSearch(seed=1), {"x": tune.uniform(0, 1)}, ["a", "b"], ["min", "max"])
    drive(searcher, 8, objective=lambda config: {"a": config["x"], "b": config["x"]})
    assert len(searcher._study.best_trials) == 8, "each is best of its kind"


def test_define_by_run() -> None:
    def space(trial: Any) -> dict[str, Any]:
        if trial.suggest_categorical("kind", ["a", "b"]) == "a":
            trial.suggest_float("only_a", 0, 1)
        return {"constant": 3}

    searcher = prepared(OptunaSearch(space=space, seed=1), {})
    found = drive(searcher, 12, objective=lambda config: config.get("only_a", 2.0))
    assert all(config["constant"] == 3 for config in found)
    assert {"only_a" in config for config in found} == {True, False}
    assert all(("only_a" in config) == (config["kind"] == "a") for config in found)


def test_intermediate_values_and_failures() -> None:
    searcher = prepared(OptunaSearch(seed=1))
    for number in range(3):
        searcher.suggest(str(number))
    searcher.on_trial_result("0", {"loss": 5.0, "training_iteration": 1})
    searcher.on_trial_complete("0", {"loss": 4.0})
    searcher.on_trial_complete("1", error=True)
    searcher.on_trial_complete("2", {})
    states = [trial.state.name for trial in searcher._study.trials]
    assert states == ["COMPLETE", "FAIL", "PRUNED"]
    assert searcher._study.trials[0].intermediate_values == {1: 5.0}


def test_a_storage(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/study.db"
    storage = optuna.storages.RDBStorage(url)
    drive(prepared(OptunaSearch(storage=storage, study_name="mine", seed=1)), 3)
    assert len(optuna.load_study(study_name="mine", storage=storage).trials) == 3
    storage.engine.dispose()


def test_a_searcher_that_was_saved_goes_on(tmp_path: Path) -> None:
    whole = drive(prepared(OptunaSearch(seed=5)), 20)
    first = prepared(OptunaSearch(seed=5))
    drive(first, 12)
    first.save(str(tmp_path / "state"))
    second = prepared(OptunaSearch())
    second.restore(str(tmp_path / "state"))
    assert drive(second, 8, first=12) == whole[12:]


@pytest.mark.parametrize(
    ("domain", "expected"),
    [
        (tune.uniform(0, 2), "FloatDistribution(high=2.0, log=False, low=0.0, step=None)"),
        (tune.quniform(0, 2, 0.5), "FloatDistribution(high=2.0, log=False, low=0.0, step=0.5)"),
        (tune.loguniform(1, 100), "FloatDistribution(high=100.0, log=True, low=1.0, step=None)"),
        (tune.randint(0, 10), "IntDistribution(high=9, log=False, low=0, step=1)"),
        (tune.qrandint(0, 10, 5), "IntDistribution(high=10, log=False, low=0, step=5)"),
        (tune.lograndint(1, 10), "IntDistribution(high=9, log=True, low=1, step=1)"),
        (tune.choice(["a", "b"]), "CategoricalDistribution(choices=('a', 'b'))"),
    ],
)
def test_distributions(domain: Any, expected: str) -> None:
    assert str(OptunaSearch.convert_search_space({"p": domain})["p"]) == expected


def test_normal_is_refused() -> None:
    with pytest.raises(ValueError, match="has no normal distribution, but 'p' is one"):
        OptunaSearch.convert_search_space({"p": tune.randn()})


def test_a_limiter() -> None:
    searcher = prepared(ConcurrencyLimiter(OptunaSearch(seed=1), 2))
    assert searcher.suggest("a") and searcher.suggest("b")
    assert searcher.suggest("c") is None
    searcher.on_trial_complete("a", {"loss": 1.0})
    assert searcher.suggest("c")


def test_a_limiter_with_batches() -> None:
    inner = OptunaSearch(seed=1)
    searcher = prepared(ConcurrencyLimiter(inner, 2, batch=True))
    searcher.suggest("a"), searcher.suggest("b")
    searcher.on_trial_complete("a", {"loss": 1.0})
    assert searcher.suggest("c") is None
    assert [trial.state.name for trial in inner._study.trials] == ["RUNNING", "RUNNING"]
    searcher.on_trial_complete("b", {"loss": 1.0})
    assert [trial.state.name for trial in inner._study.trials] == ["COMPLETE", "COMPLETE"]
    assert searcher.suggest("c")


def test_a_repeater_tells_the_mean() -> None:
    inner = OptunaSearch(seed=1)
    searcher = prepared(Repeater(inner, 3))
    configs: list[Any] = [searcher.suggest(name) for name in "abc"]
    assert [config["__trial_index__"] for config in configs] == [0, 1, 2]
    assert len({config["x"] for config in configs}) == 1
    for name, value in zip("abc", (1.0, 2.0, 6.0), strict=True):
        searcher.on_trial_complete(name, {"loss": value})
    assert inner._study.trials[0].value == 3.0
    assert searcher.suggest("d")["x"] != configs[0]["x"]  # type: ignore[index, call-overload]


def test_hyperopt() -> None:
    pytest.importorskip("hyperopt")
    from skate.tune.search.hyperopt import HyperOptSearch

    point = {"x": 0.25, "deep": {"y": 1.2}, "kind": "b"}
    searcher = prepared(HyperOptSearch(random_state_seed=1, n_initial_points=5, points_to_evaluate=[point]))
    found = drive(searcher, 30)
    assert found[0] == point
    assert min(map(loss, found)) < 0.1
    again = drive(
        prepared(HyperOptSearch(random_state_seed=1, n_initial_points=5, points_to_evaluate=[point])), 30
    )
    assert again == found


def test_hyperopt_s_domains() -> None:
    pytest.importorskip("hyperopt")
    from skate.tune.search.hyperopt import HyperOptSearch

    space = {
        "i": tune.randint(2, 5),
        "q": tune.quniform(0, 1, 0.25),
        "n": tune.randn(),
        "l": tune.lograndint(1, 100),
    }
    searcher = prepared(HyperOptSearch(random_state_seed=1), space)
    for config in drive(searcher, 20, objective=lambda config: 0.0):
        assert config["i"] in (2, 3, 4) and config["q"] in (0, 0.25, 0.5, 0.75, 1)
        assert isinstance(config["l"], int)


def test_bayesopt() -> None:
    pytest.importorskip("bayes_opt")
    from skate.tune.search.bayesopt import BayesOptSearch

    space = {"x": tune.uniform(0, 1), "deep": {"y": tune.uniform(0.1, 10)}}
    searcher = prepared(BayesOptSearch(random_search_steps=4, random_state=3), space)
    found = drive(searcher, 14, objective=lambda config: loss({**config, "kind": "a"}))
    assert min(loss({**config, "kind": "a"}) for config in found) < 0.5
    with pytest.raises(ValueError, match="searches only real numbers"):
        prepared(BayesOptSearch(), {"x": tune.randint(0, 3)})


def test_seeded_points_of_bayesopt() -> None:
    pytest.importorskip("bayes_opt")
    from skate.tune.search.bayesopt import BayesOptSearch

    space = {"x": tune.uniform(0, 1), "y": (8.0, 9.0)}
    first, again = (BayesOptSearch(space, "loss", "min", random_state=4).suggest("a") for _ in range(2))
    assert first == again and 8 <= first["y"] <= 9  # type: ignore[index, operator]
    assert BayesOptSearch(space, "loss", "min", random_state=5).suggest("a") != first
    with pytest.raises(ValueError, match="slashes"):
        prepared(BayesOptSearch(), {"x/y": tune.uniform(0, 1)})


def test_spaces_of_hyperopt() -> None:
    hyperopt = pytest.importorskip("hyperopt")
    from skate.tune.search.hyperopt import HyperOptSearch

    same = {"random_state_seed": 7, "metric": "loss", "mode": "min"}
    space = {"a": tune.choice([2, 3, 4]), "b": {"x": tune.randint(-15, -10), "y": 4}}
    own = {"a": hyperopt.hp.choice("a", [2, 3, 4]), "b": {"x": hyperopt.hp.uniformint("x", -15, -11), "y": 4}}
    first = HyperOptSearch(HyperOptSearch.convert_search_space(space), **same).suggest("0")
    assert first == HyperOptSearch(own, **same).suggest("0")
    assert first["b"]["y"] == 4  # type: ignore[index, call-overload]

    nested = {
        "net": tune.choice([{"layers": tune.randint(1, 3)}, [tune.choice("ab"), tune.choice("cd")]]),
        "c": 1,
    }
    found = drive(prepared(HyperOptSearch(random_state_seed=7), nested), 12, objective=lambda config: 0.0)
    nets = [config["net"] for config in found]
    assert {type(net) for net in nets} == {dict, tuple}
    for net in nets:
        assert net["layers"] in (1, 2) if isinstance(net, dict) else net[0] in "ab" and net[1] in "cd"
    for points, wrong in (({"a": 3}, "'b/x' is missing"), ({"a": 9, "b": {"x": -11}}, "none of its choices")):
        with pytest.raises(ValueError, match=wrong):
            prepared(HyperOptSearch(points_to_evaluate=[points]), space).suggest("0")
    listed = HyperOptSearch(
        {"n": [tune.randint(0, 10), tune.randint(0, 10)]}, points_to_evaluate=[{"n": [2, 4]}], **same
    )
    assert list(listed.suggest("0")["n"]) == [2, 4]  # type: ignore[index, call-overload]
    with pytest.raises(RuntimeError, match="This issue can also come up with HyperOpt"):
        prepared(HyperOptSearch(), {"a": 4})


def test_spaces_in_a_library_s_own_terms() -> None:
    optuna, zoopt = pytest.importorskip("optuna"), pytest.importorskip("zoopt")
    from skate.tune.search.optuna import OptunaSearch
    from skate.tune.search.zoopt import ZOOptSearch

    whole = optuna.distributions.IntDistribution(0, 4, step=2)
    assert OptunaSearch({"a": {"b": whole}}, "loss", "min").suggest("0")["a"]["b"] in (0, 2, 4)  # type: ignore[index]
    mixed = {"a": tune.uniform(5, 6), "b": (zoopt.ValueType.CONTINUOUS, [8, 9], 1e-4)}
    point = ZOOptSearch(budget=5, dim_dict=mixed, metric="loss", mode="min").suggest("0")
    assert 5 <= point["a"] <= 6 and 8 <= point["b"] <= 9  # type: ignore[index, operator, call-overload]


class _StandIn:
    """Stands for an optimizer of Nevergrad: asks for points on a line."""

    budget = 3
    num_ask = 0

    def __init__(self, parametrization: Any, **given: Any) -> None:
        self.values: list[float] = []

    def suggest(self, **point: Any) -> None:
        self.first = point

    def ask(self) -> Any:
        self.num_ask += 1
        return types.SimpleNamespace(kwargs={"x": self.num_ask / 10})

    def tell(self, suggestion: Any, value: float) -> None:
        self.values.append(value)


def test_nevergrad_with_a_stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    scalar = types.SimpleNamespace(Scalar=lambda **given: given, Instrumentation=lambda **given: given)
    package = types.SimpleNamespace(p=scalar, optimizers=types.SimpleNamespace(NGOpt=_StandIn))
    monkeypatch.setitem(sys.modules, "nevergrad", package)  # type: ignore[arg-type]
    from skate.tune.search.nevergrad import NevergradSearch

    searcher = prepared(NevergradSearch(), {"x": tune.uniform(0, 1)}, mode="max")
    found = drive(searcher, 3, objective=lambda config: config["x"])
    assert [config["x"] for config in found] == [0.1, 0.2, 0.3]
    assert searcher._model.values == [-0.1, -0.2, -0.3]
    assert searcher.suggest("more") == Searcher.FINISHED


@pytest.mark.parametrize(
    ("name", "package"),
    [("ax", "Ax"), ("nevergrad", "Nevergrad"), ("bohb", "HpBandSter|ConfigSpace"), ("zoopt", "ZOOpt")],
)
def test_a_library_that_is_not_there(name: str, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("ax", "ax.service", "nevergrad", "hpbandster", "hpbandster.optimizers", "zoopt"):
        monkeypatch.setitem(sys.modules, module, None)  # type: ignore[arg-type]
    with pytest.raises(ImportError, match=f"needs ({package}), which is not installed: pip install"):
        create_searcher(name)


def test_searchers_by_name() -> None:
    assert isinstance(create_searcher("optuna", seed=1, unknown=3), OptunaSearch)
