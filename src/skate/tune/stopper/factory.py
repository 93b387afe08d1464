"""Conversion of `stop=`: a dict of bounds, a function, a stopper, or a list of stoppers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from skate.tune.error import BadExperiment
from skate.tune.metrics import flat, number
from skate.tune.stopper.function_stopper import FunctionStopper
from skate.tune.stopper.stopper import CombinedStopper, NoopStopper, Stopper


def stopper_of(stop: Any) -> tuple[dict[str, float], Stopper]:
    """Return the bounds and the stopper for `stop=`.

    Raises:
        TuneError, ValueError: the value is none of these, or a bound is not a number.
    """
    if stop is None or stop in ([], (), {}):
        return {}, NoopStopper()
    if isinstance(stop, Stopper):
        return {}, stop
    if isinstance(stop, Mapping):
        bounds: dict[str, float] = flat(dict(stop))
        for name, bound in bounds.items():
            if number(bound) is None and not isinstance(bound, bool):
                raise BadExperiment(
                    f"Invalid stop criteria: stop={{{name!r}: ...}} must be a number for the metric to reach, got {bound!r}"
                )
        return bounds, NoopStopper()
    if isinstance(stop, (list, tuple)) and stop and all(isinstance(each, Stopper) for each in stop):
        return {}, CombinedStopper(*stop)
    if isinstance(stop, (list, tuple)) and stop:
        others = [type(each).__name__ for each in stop if not isinstance(each, Stopper)]
        raise BadExperiment(
            f"Invalid stop criteria: each element of the list must be an instance of `ray.tune.Stopper`. Got "
            f"{', '.join(others)}"
        )
    if FunctionStopper.is_valid_function(stop):
        return {}, FunctionStopper(stop)
    raise BadExperiment(
        "Invalid stop criteria: Provided stop object must be either a dict such as "
        "{'training_iteration': 10}, a function of trial id and result, or a Stopper. Got "
        f"{type(stop).__name__}: {stop!r:.80}"
    )
