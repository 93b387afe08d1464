"""Pickling by value, as `cloudpickle` does it: functions, lambdas and classes of a script travel whole.

The names are those of the package `cloudpickle`, and `dumps_debug` and `dump_debug`, which say what in a value cannot be sent.
"""

from __future__ import annotations

import io
from typing import Any

from cloudpickle import load, loads, register_pickle_by_value, unregister_pickle_by_value
from cloudpickle.cloudpickle import DEFAULT_PROTOCOL, list_registry_pickle_by_value

from skate.util.check_serialize import inspect_serializability
from skate.wire.function_pickler import dump, dumps, pickler

__all__ = [
    "DEFAULT_PROTOCOL",
    "CloudPickler",
    "Pickler",
    "dump",
    "dump_debug",
    "dumps",
    "dumps_debug",
    "list_registry_pickle_by_value",
    "load",
    "loads",
    "register_pickle_by_value",
    "unregister_pickle_by_value",
]


Pickler = CloudPickler = pickler()


def dumps_debug(obj: Any, *args: Any, **kwargs: Any) -> bytes:
    """`dumps`; if it fails, print what in the value cannot be sent.

    Raises:
        TypeError: the value cannot be pickled; the original error is its cause.
    """
    try:
        packed: bytes = dumps(obj, *args, **kwargs)
    except (TypeError, OverflowError) as error:
        raise _explained(obj, error) from error
    return packed


def dump_debug(obj: Any, *args: Any, **kwargs: Any) -> None:
    """`dump`; if it fails, print what in the value cannot be sent. Raises TypeError as `dumps_debug` does."""
    try:
        dump(obj, *args, **kwargs)
    except (TypeError, OverflowError) as error:
        raise _explained(obj, error) from error


def _explained(obj: Any, error: Exception) -> TypeError:
    """The error with the path to the culprit."""
    text = io.StringIO()
    inspect_serializability(obj, print_file=text)
    return TypeError(f"ray.cloudpickle.dumps({obj!r}) failed: {error}\n{text.getvalue()}")
