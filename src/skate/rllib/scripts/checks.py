"""Checks of values and of the results of trainings."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from skate.rllib.core import DEFAULT_MODULE_ID
from skate.rllib.utils.metrics import ENV_RUNNER_RESULTS, EVALUATION_RESULTS, LEARNER_RESULTS, TIMERS
from skate.rllib.utils.metrics.statistics import Statistic
from skate.rllib.utils.numpy import convert_to_numpy

_RESULTS = (ENV_RUNNER_RESULTS, "fault_tolerance", LEARNER_RESULTS, TIMERS, "training_iteration", "config")


def check(
    x: Any,
    y: Any,
    decimals: int = 5,
    atol: float | None = None,
    rtol: float | None = None,
    false: bool = False,
) -> None:
    """Compare two nested values, numbers up to a tolerance.

    Args:
        x: A dict, list, tuple, array, tensor, number, statistic, or anything else with ``==``.
        y: What is expected of it.
        decimals: Digits after the point that numbers have in common.
        atol: Absolute tolerance, in the place of ``decimals``.
        rtol: Relative tolerance, in the place of ``decimals``.
        false: Check instead that every leaf differs.

    Raises:
        AssertionError: they differ, or are equal with ``false=True``.
    """
    more: dict[str, Any] = {"decimals": decimals, "atol": atol, "rtol": rtol, "false": false}
    x, y = (each.peek() if isinstance(each, Statistic) else each for each in (x, y))
    if isinstance(x, Mapping):
        assert isinstance(y, Mapping), f"{x!r} is a dict, {y!r} is not"
        assert x.keys() == y.keys(), f"the keys differ: {set(x) ^ set(y)}"
        for key in x:
            check(x[key], y[key], **more)
    elif isinstance(x, list | tuple):
        assert isinstance(y, list | tuple | np.ndarray), f"{x!r} is a list, {y!r} is not"
        assert len(x) == len(y), f"the lengths differ: {len(x)} and {len(y)}"
        for mine, other in zip(x, y, strict=True):
            check(mine, other, **more)
    elif x is None or y is None or isinstance(x, str | bytes | bool | np.bool_):
        assert (x == y) is not false, f"{x!r} {'equals' if false else 'is not'} {y!r}"
    elif isinstance(x, np.ndarray) and not is_numeric(x):
        assert np.array_equal(x, np.asarray(y)) is not false, f"{x!r} {'equals' if false else 'is not'} {y!r}"
    elif not is_numeric(x) or not is_numeric(y):
        assert bool(x == y) is not false, f"{x!r} {'equals' if false else 'is not'} {y!r}"
    else:
        _check_numbers(np.asarray(convert_to_numpy(x)), np.asarray(convert_to_numpy(y)), **more)


def is_numeric(value: Any) -> bool:
    """True for numbers, and for arrays and tensors of them."""
    return np.asarray(convert_to_numpy(value)).dtype.kind in "biufc"


def _check_numbers(
    x: np.ndarray, y: np.ndarray, decimals: int, atol: float | None, rtol: float | None, false: bool
) -> None:
    if atol is None and rtol is None:
        close = x.shape == y.shape and np.allclose(x, y, rtol=0.0, atol=1.5 * 10.0**-decimals, equal_nan=True)
    else:
        given = {name: value for name, value in (("atol", atol), ("rtol", rtol)) if value is not None}
        close = x.shape == y.shape and np.allclose(x, y, equal_nan=True, **given)
    assert close is not false, f"{x} {'equals' if false else 'is not'} {y}"


def check_learning_achieved(
    tune_results: Any,
    min_value: float,
    evaluation: bool | None = None,
    metric: str = f"{ENV_RUNNER_RESULTS}/episode_return_mean",
) -> None:
    """Compare the best last result of a search with what it has to reach.

    Args:
        tune_results: What ``Tuner.fit()`` returned.
        min_value: What the best trial has to reach.
        evaluation: Read the figure of the evaluation; None does so if there is one.
        metric: The figure, with ``/`` between the keys.

    Raises:
        ValueError: no trial has reached it, or none has the figure.
    """
    evaluated = f"{EVALUATION_RESULTS}/{metric}"
    found = []
    for row in tune_results.get_dataframe().to_dict("records"):
        is_there = not math.isnan(row.get(evaluated, math.nan))
        found.append(row.get(evaluated if evaluation or (evaluation is None and is_there) else metric))
    known = [value for value in found if value is not None and not math.isnan(value)]
    if not known:
        raise ValueError(f"no trial has reported `{metric}`")
    if max(known) < min_value:
        raise ValueError(f"`{metric}` of {min_value} was not reached: the best trial has {max(known)}")
    print(f"`{metric}` of {min_value} reached: {max(known)}")


def check_train_results_new_api_stack(train_results: dict[str, Any]) -> dict[str, Any]:
    """Check that a result of ``train()`` has the parts that every result has, and return it.

    Args:
        train_results: The result.

    Raises:
        AssertionError: a part is missing, or has another form.
    """
    missing = [key for key in _RESULTS if key not in train_results]
    assert not missing, f"the result has no {', '.join(missing)}; it has {sorted(train_results)}"
    config, learners = train_results["config"], train_results[LEARNER_RESULTS]
    assert isinstance(config, dict), f"the config of the result is no dict, but {type(config).__name__}"
    if not set(config.get("policies") or ()) - {DEFAULT_MODULE_ID}:
        assert not learners or DEFAULT_MODULE_ID in learners, (
            f"no figures of {DEFAULT_MODULE_ID}: {sorted(learners)}"
        )
    for module_id, figures in learners.items():
        for key, value in figures.items() if module_id != "__all_modules__" else ():
            if key.endswith(("_min", "_max")):
                assert np.isscalar(value), f"{module_id}/{key} is no number: {value!r}"
    return train_results
