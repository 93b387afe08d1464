"""Pickling of the code of deployments, as cloudpickle does, but with a new lock in place of each lock.

A FastAPI application with an included router holds locks; each replica is a process and needs its own locks.
"""

from __future__ import annotations

import copyreg
import functools
import io
import pickle
import sys
import threading
from collections import ChainMap
from collections.abc import Callable
from types import FunctionType, ModuleType
from typing import Any


def _new_lock(_: Any) -> Any:
    return threading.Lock, ()


def _new_rlock(_: Any) -> Any:
    return threading.RLock, ()


@functools.cache
def pickler() -> Any:
    """Return the class of the pickler, created on first use because cloudpickle takes 15 ms to load."""
    from skate import cloudpickle  # takes 15 ms

    class CodePickler(cloudpickle.Pickler):  # type: ignore[misc]
        """Packs classes, functions and applications."""

        dispatch_table = ChainMap(
            {type(threading.Lock()): _new_lock, type(threading.RLock()): _new_rlock},
            cloudpickle.Pickler.dispatch_table,
        )

    return CodePickler


def _state(state: Any) -> Any:
    return type(state), (dict(state._state),)


def _register_state_reducer() -> None:
    """Fix the pickling of a Starlette application's state, which otherwise recurses without end."""
    structures = sys.modules.get("starlette.datastructures")
    if structures is not None and structures.State not in copyreg.dispatch_table:
        copyreg.pickle(structures.State, _state)


def dumps(value: Any) -> bytes:
    """Pickle a class, a function or an application."""
    _register_state_reducer()
    out = io.BytesIO()
    pickler()(out).dump(value)
    return out.getvalue()


def packed(value: Any, what: str) -> bytes:
    """Pickle as `dumps` does. Raises TypeError, naming `what`, if that fails."""
    try:
        return dumps(value)
    except Exception as error:  # pickling may raise anything; the message names the pickled object
        raise TypeError(f"{what}: {type(error).__name__}: {error}") from error


def copied(value: Any, what: str) -> Any:
    """Return a copy that later changes of the original do not affect; its functions, classes and modules are shared.

    A copy of a function would freeze the names of its module, and miss later definitions of the module. Raises
    TypeError, naming `what`, if a copy is impossible.
    """
    kept: list[Any] = []
    packed(value, what)  # raises TypeError for a value that cannot be sent to a replica

    class Sharing(pickler()):  # type: ignore[misc]
        def persistent_id(self, one: Any) -> int | None:
            if not isinstance(one, (FunctionType, type, ModuleType)):
                return None
            kept.append(one)
            return len(kept) - 1

    class Shared(pickle.Unpickler):
        def persistent_load(self, place: int) -> Any:
            return kept[place]

    out = io.BytesIO()
    Sharing(out).dump(value)
    return Shared(io.BytesIO(out.getvalue())).load()


def passed(value: Any, what: str) -> Any:
    """Return a pickled and unpickled copy of a value. Raises TypeError, naming `what`, if it cannot be pickled."""
    from skate import cloudpickle  # takes 15 ms

    _register_state_reducer()
    try:
        return pickle.loads(cloudpickle.dumps(value))
    except Exception as error:  # pickling may raise anything
        raise TypeError(f"{what}: {type(error).__name__}: {error}") from error


def replaced(
    value: Any, kinds: tuple[type, ...], stand_in: Callable[[Any], Any], what: str
) -> tuple[bytes, bool]:
    """Pickle a value with a stand-in for each object of some types, at any depth; also return True if there was one.

    Raises TypeError, naming `what`, if the value cannot be pickled, and the exceptions of `stand_in`.
    """
    from skate import cloudpickle  # takes 15 ms

    _register_state_reducer()
    found: list[Any] = []
    wrong: list[Exception] = []

    class Replacing(cloudpickle.Pickler):  # type: ignore[misc]
        def reducer_override(self, one: Any) -> Any:
            if not isinstance(one, kinds):
                return super().reducer_override(one)
            try:
                found.append(stand_in(one))
            except Exception as error:  # raised again below, unlike errors of pickling
                wrong.append(error)
                raise
            return found[-1].__reduce__()

    out = io.BytesIO()
    try:
        Replacing(out).dump(value)
    except Exception as error:  # pickling may raise anything
        if wrong:
            raise wrong[0] from None
        raise TypeError(f"{what}: {type(error).__name__}: {error}") from error
    return out.getvalue(), bool(found)
