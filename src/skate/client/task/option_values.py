"""Checks of option values, one function for each kind of value.

Each takes the option's name and the given value, and returns the value to keep. It raises TypeError for a value of
the wrong type, and ValueError for a wrong value of the right type. The messages contain the given value and the
allowed ones.
"""

from __future__ import annotations

import re
import sys
import warnings
from operator import index
from os.path import abspath, dirname, sep

from skate.core.resource.resources import DEVICES, to_units

#: Numbers of TPU chips that one process can use.
TPU_CHIPS = (1, 2, 4, 8)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Check = Callable[[str, Any], Any]

_SKATE_DIR = dirname(dirname(dirname(abspath(__file__)))) + sep

# Resources that have their own option, and that option.
_OWN_OPTION = {"CPU": "num_cpus", "GPU": "num_gpus", "memory": "memory", "object_store_memory": "memory"}

_STRATEGIES = (
    "PlacementGroupSchedulingStrategy",
    "NodeAffinitySchedulingStrategy",
    "NodeLabelSchedulingStrategy",
)

_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?"
_LABEL_VALUE = rf"!?(?:in)?\({_LABEL}(?:, ?{_LABEL})*\)|!?(?:{_LABEL})?"
_LABEL_KEY = rf"(?:{_LABEL}(?:\.{_LABEL})*/)?{_LABEL}"


class UnknownOption(ValueError):
    """A name that is not an option."""


def _wrong_type(name: str, value: object, wanted: str) -> TypeError:
    return TypeError(
        f"The type of keyword '{name}' must be {wanted}, but {name}={value!r} is of type {type(value).__name__}"
    )


def is_a(value: object, class_name: str) -> bool:
    """Return True if `value` is an instance of a class with this name.

    Comparing names avoids importing the class, which most programs do not use.
    """
    return any(base.__name__ == class_name for base in type(value).__mro__)


def warn_deprecated(text: str) -> None:
    """Issue a DeprecationWarning that points at the first line outside of Skate."""
    frame = sys._getframe(1)
    level = 2
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_SKATE_DIR):
        frame = frame.f_back
        level += 1
    warnings.warn(text, DeprecationWarning, stacklevel=level)


# ---------------------------------------------------------------- numbers


def quantity(name: str, value: Any) -> float | None:
    """Check an amount of a resource: None, or >= 0 in steps of 0.0001."""
    if value is None:
        return None
    if not isinstance(value, (int, float)):
        # NumPy numbers, Fraction and Decimal have __float__ and are accepted; strings are not.
        if isinstance(value, (str, bytes)) or not hasattr(value, "__float__"):
            raise _wrong_type(name, value, "a number of 0 or more")
        value = index(value) if hasattr(value, "__index__") else float(value)
    to_units(value, name)
    return value  # type: ignore[no-any-return]


def memory(name: str, value: Any) -> int | None:
    """Check an amount of bytes: None, or >= 0."""
    amount = quantity(name, value)
    return None if amount is None else int(amount)


def _integer(name: str, value: Any, wanted: str) -> int:
    try:
        return index(value)
    except TypeError:
        raise _wrong_type(name, value, wanted) from None


def count(name: str, value: Any) -> int | None:
    """Check a number: None, or >= 0."""
    if value is None:
        return None
    number = _integer(name, value, "an integer of 0 or more")
    if number < 0:
        raise ValueError(
            f"The keyword '{name}' only accepts None, 0 or a positive integer: {name}={value} is negative; use 0 or more"
        )
    return number


def count_or_forever(name: str, value: Any) -> int | None:
    """Check a number: None, -1 for no limit, or >= 0."""
    if value is None:
        return None
    number = _integer(name, value, "an integer of 0 or more, or -1 for no limit")
    if number < -1:
        raise ValueError(
            f"The keyword '{name}' only accepts None, 0, -1 or a positive integer, where -1 represents infinity: "
            f"{name}={value} is negative; use 0 or more, or -1 for no limit"
        )
    return number


def positive(name: str, value: Any) -> int | None:
    """Check a number: None, or >= 1."""
    if value is None:
        return None
    number = _integer(name, value, "an integer of 1 or more")
    if number < 1:
        raise ValueError(f"{name}={value} is too small; use 1 or more")
    return number


def backpressure(name: str, value: Any) -> int | None:
    """Check a number: None or negative for no limit, or >= 1."""
    if value is None:
        return None
    number = _integer(name, value, "an integer of 1 or more, or -1 for no limit")
    if number == 0:
        raise ValueError(
            f"{name}=0 is not allowed, because the generator could not yield anything: {name} must be > 0 (with 1 "
            "each value is computed on request), or -1 for no limit"
        )
    return number


def bundle_index(name: str, value: Any) -> int:
    """Check the deprecated index of a bundle: -1 for any, or >= 0."""
    number = _integer(name, value, "an integer, -1 for any bundle")
    if number < -1:
        raise ValueError(f"{name}={value} is negative; use 0 or more, or -1 for any bundle")
    if number != -1:
        _warn_placement(name)
    return number


def num_returns(name: str, value: Any) -> int | str | None:
    """Check a number of results: None, >= 0, "streaming", or the deprecated "dynamic"."""
    if value is None or value == "streaming":
        return value  # type: ignore[no-any-return]
    if value == "dynamic":
        warn_deprecated(
            'num_returns="dynamic" is deprecated; "streaming" delivers each value as soon as it is yielded'
        )
        return "dynamic"
    if isinstance(value, str):
        raise ValueError(f'{name}={value!r} is unknown; use a number of 0 or more, or "streaming"')
    number = _integer(name, value, 'a number of 0 or more, or "streaming"')
    if number < 0:
        raise ValueError(
            f"The keyword 'num_returns' only accepts None, a non-negative integer, 'streaming' or 'dynamic': {name}={value} "
            "is negative; use 0 or more"
        )
    return number


def streams(value: int | str | None) -> None:
    """Reject "streaming" and "dynamic" for a function that is not a generator function."""
    if value in ("streaming", "dynamic"):
        raise ValueError(
            f"num_returns={value!r} can only be used with generator functions, and this function does not yield; use a number"
        )


# ---------------------------------------------------------------- strings and flags


def text(name: str, value: Any) -> str | None:
    """Check a string or None."""
    if value is None or isinstance(value, str):
        return value
    raise _wrong_type(name, value, "str or None")


def actor_name(name: str, value: Any) -> str | None:
    """Check the name of an actor: None or a non-empty string."""
    if text(name, value) == "":
        raise ValueError(
            "Actor name cannot be an empty string: got name=''; use a non-empty name, or None for no name"
        )
    return value  # type: ignore[no-any-return]


def namespace(name: str, value: Any) -> str | None:
    """Check a namespace: None or a non-empty string."""
    if text(name, value) == "":
        raise ValueError("namespace='' is not a namespace; use a non-empty name, or None for the job's own")
    return value  # type: ignore[no-any-return]


def lifetime(name: str, value: Any) -> str | None:
    """Check a lifetime: None, "detached" or "non_detached"."""
    if text(name, value) not in (None, "detached", "non_detached"):
        raise ValueError(f'{name}={value!r} is unknown; use "detached", "non_detached" or None')
    return value  # type: ignore[no-any-return]


def flag(name: str, value: Any) -> bool:
    """Check a bool."""
    if isinstance(value, bool):
        return value
    raise _wrong_type(name, value, "bool")


def flag_or_none(name: str, value: Any) -> bool | None:
    """Check a bool or None."""
    if value is None or isinstance(value, bool):
        if value and name == "placement_group_capture_child_tasks":
            _warn_placement(name)
        return value
    raise _wrong_type(name, value, "bool or None")


# ---------------------------------------------------------------- mappings and lists


def mapping(name: str, value: Any) -> dict[str, Any] | None:
    """Check a dict or None. The dict itself is kept, because it may be a RuntimeEnv."""
    if value is None or isinstance(value, dict):
        return value
    raise _wrong_type(name, value, "a dict or None")


def resources(name: str, value: Any) -> dict[str, float] | None:
    """Check a dict of custom resources, name -> amount, or None."""
    if mapping(name, value) is None:
        return None
    checked = {}
    for key, amount in value.items():
        if not isinstance(key, str):
            raise TypeError(f"{name} has the key {key!r} of type {type(key).__name__}; names must be str")
        if key in _OWN_OPTION:
            phrase = (
                "Use the 'num_cpus' and 'num_gpus' keyword instead of 'CPU' and 'GPU' in 'resources' keyword"
                if key in ("CPU", "GPU")
                else "The resources dictionary must not contain the key 'memory' or 'object_store_memory'"
            )
            raise ValueError(
                f"{phrase}: {name}={{{key!r}: {amount!r}}}: {key} is not a custom resource; use {_OWN_OPTION[key]}=..."
            )
        if not key or key == "bundle":
            raise ValueError(
                f"The resource should not include `bundle` which is reserved: {name}: {key!r} cannot be the name of a custom "
                "resource; choose another"
            )
        kept = quantity(f"{name}[{key!r}]", amount)
        if kept is None:
            raise TypeError(f"{name}[{key!r}]=None is not an amount; leave it out, or use a number")
        if key in DEVICES:
            _check_devices(key, kept)
        checked[key] = kept
    return checked


def _check_devices(name: str, amount: float) -> None:
    """Raise ValueError for a fraction of a device that cannot be shared, and for an unsupported number of TPU chips."""
    if name == "TPU" and amount not in (0, *TPU_CHIPS):
        raise ValueError(
            f"The number of requested 'TPU' was set to {amount:g} which is not a supported chip configuration. "
            f"Supported configs: {TPU_CHIPS}"
        )
    if name != "NPU" and amount != int(amount):
        raise ValueError(
            f"{name} resource quantity must be whole numbers. The specified quantity {amount} is invalid."
        )


def retry_exceptions(name: str, value: Any) -> bool | tuple[type[Exception], ...]:
    """Check the exceptions to retry on: True for all, False for none, or a list of classes."""
    if isinstance(value, bool):
        return value
    if not isinstance(value, (list, tuple)):
        raise _wrong_type(name, value, "True, False or a list of exception classes")
    for one in value:
        if not (isinstance(one, type) and issubclass(one, Exception)):
            raise ValueError(
                f"retry_exceptions must be either a boolean or a list of exceptions: {name} lists {one!r}, "
                "which is not an exception class; use True, False or a list of them"
            )
    return tuple(value)


def concurrency_groups(name: str, value: Any) -> dict[str, int] | None:
    """Check a dict of concurrency group -> number of concurrent calls (>= 1), or None."""
    if value is None:
        return None
    if isinstance(value, (list, tuple)):
        # The older form: [{"name": "io", "max_concurrency": 2}].
        if not all(isinstance(one, dict) and "name" in one and "max_concurrency" in one for one in value):
            raise ValueError(f"{name}={value!r}; use a dict of group name -> number of concurrent calls")
        value = {one["name"]: one["max_concurrency"] for one in value}
    if not isinstance(value, dict):
        raise _wrong_type(name, value, "a dict of group name -> number of concurrent calls")
    groups = {}
    for group, size in value.items():
        if not isinstance(group, str):
            raise TypeError(f"{name} has the key {group!r} of type {type(group).__name__}; names must be str")
        number = positive(f"{name}[{group!r}]", size)
        if number is None:
            raise TypeError(f"{name}[{group!r}]=None is not a size; use 1 or more")
        groups[group] = number
    return groups


def label_selector(name: str, value: Any) -> dict[str, str] | None:
    """Check a dict of label -> "value", "!value", "in(a,b)" or "!in(a,b)", or None."""
    if mapping(name, value) is None:
        return None
    for key, wanted in value.items():
        if not isinstance(key, str) or not isinstance(wanted, str):
            raise TypeError(f"{name} has {key!r}: {wanted!r}; labels and their conditions must be str")
        if not re.fullmatch(_LABEL_KEY, key):
            raise ValueError(
                f"Invalid label selector key {key!r}: {name}: {key!r} cannot be a label; use letters, digits, - _ . and at "
                "most one /"
            )
        if not re.fullmatch(_LABEL_VALUE, wanted):
            raise ValueError(
                f'Invalid label selector value `{wanted}`: {name}: {key!r} cannot be {wanted!r}; use "value", '
                '"!value", "in(a,b)" or "!in(a,b)"'
            )
    return dict(value)


def fallback_strategy(name: str, value: Any) -> list[dict[str, Any]] | None:
    """Check a list of {"label_selector": {...}}, tried in order, or None."""
    if value is None:
        return None
    if not isinstance(value, list):
        raise _wrong_type(name, value, 'a list of {"label_selector": {...}} or None')
    kept = []
    for one in value:
        if not isinstance(one, dict):
            raise ValueError(f'{name} lists {one!r}; each entry is {{"label_selector": {{...}}}}')
        if set(one) != {"label_selector"}:
            raise ValueError(f'{name} lists {one!r}; each entry must have the single key "label_selector"')
        kept.append({"label_selector": label_selector(f"{name}'s label_selector", one["label_selector"])})
    return kept


# ---------------------------------------------------------------- scheduling


def scheduling_strategy(name: str, value: Any) -> Any:
    """Check a strategy: None, "DEFAULT", "SPREAD", or a strategy object."""
    if value is None or value in ("DEFAULT", "SPREAD"):
        return value
    if isinstance(value, str):
        raise ValueError(
            f'Invalid scheduling_strategy value {value}: {name}={value!r} is unknown; use "DEFAULT", "SPREAD" or an object '
            f"of {', '.join(_STRATEGIES)}"
        )
    if not any(is_a(value, strategy) for strategy in _STRATEGIES):
        raise _wrong_type(name, value, f'"DEFAULT", "SPREAD" or an object of {", ".join(_STRATEGIES)}')
    return value


def placement_group(name: str, value: Any) -> Any:
    """Check the deprecated placement_group: "default" for the parent's, None for none, or a group."""
    if isinstance(value, str):
        if value != "default":
            raise ValueError(f'{name}={value!r} is unknown; use a placement group, None or "default"')
        return value
    if value is not None and not is_a(value, "PlacementGroup"):
        raise _wrong_type(name, value, "a placement group")
    _warn_placement(name)
    return value


def _warn_placement(name: str) -> None:
    warn_deprecated(f"{name} is deprecated; use scheduling_strategy=PlacementGroupSchedulingStrategy(...)")


def not_for_tasks(name: str, value: Any) -> None:
    """Raise ValueError for an option that only actors accept."""
    if value is not None:
        raise ValueError(
            f"Setting 'object_store_memory' is not implemented for tasks: {name}={value!r}: a task cannot reserve object "
            "store memory; leave it out"
        )


def deprecated_store_memory(name: str, value: Any) -> int | None:
    """Accept a deprecated option, which has no effect."""
    warn_deprecated(f"{name} is deprecated and reserves nothing; leave it out (full memory spills to disk)")
    return count(name, value)


#: Names of tensor transports; programs add their own (`client/tensor/tensor_transports.py`).
TENSOR_TRANSPORTS = {"GLOO", "NCCL", "NIXL", "CUDA_IPC"}
#: Transports that are accepted only by name: their tensors go through the object store.
THROUGH_STORE = frozenset({"NIXL", "CUDA_IPC"})
#: Transports in which both sides take part.
TWO_SIDED = frozenset({"GLOO", "NCCL"})


def tensor_transport(name: str, value: Any) -> str | None:
    """Check the name of a tensor transport; return it in upper case."""
    if value is None:
        return None
    if not isinstance(value, str):
        raise _wrong_type(name, value, f"one of {', '.join(sorted(TENSOR_TRANSPORTS))}")
    if value.upper() not in TENSOR_TRANSPORTS:
        raise ValueError(
            f"Invalid tensor transport: {value.upper()}. {name} must be one of {', '.join(sorted(TENSOR_TRANSPORTS))}"
        )
    return value.upper()
