"""Trainables and environments by name."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from skate.tune.error import TuneError

TRAINABLE_CLASS = "trainable_class"
ENV_CREATOR = "env_creator"
RLLIB_MODEL = "rllib_model"
RLLIB_PREPROCESSOR = "rllib_preprocessor"
RLLIB_ACTION_DIST = "rllib_action_dist"
RLLIB_INPUT = "rllib_input"
RLLIB_CONNECTOR = "rllib_connector"
TEST = "__test__"
KNOWN_CATEGORIES = [
    *(TRAINABLE_CLASS, ENV_CREATOR, RLLIB_MODEL, RLLIB_PREPROCESSOR),
    *(RLLIB_ACTION_DIST, RLLIB_INPUT, RLLIB_CONNECTOR, TEST),
]

#: RLlib's algorithms, whose names no program registers.
_ALGORITHMS = frozenset(
    {"APPO", "BC", "CQL", "DQN", "DreamerV3", "IMPALA", "IQL", "MARWIL", "PPO", "SAC", "TQC"}
)
_TRAINABLES: dict[str, Any] = {}
_ENVIRONMENTS: dict[str, Callable[..., Any]] = {}


def register_trainable(name: str, trainable: Any, warn: bool = True) -> None:
    """Register a trainable under a name for `Tuner` and `tune.run`.

    Args:
        name: the name.
        trainable: a function of the configuration, or a class that inherits from `Trainable`.
        warn: accepted for compatibility.

    Raises:
        TypeError: it is neither.
        ValueError: the function cannot be called with a configuration alone.
    """
    from skate.tune.trainable.trainable import Trainable  # it looks up names in this module

    is_class = inspect.isclass(trainable)
    if not isinstance(name, str):
        raise TypeError(f"the name of a trainable must be a string, got {type(name).__name__}: {name!r:.80}")
    if not callable(trainable) or (is_class and not issubclass(trainable, Trainable)):
        raise TypeError(
            "Second argument must be convertable to Trainable: a function of the configuration or a class that "
            f"inherits from ray.tune.Trainable, got {trainable!r:.80}"
        )
    if not is_class:
        from skate.tune.trainable.function import takes_config  # it looks up names in this module

        takes_config(trainable)
    _TRAINABLES[name] = trainable


def get_trainable(name: str) -> Any:
    """Return a registered trainable.

    Raises:
        TuneError: the name is unknown; the error lists the registered ones.
    """
    if name not in _TRAINABLES and _is_algorithm(name):
        # Imported here because Tune stands below RLlib, and a search without it must not load it.
        from skate.rllib.algorithms import registry

        return registry.get_algorithm_class(name)
    if name not in _TRAINABLES:
        known = ", ".join(sorted(_TRAINABLES)) or "none"
        raise TuneError(
            f"Unknown trainable: {name}. The registered ones are: {known}. Use tune.register_trainable"
        )
    return _TRAINABLES[name]


def get_trainable_cls(trainable_name: str) -> Any:
    """Return a registered trainable.

    Raises:
        TuneError: the name is unknown.
    """
    return get_trainable(trainable_name)


def validate_trainable(trainable_name: str) -> None:
    """Check that a trainable is registered under the name.

    Raises:
        TuneError: none has.
    """
    get_trainable(trainable_name)


def is_function_trainable(trainable: Any) -> bool:
    """True if a trainable, or the one registered under a name, is a function."""
    found = get_trainable(trainable) if isinstance(trainable, str) else trainable
    if inspect.isclass(found):
        from skate.tune.trainable.function import FunctionTrainable  # it looks up names in this module

        return issubclass(found, FunctionTrainable)
    return callable(found)


def trainable_exists(name: str) -> bool:
    """True if a trainable is registered under the name, or an algorithm of RLlib has it."""
    return name in _TRAINABLES or _is_algorithm(name)


def _is_algorithm(name: str) -> bool:
    """True if RLlib, here or in Ray, has an algorithm of the name."""
    return name in _ALGORITHMS


def register_env(name: str, env_creator: Callable[..., Any]) -> None:
    """Register a function that creates environments under a name.

    Raises:
        TypeError: the value is not a function.
    """
    if not callable(env_creator):
        raise TypeError(
            f"Second argument must be callable: a function that creates the environment, got {env_creator!r:.80}"
        )
    _ENVIRONMENTS[name] = env_creator


def get_env(name: str) -> Callable[..., Any]:
    """Return the function registered for an environment.

    Raises:
        KeyError: the name is unknown.
    """
    return _ENVIRONMENTS[name]


def environments() -> dict[str, Callable[..., Any]]:
    """Return the functions that create environments by name, for processes that do not run the program."""
    return dict(_ENVIRONMENTS)


_INPUTS: dict[str, Callable[..., Any]] = {}


def register_input(name: str, input_creator: Callable[..., Any]) -> None:
    """Register a function that creates input readers under a name.

    Raises:
        TypeError: it is not a function.
    """
    if not callable(input_creator):
        raise TypeError(
            "Second argument must be callable: a function that creates an input reader, not "
            f"{input_creator!r:.80}"
        )
    _INPUTS[name] = input_creator


def registry_contains_input(name: str) -> bool:
    """Return True if a function was registered for inputs of a name."""
    return name in _INPUTS


def registry_get_input(name: str) -> Callable[..., Any]:
    """Return the function that was registered for inputs.

    Raises:
        ValueError: the name is unknown.
    """
    if name not in _INPUTS:
        known = ", ".join(sorted(_INPUTS)) or "none"
        raise ValueError(f"there are no inputs {name!r}; registered are: {known}. Use register_input")
    return _INPUTS[name]
