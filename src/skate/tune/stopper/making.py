"""What `stop=` may be: a dict of bounds, a function, a stopper, or a list of stoppers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from skate.tune.stopper.function_stopper import FunctionStopper
from skate.tune.stopper.stopper import CombinedStopper, NoopStopper, Stopper


def stopper_of(stop: Any) -> tuple[dict[str, float], Stopper]:
    """The bounds and the stopper that `stop=` stands for.

    Raises:
        ValueError: it is nothing of that, or a bound is no number.
    """
    if stop is None:
        return {}, NoopStopper()
    if isinstance(stop, Stopper):
        return {}, stop
    if isinstance(stop, Mapping):
        for name, bound in stop.items():
            if isinstance(bound, bool) or not isinstance(bound, (int, float)):
                raise ValueError(
                    f"stop={{{name!r}: ...}} is a number that the metric is to reach, not {bound!r}"
                )
        return dict(stop), NoopStopper()
    if isinstance(stop, (list, tuple)) and stop and all(isinstance(each, Stopper) for each in stop):
        return {}, CombinedStopper(*stop)
    if FunctionStopper.is_valid_function(stop):
        return {}, FunctionStopper(stop)
    raise ValueError(
        "stop is a dict such as {'training_iteration': 10}, a function of trial id and result, or a Stopper; not "
        f"{type(stop).__name__}: {stop!r:.80}"
    )
