"""Decisions of schedulers, called directly by a search without processes, and rejected arguments."""

from __future__ import annotations

import hashlib
import json
import pathlib
from unittest.mock import MagicMock

import pytest
from ray import tune
from ray.tune.error import TuneError
from ray.tune.experiment import Trial
from ray.tune.schedulers import (
    ASHAScheduler,
    AsyncHyperBandScheduler,
    FIFOScheduler,
    HyperBandForBOHB,
    HyperBandScheduler,
    MedianStoppingRule,
    PopulationBasedTraining,
    PopulationBasedTrainingReplay,
    ResourceChangingScheduler,
    TrialScheduler,
)
from ray.tune.schedulers.pb2 import PB2
from searches import FakeSearch

#: Digests of what Ray 2.60 decided in searches of three seeds.
DECISIONS = json.loads(pathlib.Path(__file__).with_name("decisions.json").read_text())
NAN, INF = float("nan"), float("inf")


def asha(mode, factor, stop_last):
    return ASHAScheduler(
        metric="value", mode=mode, grace_period=2 if factor == 3 else 1, max_t=8, reduction_factor=factor,
        stop_last_trials=stop_last == "True",
    )  # fmt: skip


def median(mode, grace, samples, apart, hard):
    return MedianStoppingRule(
        metric="value", mode=mode, grace_period=float(grace), min_samples_required=int(samples),
        min_time_slice=int(apart), hard_stop=hard == "True",
    )  # fmt: skip


def made(kind, mode, rest):
    if kind == "asha":
        return asha(mode, int(rest[0]), rest[1])
    if kind == "median":
        return median(mode, *rest)
    bands = {"hyperband": HyperBandScheduler, "bohb": HyperBandForBOHB}[kind]
    return bands(
        metric="value",
        mode=mode,
        max_t=int(rest[0]),
        reduction_factor=int(rest[1]),
        stop_last_trials=rest[2] == "True",
    )


@pytest.mark.parametrize("name", sorted(DECISIONS))
def test_decisions_are_those_of_ray(name):
    kind, mode, strange, *rest = name.split("-")
    count = 25 if kind in ("hyperband", "bohb") else 12
    found = [
        FakeSearch(made(kind, mode, rest), count, seed=seed, strange=float(strange)).run()
        for seed in range(3)
    ]
    assert [hashlib.sha256(each.encode()).hexdigest()[:10] for each in found] == DECISIONS[name]


def report_result(scheduler, trial, controller=None, **result):
    return scheduler.on_trial_result(controller or MagicMock(), trial, result)


def trials(scheduler, count, controller=None):
    found = [Trial("fake", trial_id=f"t{number}", stub=True) for number in range(count)]
    for trial in found:
        scheduler.on_trial_add(controller, trial)
        trial.status = Trial.RUNNING
    return found


def test_a_nan_at_a_rung_ends_nobody():
    scheduler = ASHAScheduler(metric="m", mode="max", grace_period=1, max_t=10, reduction_factor=2)
    first, second, third = trials(scheduler, 3)
    assert report_result(scheduler, first, training_iteration=1, m=450.0) == "CONTINUE"
    assert report_result(scheduler, second, training_iteration=1, m=NAN) == "CONTINUE"
    assert report_result(scheduler, third, training_iteration=1, m=500.0) == "CONTINUE"


@pytest.mark.parametrize("value", [INF, -INF])
def test_infinity_at_a_rung_is_taken(value):
    scheduler = ASHAScheduler(metric="m", mode="max", grace_period=1, max_t=10, reduction_factor=2)
    first, second = trials(scheduler, 2)
    assert report_result(scheduler, first, training_iteration=1, m=value) == "CONTINUE"
    assert report_result(scheduler, second, training_iteration=1, m=1.0) == "CONTINUE"


@pytest.mark.parametrize("make", [ASHAScheduler, MedianStoppingRule])
def test_a_result_without_the_metric_is_passed_over(make):
    scheduler = make(metric="m", mode="max")
    [trial] = trials(scheduler, 1)
    assert report_result(scheduler, trial, training_iteration=500, time_total_s=500.0, other=1) == "CONTINUE"


@pytest.mark.parametrize("make", [ASHAScheduler, MedianStoppingRule])
def test_a_result_without_the_time_is_passed_over(make):
    scheduler = make(metric="m", mode="max")
    [trial] = trials(scheduler, 1)
    assert report_result(scheduler, trial, m=1) == "CONTINUE"


def test_a_trial_ends_at_max_t():
    scheduler = ASHAScheduler(metric="m", mode="max", max_t=3)
    [trial] = trials(scheduler, 1)
    assert [report_result(scheduler, trial, training_iteration=at, m=at) for at in (1, 2, 3)] == [
        "CONTINUE",
        "CONTINUE",
        "STOP",
    ]


def test_the_state_of_asha_is_saved_and_restored(tmp_path):
    scheduler = ASHAScheduler(metric="m", mode="max", grace_period=1, max_t=10, reduction_factor=2)
    first, second = trials(scheduler, 2)
    assert report_result(scheduler, first, training_iteration=1, m=10) == "CONTINUE"
    scheduler.save(str(tmp_path / "state"))
    another = ASHAScheduler()
    another.restore(str(tmp_path / "state"))
    assert another.metric == "m"
    assert report_result(another, second, training_iteration=1, m=4) == "STOP"


@pytest.mark.parametrize(
    ("given", "phrase"),
    [
        ({"max_t": 0}, "not valid"),
        ({"grace_period": 0}, "grace_period must be positive"),
        ({"grace_period": 200}, "must be <= max_t"),
        ({"reduction_factor": 1}, "Reduction Factor not valid"),
        ({"brackets": 0}, "brackets must be positive"),
        ({"mode": "maximum"}, "must be 'min' or 'max'"),
    ],
)
def test_asha_refuses(given, phrase):
    with pytest.raises(AssertionError, match=phrase):
        AsyncHyperBandScheduler(**given)


@pytest.mark.parametrize("make", [MedianStoppingRule, HyperBandScheduler, HyperBandForBOHB])
def test_modes_are_min_and_max(make):
    with pytest.raises(AssertionError, match="must be 'min' or 'max'"):
        make(mode="maximum")


def test_hyperband_refuses_a_time_of_nothing():
    with pytest.raises(AssertionError, match="not valid"):
        HyperBandScheduler(max_t=0)


@pytest.mark.parametrize(
    ("scheduler", "text"),
    [
        (FIFOScheduler(), "Using FIFO scheduling algorithm."),
        (ASHAScheduler(max_t=8), "Using AsyncHyperBand: num_stopped=0"),
        (MedianStoppingRule(), "Using MedianStoppingRule: num_stopped=0."),
        (HyperBandScheduler(), "Using HyperBand: num_stopped=0 total_brackets=0"),
        (HyperBandForBOHB(), "Using HyperBand: num_stopped=0 total_brackets=0"),
        (ResourceChangingScheduler(), "(ResourceChangingScheduler) Using FIFO scheduling algorithm."),
        (PopulationBasedTraining(hyperparam_mutations={"a": [1]}), "PopulationBasedTraining: 0 checkpoints, 0 perturbs"),
    ],
)  # fmt: skip
def test_debug_strings(scheduler, text):
    assert text in scheduler.debug_string()


def test_the_debug_string_of_a_bracket():
    scheduler = HyperBandScheduler(metric="value", mode="max", max_t=8)
    FakeSearch(scheduler, 5).run()
    assert scheduler.debug_string() == (
        "Using HyperBand: num_stopped=0 total_brackets=2\nRound #0:\n"
        "  Bracket(Max Size (n)=3, Milestone (r)=8, completed=100.0%): {TERMINATED: 3} \n"
        "  Bracket(Max Size (n)=2, Milestone (r)=6, completed=100.0%): {TERMINATED: 2} "
    )


@pytest.mark.parametrize(
    ("make", "buffered"),
    [(FIFOScheduler, True), (ASHAScheduler, True), (HyperBandScheduler, False), (HyperBandForBOHB, False)],
)  # fmt: skip
def test_whether_results_may_be_buffered(make, buffered):
    assert make().supports_buffered_results is buffered


@pytest.mark.parametrize("make", [ASHAScheduler, MedianStoppingRule, HyperBandScheduler, HyperBandForBOHB])
def test_search_properties_are_taken_once(make):
    scheduler = make()
    assert scheduler.set_search_properties("m", "min") is True
    assert scheduler.metric == "m"
    assert scheduler.set_search_properties("other", "min") is False


def test_hyperband_fills_one_bracket_after_the_other():
    scheduler = HyperBandScheduler(metric="m", mode="max")
    for number in range(5):
        scheduler.on_trial_add(None, Trial("fake", trial_id=str(number), stub=True))
    assert scheduler.state() == {"num_brackets": 1, "num_stopped": 0}
    scheduler.on_trial_add(None, Trial("fake", trial_id="5", stub=True))
    assert scheduler.state()["num_brackets"] == 2


def test_bohb_fills_the_largest_bracket_first():
    scheduler = HyperBandForBOHB(metric="m", mode="max", max_t=3, reduction_factor=3)
    for number in range(3):
        scheduler.on_trial_add(None, Trial("fake", trial_id=str(number), stub=True))
    assert scheduler.state()["num_brackets"] == 1
    scheduler.on_trial_add(None, Trial("fake", trial_id="3", stub=True))
    assert scheduler.state()["num_brackets"] == 2


@pytest.mark.parametrize(("mode", "last", "gone_on"), [("max", "STOP", 1), ("min", "CONTINUE", 0)])
def test_bohb_tells_the_searcher_of_pauses_and_budgets(mode, last, gone_on):
    scheduler = HyperBandForBOHB(metric="m", mode=mode, max_t=3, reduction_factor=3)
    search = FakeSearch(scheduler, 3, room=9)
    for trial in search.trials:
        trial.status = Trial.RUNNING
    for trial, value in zip(search.trials[:2], (1, 2), strict=True):
        assert report_result(scheduler, trial, search, training_iteration=1, m=value) == "PAUSE"
        trial.status = Trial.PAUSED
    result = {"training_iteration": 1, "m": 0}
    assert scheduler.on_trial_result(search, search.trials[2], result) == last
    assert result["hyperband_info"] == {"budget": 1}
    if last == "STOP":
        search.trials[2].status = Trial.TERMINATED
        assert scheduler.choose_trial_to_run(search) is search.trials[1]
    searcher = search.search_alg.searcher
    assert searcher.on_pause.call_count == 2
    assert searcher.on_unpause.call_count == gone_on


def test_the_median_counts_the_last_result_of_a_trial_that_has_ended():
    scheduler = MedianStoppingRule(metric="m", mode="max", grace_period=0, min_samples_required=1)
    first, second = trials(scheduler, 2)
    for at in range(10):
        report_result(scheduler, first, time_total_s=at, m=at * 100)
    assert report_result(scheduler, second, time_total_s=100, m=0) == "CONTINUE"
    scheduler.on_trial_complete(MagicMock(), first, {"time_total_s": 101, "m": 1000})
    assert report_result(scheduler, second, time_total_s=101, m=0) == "STOP"


@pytest.mark.parametrize("value", [NAN, INF, -INF])
def test_the_median_leaves_out_averages_that_are_no_numbers(value):
    scheduler = MedianStoppingRule(metric="m", mode="max", grace_period=0, min_samples_required=1)
    first, second = trials(scheduler, 2)
    report_result(scheduler, first, time_total_s=5, m=value)
    assert report_result(scheduler, second, time_total_s=5, m=1.0) == "CONTINUE"


@pytest.mark.parametrize(
    ("given", "error", "phrase"),
    [
        ({}, TuneError, "hyperparam_mutations` or `custom_explore_fn"),
        ({"hyperparam_mutations": {"a": "text"}}, TypeError, "a List, Tuple, Dict, a tune search space object, or a callable"),
        ({"hyperparam_mutations": {"a": 5}}, TypeError, "either a List, Tuple"),
        ({"hyperparam_mutations": {"a": {1, 2}}}, TypeError, "either a List, Tuple"),
        ({"hyperparam_mutations": {"a": tune.sample_from(lambda _: 1)}}, ValueError, "sample_from objects are not supported"),
        ({"hyperparam_mutations": {"a": [1]}, "quantile_fraction": 0.7}, ValueError, "quantile_fraction"),
        ({"hyperparam_mutations": {"a": [1]}, "quantile_fraction": -1}, ValueError, "quantile_fraction"),
        ({"hyperparam_mutations": {"a": [1]}, "perturbation_interval": 0}, ValueError, "must be a positive number"),
    ],
)  # fmt: skip
def test_population_based_training_refuses(given, error, phrase):
    with pytest.raises(error, match=phrase):
        PopulationBasedTraining(**given)


@pytest.mark.parametrize(
    "mutations",
    [{"a": [1, 2]}, {"a": (1, 2)}, {"a": tune.uniform(0, 1)}, {"a": lambda: 1}, {"a": {"b": [1]}}, {"a": []}],
)
def test_population_based_training_takes(mutations):
    assert PopulationBasedTraining(hyperparam_mutations=mutations).metric is None


@pytest.mark.parametrize(
    ("given", "error", "phrase"),
    [
        ({}, TuneError, "hyperparam_bounds` must be specified"),
        ({"hyperparam_bounds": {"a": [1]}}, ValueError, "list or tuple of size 2"),
        ({"hyperparam_bounds": {"a": [2, 1]}}, ValueError, "low <= high"),
        ({"hyperparam_bounds": {"b": {"c": [2]}}}, ValueError, "'b/c'"),
        ({"hyperparam_bounds": {"a": 5}}, TypeError, "hyperparam"),
    ],
)
def test_pb2_refuses(given, error, phrase):
    with pytest.raises(error, match=phrase):
        PB2(**given)


@pytest.mark.parametrize("bounds", [{"a": [0, 1]}, {"a": (0, 1)}, {"a": [0, 1], "b": {"c": [2, 4]}}])
def test_pb2_takes_bounds_nested_or_not(bounds):
    assert PB2(metric="m", mode="max", hyperparam_bounds=bounds).metric == "m"


def test_a_replay_needs_a_policy(tmp_path):
    with pytest.raises(ValueError):
        PopulationBasedTrainingReplay(str(tmp_path / "policy.txt"))


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("fifo", FIFOScheduler),
        ("async_hyperband", AsyncHyperBandScheduler),
        ("asynchyperband", AsyncHyperBandScheduler),
        ("median_stopping_rule", MedianStoppingRule),
        ("medianstopping", MedianStoppingRule),
        ("hyperband", HyperBandScheduler),
        ("hb_bohb", HyperBandForBOHB),
        ("resource_changing", ResourceChangingScheduler),
    ],
)
def test_schedulers_by_name(name, kind):
    assert type(tune.create_scheduler(name)) is kind


def test_a_scheduler_of_no_name():
    with pytest.raises(ValueError, match="must be one of"):
        tune.create_scheduler("best")


def test_decisions_have_names():
    found = [getattr(TrialScheduler, name) for name in ("CONTINUE", "PAUSE", "STOP", "NOOP")]
    assert found == ["CONTINUE", "PAUSE", "STOP", "NOOP"]


def test_a_scheduler_without_a_choice_is_incomplete():
    with pytest.raises(NotImplementedError):
        TrialScheduler().choose_trial_to_run(MagicMock())


@pytest.mark.parametrize("mode", ["max", "min"])
def test_a_trial_among_the_worst_is_ended_in_either_mode(mode):
    scheduler = ASHAScheduler(metric="m", mode=mode, grace_period=1, max_t=10, reduction_factor=2)
    found = [
        report_result(scheduler, trial, training_iteration=1, m=value)
        for trial, value in zip(trials(scheduler, 3), (5, 1, 9), strict=True)
    ]
    assert found == (["CONTINUE", "STOP", "CONTINUE"] if mode == "max" else ["CONTINUE", "CONTINUE", "STOP"])
