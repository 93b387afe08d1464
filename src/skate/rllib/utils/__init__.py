"""The modules of ``ray.rllib.utils``, which programs import by these paths. What has no such path stands elsewhere."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

from skate.rllib.utils.annotations import DeveloperAPI, PublicAPI, override
from skate.rllib.utils.framework import try_import_tf, try_import_tfp, try_import_torch
from skate.rllib.utils.numpy import (
    LARGE_INTEGER,
    MAX_LOG_NN_OUTPUT,
    MIN_LOG_NN_OUTPUT,
    SMALL_NUMBER,
    one_hot,
    relu,
    sigmoid,
    softmax,
)
from skate.tune.utils import deep_update, dicts, merge_dicts

__all__ = [
    "LARGE_INTEGER", "MAX_LOG_NN_OUTPUT", "MIN_LOG_NN_OUTPUT", "SMALL_NUMBER", "DeveloperAPI", "PublicAPI", "deep_update",
    "flatten_dict", "force_list", "force_tuple", "merge_dicts", "one_hot", "override", "relu", "sigmoid", "softmax",
    "try_import_tf", "try_import_tfp", "try_import_torch", "unflatten_dict",
]  # fmt: skip


def force_list(elements: Any = None, to_tuple: bool = False) -> Any:
    """Return one item, or several, as a list.

    Args:
        elements: A list, tuple, set or deque of items, or one item; None for none.
        to_tuple: True for a tuple.
    """
    if elements is None:
        found: tuple[Any, ...] = ()
    else:
        found = tuple(elements) if type(elements) in (list, tuple, set, deque) else (elements,)
    return found if to_tuple else list(found)


def force_tuple(elements: Any = None) -> tuple[Any, ...]:
    """Return one item, or several, as a tuple; see `force_list`."""
    found: tuple[Any, ...] = force_list(elements, to_tuple=True)
    return found


def flatten_dict(nested: dict[str, Any], sep: str = "/", env_steps: int = 0) -> dict[str, Any]:
    """Return a nested dict as one dict, whose keys are the paths to the values.

    Args:
        nested: Values in dicts, tuples and lists; the places of tuples and lists are parts of paths.
        sep: Text between the parts of a path.
        env_steps: Of Ray's; without effect.
    """

    def parts(value: Any, path: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
        if isinstance(value, dict):
            for key in sorted(value):
                yield from parts(value[key], (*path, str(key)))
        elif isinstance(value, list | tuple):
            for place, inner in enumerate(value):
                yield from parts(inner, (*path, str(place)))
        else:
            yield sep.join(path), value

    return dict(parts(nested, ()))


def unflatten_dict(flat: dict[str, Any], sep: str = "/") -> dict[str, Any]:
    """Return the nested dict that `flatten_dict` was given, with dicts in the place of tuples and lists.

    Args:
        flat: Values by path.
        sep: Text between the parts of a path.
    """
    return dicts.unflatten_dict(flat, sep)
