"""Stoppers, asked directly."""

from __future__ import annotations

import datetime

import pytest
from ray.tune.stopper import (
    CombinedStopper,
    ExperimentPlateauStopper,
    FunctionStopper,
    MaximumIterationStopper,
    NoopStopper,
    TimeoutStopper,
    TrialPlateauStopper,
)


def test_maximum_iteration_counts_each_trial():
    stopper = MaximumIterationStopper(3)
    assert [stopper("a", {}) for _ in range(3)] == [False, False, True]
    assert not stopper("b", {})
    assert not stopper.stop_all()


def test_noop():
    assert not NoopStopper()("a", {})
    assert not NoopStopper().stop_all()


def test_function():
    stopper = FunctionStopper(lambda trial_id, result: result["x"] > 2)
    assert [stopper("a", {"x": x}) for x in (1, 3)] == [False, True]
    assert FunctionStopper.is_valid_function(lambda a, b: True)


def test_combined_stops_when_one_does():
    stopper = CombinedStopper(
        MaximumIterationStopper(5), FunctionStopper(lambda trial_id, result: result["x"] > 2)
    )
    assert [stopper("a", {"x": x}) for x in (1, 3, 1)] == [False, True, False]


def test_timeout_of_nothing_has_passed():
    stopper = TimeoutStopper(0)
    stopper.stop_all()
    assert stopper.stop_all()


@pytest.mark.parametrize("timeout", [1000, datetime.timedelta(seconds=1000)])
def test_timeout_has_not_passed(timeout):
    stopper = TimeoutStopper(timeout)
    assert not stopper.stop_all()
    assert not stopper("a", {})


def test_timeout_of_another_kind():
    with pytest.raises(ValueError):
        TimeoutStopper("soon")


def test_trial_plateau():
    stopper = TrialPlateauStopper("x", std=0.01, num_results=3, grace_period=3)
    assert [stopper("a", {"x": x}) for x in (1, 2, 3, 3, 3)] == [False, False, False, False, True]


def test_trial_plateau_only_beyond_a_threshold():
    stopper = TrialPlateauStopper("x", num_results=2, grace_period=2, metric_threshold=1.0, mode="min")
    assert [stopper("a", {"x": x}) for x in (5, 5, 5)] == [False, False, False]
    assert [stopper("b", {"x": x}) for x in (0.5, 0.5)] == [False, True]


def test_trial_plateau_threshold_needs_a_mode():
    with pytest.raises(ValueError):
        TrialPlateauStopper("x", metric_threshold=1)


def test_experiment_plateau():
    stopper = ExperimentPlateauStopper("x", std=0.01, top=3, mode="max")
    assert [stopper(str(x), {"x": x}) for x in (1, 2, 5)] == [False, False, False]
    assert [stopper("y", {"x": 5}) for _ in range(2)] == [False, True]
    assert stopper.stop_all()


def test_experiment_plateau_with_patience():
    stopper = ExperimentPlateauStopper("x", top=2, mode="max", patience=2)
    assert [stopper("a", {"x": 5}) for _ in range(4)] == [False, False, True, True]


@pytest.mark.parametrize("given", [{"mode": "x"}, {"top": 0}, {"patience": -1}, {"std": 0}])
def test_experiment_plateau_of_bad_arguments(given):
    with pytest.raises(ValueError):
        ExperimentPlateauStopper("x", **given)
