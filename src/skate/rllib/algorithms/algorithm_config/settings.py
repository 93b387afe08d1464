"""Storage of a configuration's fields: attributes, items, copies, and conversion to and from a dict."""

from __future__ import annotations

import copy
import warnings
from collections.abc import ItemsView, Iterator, KeysView, Mapping, ValuesView
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from skate.rllib.algorithms.algorithm_config import offline, reports, sampling, training
from skate.rllib.algorithms.algorithm_config.field import (
    Fields,
    NotProvided,
    attribute_of,
    defaults_of,
    nearest,
)
from skate.rllib.algorithms.algorithm_config.old_names import NEW_NAMES, REMOVED, RENAMED

if TYPE_CHECKING:
    from typing_extensions import Self

#: The tables of all fluent methods, by the method's name.
TABLES: dict[str, Fields] = {
    "environment": sampling.ENVIRONMENT,
    "env_runners": sampling.ENV_RUNNERS,
    "learners": training.LEARNERS,
    "training": training.TRAINING,
    "callbacks": reports.CALLBACKS,
    "multi_agent": sampling.MULTI_AGENT,
    "offline_data": offline.OFFLINE_DATA,
    "evaluation": reports.EVALUATION,
    "reporting": reports.REPORTING,
    "checkpointing": reports.CHECKPOINTING,
    "debugging": reports.DEBUGGING,
    "fault_tolerance": sampling.FAULT_TOLERANCE,
    "rl_module": training.RL_MODULE,
    "resources": training.RESOURCES,
    "framework": training.FRAMEWORK,
    "api_stack": training.API_STACK,
    "experimental": training.EXPERIMENTAL,
    "python_environment": reports.PYTHON_ENVIRONMENT,
}
#: Names of fields in a dict that differ from the attribute's.
ITEM_NAMES = {
    "framework_str": "framework",
    "input_": "input",
    "callbacks_class": "callbacks",
    "create_env_on_local_worker": "create_env_on_driver",
    "custom_evaluation_function": "custom_eval_function",
}
_ATTRIBUTES = {item: attribute for attribute, item in ITEM_NAMES.items()} | {"lambda": "lambda_"}
#: Where a frozen configuration keeps those of its modules.
_OF_MODULES = "_configs_of_modules"
_NOT_IN_A_DICT = ("algo_class", "_is_frozen", _OF_MODULES)
#: Attributes that no method sets.
_INNER: dict[str, Any] = {
    "in_evaluation": False,
    "sync_filters_on_rollout_workers_timeout_s": 10.0,
    "input_spaces_jsonable": True,
    "replay_sequence_length": None,
    "_is_online": True,
    "_prior_exploration_config": None,
    "_per_module_overrides": {},
    "_dont_auto_sync_env_runner_states": False,
}


class Settings:
    """The fields of a configuration, each an attribute and an item.

    Args:
        algo_class: the class of algorithms that the configuration builds.
    """

    algo_class: Any
    _is_frozen: bool

    def __init__(self, algo_class: Any = None) -> None:
        inner = vars(self)
        inner["_is_frozen"] = False
        inner["algo_class"] = algo_class
        for fields in TABLES.values():
            inner.update(defaults_of(fields))
        inner.update(copy.deepcopy(_INNER))

    # -- attributes and items

    def __setattr__(self, name: str, value: Any) -> None:
        if self.__dict__.get("_is_frozen") and name not in ("_is_frozen", "simple_optimizer"):
            raise AttributeError(
                f"Cannot set attribute ({name}) of an already frozen {type(self).__name__}: an algorithm uses it. "
                "Change a copy of it: config.copy(copy_frozen=False)"
            )
        super().__setattr__(name, value)

    def __getattr__(self, name: str) -> Any:
        if name[:2] == "__" or name == "_is_frozen":  # looked up by copy and pickle, before there are fields
            raise AttributeError(name)
        hint = f"; it is now called {NEW_NAMES[name]!r}" if name in NEW_NAMES else nearest(name, vars(self))
        raise AttributeError(f"'{type(self).__name__}' object has no attribute {name!r}{hint}")

    def __copy__(self) -> Self:
        made = object.__new__(type(self))
        vars(made).update(vars(self))
        vars(made).pop(_OF_MODULES, None)
        return made

    def __getstate__(self) -> dict[str, Any]:
        """Return the fields; another process that gets them will find a registered environment too."""
        if isinstance(self.__dict__.get("env"), str):
            # Imported here because a configuration needs no environments.
            from skate.rllib.env import creation

            creation.publish(self.env)
        return {name: value for name, value in vars(self).items() if name != _OF_MODULES}

    def __getitem__(self, name: str) -> Any:
        return getattr(self, _ATTRIBUTES.get(name, name))

    def __setitem__(self, name: str, value: Any) -> None:
        if name == "multiagent":
            raise AttributeError(
                "Cannot set `multiagent` key in an AlgorithmConfig! Call .multi_agent(policies=...,"
                " policy_mapping_fn=..., policies_to_train=...) for its parts"
            )
        setattr(self, _ATTRIBUTES.get(name, name), value)

    def __contains__(self, name: str) -> bool:
        return hasattr(self, _ATTRIBUTES.get(name, name))

    def __iter__(self) -> Iterator[str]:
        return iter(self.to_dict())

    def get(self, key: str, default: Any = None) -> Any:
        """Return a field, or the default if there is none of that name."""
        return getattr(self, _ATTRIBUTES.get(key, key), default)

    def pop(self, key: str, default: Any = None) -> Any:
        """Return a field, as `get` does; a configuration keeps all its fields."""
        return self.get(key, default)

    def keys(self) -> KeysView[str]:
        """Return the names of the fields."""
        return self.to_dict().keys()

    def values(self) -> ValuesView[Any]:
        """Return the values of the fields."""
        return self.to_dict().values()

    def items(self) -> ItemsView[str, Any]:
        """Return the names and values of the fields."""
        return self.to_dict().items()

    # -- copies

    def copy(self, copy_frozen: bool | None = None) -> Self:
        """Return a deep copy.

        Args:
            copy_frozen: True for a frozen copy, False for one that can be changed, None for one like this.
        """
        copied = copy.copy(self)
        inner = vars(copied)
        for name, value in inner.items():
            if isinstance(value, dict | list | set):
                inner[name] = _copied(value)
        if copy_frozen is not None:
            inner["_is_frozen"] = False
            if copy_frozen:
                copied.freeze()
        return copied

    def freeze(self) -> None:
        """Refuse changes from now on."""
        self._is_frozen = True
        evaluation = self.__dict__.get("evaluation_config")
        if isinstance(evaluation, Settings):
            evaluation.freeze()

    @contextmanager
    def thawed(self) -> Iterator[Self]:
        """Let a frozen configuration be changed inside of the block; one that was never frozen stays so."""
        frozen, self._is_frozen = self._is_frozen, False
        try:
            yield self
        finally:
            vars(self).pop(_OF_MODULES, None)
            if frozen:
                self.freeze()

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as a new dict, for example as the `param_space` of a `Tuner`."""
        return {
            ITEM_NAMES.get(name, name): _copied(value) if isinstance(value, dict | list | set) else value
            for name, value in vars(self).items()
            if name not in _NOT_IN_A_DICT
        }

    @classmethod
    def from_dict(cls, config_dict: Mapping[str, Any]) -> Self:
        """Return a configuration with the given fields, and defaults for the others.

        Raises:
            KeyError: there is no field of a name.
        """
        return cls().update_from_dict(config_dict)

    @classmethod
    def overrides(cls, **kwargs: Any) -> dict[str, Any]:
        """Return the given fields as a dict, for `evaluation_config` or one module of several.

        Raises:
            KeyError: there is no field of a name.
        """
        default = cls()
        for name in kwargs:
            if name not in default:
                raise KeyError(
                    f"Invalid property name {name} for config class {cls.__name__}!{nearest(name, vars(default))}"
                )
        return kwargs

    def update_from_dict(self, config_dict: Mapping[str, Any] | Settings) -> Self:
        """Set fields by their names; dicts of settings (env_config, model_config) are merged.

        Args:
            config_dict: as `to_dict` returns it; some fields or all.

        Raises:
            KeyError: there is no field of a name; the error has the nearest one.
        """
        for name, value in config_dict.items():
            attribute = _ATTRIBUTES.get(name, name)
            if name in NEW_NAMES:
                warnings.warn(f"{name!r} is now called {NEW_NAMES[name]!r}", DeprecationWarning, stacklevel=2)
                attribute = NEW_NAMES[name]
            if not hasattr(self, attribute):
                raise KeyError(f"{type(self).__name__} has no field {name!r}{nearest(name, vars(self))}")
            if attribute == "env_config":
                value = {**self.env_config, **value}
            setattr(self, attribute, value)
        return self

    def _set(self, method: str, settings: Mapping[str, Any], fields: Fields) -> Self:
        """Set the given fields of a fluent method.

        Raises:
            TypeError: the method has no such argument.
            ValueError: the argument has another name today, or is of the old API stack.
        """
        for name, value in settings.items():
            if name not in fields:
                _refuse(type(self).__name__, method, name, fields)
            if value is not NotProvided:
                setattr(self, attribute_of(name, fields), value)
        return self


def _refuse(owner: str, method: str, name: str, fields: Fields) -> None:
    call = f"{owner}.{method}({name})"
    if name in RENAMED.get(method, {}):
        raise ValueError(f"`{call}` has been deprecated. Use `{RENAMED[method][name]}` instead.")
    if name in REMOVED:
        raise ValueError(f"`{call}` is of the old API stack: {REMOVED[name]}")
    others = [other for other, table in TABLES.items() if name in table]
    hint = f"; it belongs to .{others[0]}({name}=...)" if others else nearest(name, fields)
    raise TypeError(f"{owner}.{method}() got an unexpected keyword argument {name!r}{hint}")


def _copied(value: Any) -> Any:
    """Return a copy of the containers of a value; environments, spaces and functions are shared."""
    if isinstance(value, dict):
        if type(value) is not dict:
            return value
        return {
            name: _copied(each) if isinstance(each, dict | list | set) else each
            for name, each in value.items()
        }
    if isinstance(value, list):
        return [_copied(each) for each in value]
    return set(value) if type(value) is set else value
