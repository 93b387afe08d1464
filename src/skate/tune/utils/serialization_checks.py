"""Checks of a trainable: saving, restoring, sending to another process."""

from __future__ import annotations

import inspect
import io
from collections.abc import Callable, Sequence
from typing import Any

import skate
from skate.util.check_serialize import inspect_serializability

_STEPS = 3


def validate_save_restore(
    trainable_cls: type, config: dict[str, Any] | None = None, num_gpus: int = 0
) -> bool:
    """True if one copy of a class trainable can resume from the state saved by another.

    Args:
        trainable_cls: the class.
        config: its configuration.
        num_gpus: the number of GPUs of each copy.

    Raises:
        RuntimeError: no session runs, or the second copy resumes from a different state.
    """
    if not skate.is_initialized():
        raise RuntimeError("validate_save_restore needs a running session; call init() first")
    remote: Any = skate.remote(num_gpus=num_gpus)(trainable_cls)
    first, second = remote.remote(config=config), remote.remote(config=config)
    try:
        for _ in range(_STEPS):
            result = skate.get(first.train.remote())
        if not result.get("training_iteration"):
            raise RuntimeError(f"{trainable_cls.__name__} reports results without training_iteration")
        skate.get(second.restore.remote(skate.get(first.save.remote())))
        for expected in (_STEPS + 1, _STEPS + 2):
            found = skate.get(second.train.remote())["training_iteration"]
            if found != expected:
                raise RuntimeError(
                    f"{trainable_cls.__name__} was saved after {_STEPS} iterations, and its restored copy "
                    f"calls its next one number {found}, not {expected}"
                )
    finally:
        for each in (first, second):
            skate.kill(each)
    return True


def diagnose_serialization(trainable: Callable[..., Any]) -> Any:
    """Return True if a function can be sent to the process of a trial, else the names in it that cannot."""
    well, _ = inspect_serializability(trainable, print_file=io.StringIO())
    if well:
        return True
    seen = inspect.getclosurevars(trainable)
    failing = set()
    for name, value in {**seen.globals, **seen.nonlocals}.items():
        if not inspect_serializability(value, name, print_file=io.StringIO())[0]:
            failing.add(name)
            print(f"{name} = {value!r:.80} cannot be serialized: create it in the trainable, or leave it out")
    return failing


def validate_warmstart(
    parameter_names: Sequence[str],
    points_to_evaluate: Any,
    evaluated_rewards: Any,
    validate_point_name_lengths: bool = True,
) -> None:
    """Check initial points, and the rewards known for them, for a searcher.

    Args:
        parameter_names: the names in the space.
        points_to_evaluate: dicts, or lists with a value for each parameter.
        evaluated_rewards: a list with the reward of each point.
        validate_point_name_lengths: True to require as many values in each point as there are parameters.

    Raises:
        TypeError: they are not lists, or a point is neither dict nor list.
        ValueError: a point is shorter or longer than the space, or the numbers of points and rewards differ.
    """
    for name, given in (("points_to_evaluate", points_to_evaluate), ("evaluated_rewards", evaluated_rewards)):
        if given and not isinstance(given, list):
            raise TypeError(f"{name} must be a list, not {type(given).__name__}: {given!r:.80}")
    for point in points_to_evaluate or ():
        if not isinstance(point, dict | list):
            raise TypeError(f"points_to_evaluate must contain dicts or lists, got {type(point).__name__}")
        if validate_point_name_lengths and len(point) != len(parameter_names):
            raise ValueError(
                f"the point {point} has {len(point)} values, the space {len(parameter_names)}: "
                f"{', '.join(parameter_names)}"
            )
    if points_to_evaluate and evaluated_rewards and len(points_to_evaluate) != len(evaluated_rewards):
        raise ValueError(
            f"{len(points_to_evaluate)} points_to_evaluate were given with {len(evaluated_rewards)} "
            "evaluated_rewards; the numbers must be equal"
        )
