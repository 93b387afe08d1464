"""Fingerprints of code, equal in every process: they decide if replicas must be replaced."""

from __future__ import annotations

import hashlib
import io
import os
import sys
import sysconfig
from collections.abc import Iterator
from types import FunctionType, ModuleType
from typing import Any

from skate.serve.code import pickler

#: Values that are packed in more bytes than this are taken as they were packed.
_LARGE_BYTES = 1 << 20
_SIMPLE = (str, bytes, int, float, complex, bool, type(None))


def of(value: Any, packed: bytes) -> str:
    """A digest of a value that cloudpickle has packed, the same in every process for equal code."""
    if len(packed) > _LARGE_BYTES:
        return _digest(packed)
    from cloudpickle import cloudpickle as inner  # 15 ms, and only those who deploy need it

    tracked = inner._DYNAMIC_CLASS_TRACKER_BY_CLASS
    known: dict[str, int] = {}

    class Even(pickler.pickler()):  # type: ignore[misc]
        """Leaves out what differs from process to process: numbers of classes, and the order of sets."""

        def persistent_id(self, one: Any) -> Any:
            kind = type(one)
            if kind is str and len(one) == 32 and (one in known or one in tracked.values()):
                return "class", known.setdefault(one, len(known))
            if kind in (set, frozenset) and all(isinstance(each, _SIMPLE) for each in one):
                return kind.__name__, sorted(map(repr, one))
            return None

    out = io.BytesIO()
    Even(out).dump(value)
    return _digest(out.getvalue())


def of_modules(target: Any) -> str:
    """A digest of the user's own source files behind a class or function; empty if there are none.

    Libraries are excluded: they change with the environment, not with a program.
    """
    first = sys.modules.get(getattr(target, "__module__", None) or "")
    if first is None:
        return ""
    found = {}
    for module in _reached(first):
        file = own_file(module)
        if file is not None and module.__name__ != "__main__":  # whose code is packed itself
            try:
                with open(file, "rb") as source:
                    found[module.__name__] = _digest(source.read())
            except OSError:  # it has gone since it was imported
                continue
    return _digest(repr(sorted(found.items())).encode()) if found else ""


def _reached(first: ModuleType) -> Iterator[ModuleType]:
    """Collect a module and the user's own modules that it imports from, recursively."""
    seen = {first.__name__}
    left = [first]
    while left:
        module = left.pop()
        yield module
        for value in list(vars(module).values()):
            if isinstance(value, ModuleType):
                name = value.__name__
            else:  # asking the object itself might run code of its own
                name = (value if isinstance(value, (type, FunctionType)) else type(value)).__module__
            if not isinstance(name, str) or name in seen:
                continue
            seen.add(name)
            other = sys.modules.get(name)
            if other is not None and own_file(other) is not None:
                left.append(other)


_installed: list[str] = []


def own_file(module: ModuleType) -> str | None:
    """The file of a module that is neither installed nor Python's nor ours; None for all others."""
    file = getattr(module, "__file__", None)
    if not isinstance(file, str) or not file.endswith(".py"):
        return None
    if not _installed:
        paths = sysconfig.get_paths()
        _installed.extend(paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib"))
        _installed.append(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
    file = os.path.abspath(file)
    return None if any(file.startswith(folder + os.sep) for folder in _installed) else file


def _digest(data: bytes) -> str:
    return hashlib.sha1(data, usedforsecurity=False).hexdigest()
