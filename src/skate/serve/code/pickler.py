"""How code of deployments is pickled: as cloudpickle does it, with a new lock in the place of each lock.

A FastAPI application with an included router holds locks; each replica is a process and needs locks of its own.
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
    """The class of the pickler; made when first needed, since cloudpickle takes 15 ms to load."""
    import cloudpickle  # as above

    class CodePickler(cloudpickle.Pickler):  # type: ignore[misc]
        """Packs classes, functions and applications."""

        dispatch_table = ChainMap(
            {type(threading.Lock()): _new_lock, type(threading.RLock()): _new_rlock},
            cloudpickle.Pickler.dispatch_table,
        )

    return CodePickler


def _state(state: Any) -> Any:
    return type(state), (dict(state._state),)


def _teach() -> None:
    """Fix the pickling of a Starlette application's state, which otherwise recurses without end."""
    structures = sys.modules.get("starlette.datastructures")
    if structures is not None and structures.State not in copyreg.dispatch_table:
        copyreg.pickle(structures.State, _state)


def dumps(value: Any) -> bytes:
    """Bytes of a class, a function or an application."""
    _teach()
    out = io.BytesIO()
    pickler()(out).dump(value)
    return out.getvalue()


def packed(value: Any, what: str) -> bytes:
    """The same. Raises TypeError, naming `what`, for one that cannot be pickled."""
    try:
        return dumps(value)
    except Exception as error:  # whatever pickling ends in, the reader wants to know what was packed
        raise TypeError(f"{what}: {type(error).__name__}: {error}") from error


def copied(value: Any, what: str) -> Any:
    """Return a copy that later changes of the original do not affect; its functions, classes and modules are shared.

    A copy of a function would freeze the names of its module, and miss later definitions of the module. Raises
    TypeError, naming `what`, if a copy is impossible.
    """
    kept: list[Any] = []
    packed(value, what)  # what cannot be sent to a replica is refused here

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
    """A copy as another process would have it: locks and the like cannot go. Raises TypeError, naming `what`, for those."""
    import cloudpickle  # as above

    _teach()
    try:
        return pickle.loads(cloudpickle.dumps(value))
    except Exception as error:  # whatever pickling ends in
        raise TypeError(f"{what}: {type(error).__name__}: {error}") from error


def replaced(
    value: Any, kinds: tuple[type, ...], stand_in: Callable[[Any], Any], what: str
) -> tuple[bytes, bool]:
    """A value packed as cloudpickle does, with a stand-in for each object of some types, however deep; and if there was one.

    Raises TypeError, naming `what`, for a value that cannot be packed, and what `stand_in` raises.
    """
    import cloudpickle  # as above

    _teach()
    found: list[Any] = []
    wrong: list[Exception] = []

    class Replacing(cloudpickle.Pickler):  # type: ignore[misc]
        def reducer_override(self, one: Any) -> Any:
            if not isinstance(one, kinds):
                return super().reducer_override(one)
            try:
                found.append(stand_in(one))
            except Exception as error:  # whatever it is, it is not about pickling
                wrong.append(error)
                raise
            return found[-1].__reduce__()

    out = io.BytesIO()
    try:
        Replacing(out).dump(value)
    except Exception as error:  # as above
        if wrong:
            raise wrong[0] from None
        raise TypeError(f"{what}: {type(error).__name__}: {error}") from error
    return out.getvalue(), bool(found)
