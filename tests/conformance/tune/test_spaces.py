"""Search spaces: draws, their order, and seeds."""

from __future__ import annotations

import numpy as np
import pytest
from ray import tune
from ray.tune import Experiment
from ray.tune.search import BasicVariantGenerator
from ray.tune.search.sample import Categorical, Float, Function, Integer
from ray.tune.search.variant_generator import format_vars, generate_variants

DOMAINS = {
    "uniform": (lambda: tune.uniform(0, 1), Float),
    "quniform": (lambda: tune.quniform(0, 1, 0.25), Float),
    "loguniform": (lambda: tune.loguniform(1e-4, 1), Float),
    "qloguniform": (lambda: tune.qloguniform(1e-4, 1, 1e-4), Float),
    "randn": (lambda: tune.randn(2, 3), Float),
    "qrandn": (lambda: tune.qrandn(2, 3, 0.5), Float),
    "randint": (lambda: tune.randint(0, 10), Integer),
    "qrandint": (lambda: tune.qrandint(0, 10, 2), Integer),
    "lograndint": (lambda: tune.lograndint(1, 100), Integer),
    "qlograndint": (lambda: tune.qlograndint(1, 100, 3), Integer),
    "choice": (lambda: tune.choice(["a", "b", "c"]), Categorical),
    "sample_from": (lambda: tune.sample_from(lambda: 3), Function),
}
# What numpy's RandomState(1) gives, read from Ray 2.60.
DRAWN = {
    "uniform": 0.417022004702574,
    "quniform": 0.5,
    "loguniform": 0.004656804637919571,
    "randn": 6.873036090989725,
    "qrandn": 7.0,
    "randint": 5,
    "qrandint": 10,
    "lograndint": 6,
    "qlograndint": 12,
    "choice": "b",
    "sample_from": 3,
}


@pytest.mark.parametrize("name", DOMAINS)
def test_kind_of_domain(name):
    make, kind = DOMAINS[name]
    assert isinstance(make(), kind)


@pytest.mark.parametrize("name", DRAWN)
def test_a_seed_gives_the_same_value(name):
    make, _ = DOMAINS[name]
    found = make().sample(random_state=np.random.RandomState(1))
    assert found == pytest.approx(DRAWN[name]) if isinstance(found, float) else found == DRAWN[name]


@pytest.mark.parametrize("name", DOMAINS)
def test_several_at_a_time(name):
    make, _ = DOMAINS[name]
    found = make().sample(size=50, random_state=np.random.RandomState(3))
    assert len(found) == 50


@pytest.mark.parametrize(
    ("make", "low", "high"),
    [
        (lambda: tune.uniform(-1, 2), -1, 2),
        (lambda: tune.loguniform(0.01, 10), 0.01, 10),
        (lambda: tune.randint(3, 6), 3, 5),
        (lambda: tune.qrandint(2, 8, 2), 2, 8),
        (lambda: tune.lograndint(1, 50), 1, 49),
        (lambda: tune.quniform(0, 1, 0.1), 0, 1),
    ],
    ids=["uniform", "loguniform", "randint", "qrandint", "lograndint", "quniform"],
)
def test_bounds(make, low, high):
    drawn = make().sample(size=500, random_state=np.random.RandomState(0))
    assert min(drawn) >= low
    assert max(drawn) <= high + 1e-9


def test_randint_leaves_its_upper_bound_out_and_qrandint_does_not():
    source = np.random.RandomState(0)
    assert set(tune.randint(0, 3).sample(size=200, random_state=source)) == {0, 1, 2}
    assert set(tune.qrandint(0, 4, 2).sample(size=200, random_state=source)) == {0, 2, 4}


def test_bounds_of_a_logarithm():
    for make in (
        lambda: tune.loguniform(0, 1),
        lambda: tune.loguniform(-1, 1),
        lambda: tune.lograndint(0, 10),
    ):
        with pytest.raises(ValueError):
            make()


def test_a_bound_that_is_no_multiple_of_the_step():
    with pytest.raises(ValueError):
        tune.quniform(0.05, 1, 0.1)


def test_is_valid():
    assert tune.uniform(0, 1).is_valid(0.5)
    assert not tune.uniform(0, 1).is_valid(2)
    assert not tune.choice([1]).is_valid(2)


def test_choices_are_a_sequence():
    domain = tune.choice(["x", "y"])
    assert len(domain) == 2
    assert domain[0] == "x"


def test_domain_str():
    assert tune.uniform(0, 1).domain_str == "(0, 1)"
    assert tune.choice([1, 2]).domain_str == "[1, 2]"


def variants(space, seed=0, **options):
    return [
        config for _, config in generate_variants(space, random_state=np.random.RandomState(seed), **options)
    ]


def test_grids_are_crossed_and_the_first_turns_fastest():
    found = variants({"a": tune.grid_search([1, 2]), "b": tune.grid_search([3, 4])})
    assert found == [{"a": 1, "b": 3}, {"a": 2, "b": 3}, {"a": 1, "b": 4}, {"a": 2, "b": 4}]


def test_everything_else_is_drawn_at_each_point_of_a_grid():
    found = variants({"a": tune.uniform(0, 1), "b": tune.grid_search([1, 2])})
    assert found[0]["a"] != found[1]["a"]


def test_constant_grid_search_draws_once():
    space = {"a": tune.uniform(0, 1), "b": tune.grid_search([1, 2]), "c": tune.grid_search([3, 4])}
    found = variants(space, constant_grid_search=True)
    assert len({config["a"] for config in found}) == 1
    assert [(config["b"], config["c"]) for config in found] == [(1, 3), (2, 3), (1, 4), (2, 4)]


def test_a_seed_gives_the_same_variants():
    space = {
        "a": tune.uniform(0, 1),
        "b": tune.grid_search([1, 2]),
        "c": tune.choice(["x", "y", "z"]),
        "d": {"e": tune.randint(0, 100)},
    }
    first, second = variants(space)
    assert first == {"a": pytest.approx(0.5488135039273248), "b": 1, "c": "y", "d": {"e": 64}}
    assert second == {"a": pytest.approx(0.6027633760716439), "b": 2, "c": "y", "d": {"e": 83}}


def test_nested_dicts_lists_and_tuples():
    [found] = variants(
        {"l": [1, tune.uniform(0, 1)], "t": (tune.uniform(0, 1), 2), "d": {"d": {"x": tune.choice([7])}}}
    )
    assert found["l"][0] == 1
    assert 0 <= found["l"][1] <= 1
    assert found["t"][1] == 2
    assert found["d"] == {"d": {"x": 7}}


def test_a_function_of_the_configuration():
    [found] = variants({"a": tune.uniform(0, 1), "b": tune.sample_from(lambda config: config["a"] * 2)})
    assert found["b"] == found["a"] * 2


def test_a_function_before_what_it_asks_for():
    [found] = variants({"b": tune.sample_from(lambda spec: spec.config.a * 2), "a": tune.uniform(0, 1)})
    assert found["b"] == found["a"] * 2


@pytest.mark.chosen_difference("such functions wait for what they ask for as well", id="D-tune-functions")
def test_a_function_by_the_configuration_before_what_it_asks_for():
    [found] = variants({"b": tune.sample_from(lambda config: config["a"] * 2), "a": tune.uniform(0, 1)})
    assert found["b"] == found["a"] * 2


def test_a_function_of_a_grid():
    space = {"config": {"a": tune.grid_search([1, 2]), "b": tune.sample_from(lambda spec: spec.config.a * 2)}}
    assert variants(space) == [{"config": {"a": 1, "b": 2}}, {"config": {"a": 2, "b": 4}}]


def test_functions_that_ask_for_each_other():
    space = {
        "a": tune.sample_from(lambda spec: spec.config.b),
        "b": tune.sample_from(lambda spec: spec.config.a),
    }
    with pytest.raises(Exception, match="depend"):
        variants(space)


def test_domains_within_a_choice():
    [found] = variants({"a": tune.choice([{"x": tune.uniform(0, 1)}, {"y": tune.uniform(5, 6)}])})
    assert list(found["a"]) in (["x"], ["y"])


def test_grids_and_domains_within_a_grid():
    found = variants({"g": tune.grid_search([tune.grid_search([1, 2]), tune.uniform(0, 1)])})
    assert [config["g"] for config in found[:2]] == [1, 2]
    assert 0 <= found[2]["g"] <= 1


def test_a_plain_function_is_a_value():
    def plain(spec):
        return 5

    assert variants({"a": plain}) == [{"a": plain}]


def test_format_vars():
    found = format_vars({("config", "b", "c"): "str/ng", ("config", "a"): 0.123456789, ("n",): 10})
    assert found == "a=0.1235,c=str_ng,n=10"


def trials(generator, space, samples):
    generator.add_configurations(Experiment("e", lambda config: 1, config=space, num_samples=samples))
    found = []
    while (trial := generator.next_trial()) is not None:
        found.append(trial)
    return found


def test_basic_variants_with_a_seed():
    space = {"a": tune.uniform(0, 1), "b": tune.choice([1, 2, 3]), "c": tune.grid_search([1, 2])}
    found = trials(BasicVariantGenerator(random_state=42), space, 2)
    assert [trial.config["a"] for trial in found] == pytest.approx(
        [0.7739560485559633, 0.8585979199113825, 0.6973680290593639, 0.9756223516367559]
    )
    assert [trial.config["b"] for trial in found] == [2, 2, 1, 1]
    assert [trial.config["c"] for trial in found] == [1, 2, 1, 2]
    assert found[0].experiment_tag == "0_a=0.7740,b=2,c=1"
    assert found[0].evaluated_params == found[0].config


def test_points_to_evaluate_come_first():
    space = {"a": tune.uniform(0, 1), "b": tune.choice([1, 2, 3]), "c": tune.grid_search([1, 2])}
    generator = BasicVariantGenerator(points_to_evaluate=[{"a": 0.5, "b": 2}, {"c": 1, "a": 0.25}])
    found = trials(generator, space, 3)
    assert generator.total_samples == 5
    assert [trial.config for trial in found[:2]] == [{"a": 0.5, "b": 2, "c": 1}, {"a": 0.5, "b": 2, "c": 2}]
    assert found[2].config["a"] == 0.25
    assert found[0].evaluated_params == {"c": 1}


def test_trial_ids_count():
    found = trials(BasicVariantGenerator(), {"a": tune.grid_search([1, 2, 3])}, 1)
    assert [trial.trial_id.rpartition("_")[2] for trial in found] == ["00000", "00001", "00002"]
