"""Checks of what an environment returns, whose errors say what is wrong with it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces


def misfit(space: Any, value: Any) -> str | None:
    """Return how a value does not fit a space; None if it does, or if that cannot be told.

    Shapes and keys are compared, bounds and types of numbers are not.

    Args:
        space: A space of gymnasium.
        value: The value.
    """
    if isinstance(space, spaces.Dict):
        if not isinstance(value, Mapping):
            return f"is no dict, but {_kind(value)}"
        if set(value) != set(space.spaces):
            return f"has the keys {_names(value)}, and the space has {_names(space.spaces)}"
        parts: Iterable[tuple[Any, Any]] = space.spaces.items()
    elif isinstance(space, spaces.Tuple):
        if not isinstance(value, tuple | list) or len(value) != len(space.spaces):
            return f"is no tuple of {len(space.spaces)} parts, but {_kind(value)}"
        parts = enumerate(space.spaces)
    elif isinstance(space, spaces.Box | spaces.Discrete | spaces.MultiDiscrete | spaces.MultiBinary):
        try:
            shape = np.shape(value)
        except ValueError:  # lists of different lengths
            return f"is no array, but {_kind(value)}"
        if shape != space.shape:
            return f"has the shape {shape}, and {space} has {space.shape}"
        return None
    else:
        return None
    for key, inner in parts:
        problem = misfit(inner, value[key])
        if problem is not None:
            return f"at {key!r} {problem}"
    return None


def check_reset(env: Any, returned: Any) -> None:
    """Check what the `reset` of an environment has returned.

    Raises:
        ValueError: It is no pair, or the observation in it does not fit the environment's space.
    """
    if not isinstance(returned, tuple | list) or len(returned) != 2:
        raise ValueError(
            f"reset() of {named(env)} must return the first observation and a dict of infos, got {_kind(returned)}; "
            "environments of the old gym return the observation alone"
        )
    problem = misfit(getattr(env, "observation_space", None), returned[0])
    if problem is not None:
        raise ValueError(
            f"the observation that reset() of {named(env)} returned does not fit its observation_space: it {problem}"
        )


def check_step(env: Any, returned: Any) -> None:
    """Check what the `step` of an environment has returned; None stands for an exception.

    Raises:
        ValueError: It is not of five parts.
    """
    if returned is None or (isinstance(returned, tuple | list) and len(returned) == 5):
        return
    raise ValueError(
        f"step() of {named(env)} must return five values (observation, reward, terminated, truncated, info), got "
        f"{_kind(returned)}; environments of the old gym return four, with one `done` for the third and the fourth"
    )


def named(env: Any) -> str:
    """Return the id of an environment, or the name of its class."""
    spec = getattr(env, "spec", None)
    inner = env.unwrapped if isinstance(env, gym.Env) else env
    return f"the environment {getattr(spec, 'id', None) or type(inner).__name__}"


def _kind(value: Any) -> str:
    if isinstance(value, tuple | list):
        return f"a {type(value).__name__} of {len(value)}"
    if isinstance(value, np.ndarray):
        return f"an array of shape {value.shape}"
    return f"a {type(value).__name__}" if value is not None else "None"


def _names(keys: Iterable[Any]) -> str:
    return ", ".join(sorted(map(repr, keys))) or "none"
