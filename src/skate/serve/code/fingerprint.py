"""Fingerprints of code, equal in all processes. Replicas are replaced if the fingerprint of their code changes."""

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

#: For larger values, the fingerprint is the digest of their pickle.
_LARGE_BYTES = 1 << 20
_SIMPLE = (str, bytes, int, float, complex, bool, type(None))


def of(value: Any, packed: bytes) -> str:
    """Return a digest of a pickled value, the same in all processes for equal code."""
    if len(packed) > _LARGE_BYTES:
        return _digest(packed)
    from cloudpickle import cloudpickle as inner  # takes 15 ms and is needed only to deploy

    tracked = inner._DYNAMIC_CLASS_TRACKER_BY_CLASS
    known: dict[str, int] = {}

    class NormalizingPickler(pickler.pickler()):  # type: ignore[misc]
        """Normalizes what differs between processes: the ids of classes, and the order of sets."""

        def persistent_id(self, one: Any) -> Any:
            kind = type(one)
            if kind is str and len(one) == 32 and (one in known or one in tracked.values()):
                return "class", known.setdefault(one, len(known))
            if kind in (set, frozenset) and all(isinstance(each, _SIMPLE) for each in one):
                return kind.__name__, sorted(map(repr, one))
            return None

    out = io.BytesIO()
    NormalizingPickler(out).dump(value)
    return _digest(out.getvalue())


def of_modules(target: Any) -> str:
    """Return a digest of the user's source files that a class or function depends on; empty if there are none.

    Libraries are excluded, because they change with the environment and not with a program.
    """
    first = sys.modules.get(getattr(target, "__module__", None) or "")
    if first is None:
        return ""
    found = {}
    for module in _reached(first):
        file = own_file(module)
        if file is not None and module.__name__ != "__main__":  # cloudpickle pickles the code of __main__
            try:
                with open(file, "rb") as source:
                    found[module.__name__] = _digest(source.read())
            except OSError:  # it was deleted after the import
                continue
    return _digest(repr(sorted(found.items())).encode()) if found else ""


def _reached(first: ModuleType) -> Iterator[ModuleType]:
    """Iterate over a module and the user's modules that it imports from, recursively."""
    seen = {first.__name__}
    left = [first]
    while left:
        module = left.pop()
        yield module
        for value in list(vars(module).values()):
            if isinstance(value, ModuleType):
                name = value.__name__
            else:  # an attribute of the object itself might run its code
                name = (value if isinstance(value, (type, FunctionType)) else type(value)).__module__
            if not isinstance(name, str) or name in seen:
                continue
            seen.add(name)
            other = sys.modules.get(name)
            if other is not None and own_file(other) is not None:
                left.append(other)


_installed: list[str] = []


def own_file(module: ModuleType) -> str | None:
    """Return the file of a module of the user's; None for modules of Python, of Skate and of installed packages."""
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
