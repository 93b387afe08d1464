"""Pickling by value, with the names of the files that functions were written in.

cloudpickle drops these names since 3.1.3. Tracebacks, stacks, profiles and breakpoints need them to show the lines of a
function that was sent by value.
"""

from __future__ import annotations

import functools
import io
from collections import ChainMap
from collections.abc import Callable
from types import CodeType
from typing import IO, Any

#: The place of the file among the arguments of `CodeType`.
_FILE = 10


@functools.cache
def pickler() -> Any:
    """Return the class of the pickler, created on first use because cloudpickle takes 10 ms to load."""
    import cloudpickle  # takes 10 ms, and plain values do not need it

    reduce = cloudpickle.Pickler.dispatch_table[CodeType]

    def reduced(code: CodeType) -> Any:
        make, args = reduce(code)
        # A new string, as for the other names: the bytes must not depend on which strings are interned.
        return make, (*args[:_FILE], "".join(code.co_filename), *args[_FILE + 1 :])

    class FunctionPickler(cloudpickle.Pickler):  # type: ignore[misc]
        """Packs functions and classes as cloudpickle does, with the names of their files."""

        dispatch_table = ChainMap({CodeType: reduced}, *cloudpickle.Pickler.dispatch_table.maps)

    return FunctionPickler


def dump(
    obj: object,
    file: IO[bytes],
    protocol: int | None = None,
    buffer_callback: Callable[[Any], Any] | None = None,
) -> None:
    """Pickle a value into a file; the arguments are those of `pickle.dump`."""
    pickler()(file, protocol=protocol, buffer_callback=buffer_callback).dump(obj)


def dumps(
    obj: object, protocol: int | None = None, buffer_callback: Callable[[Any], Any] | None = None
) -> bytes:
    """Pickle a value; the arguments are those of `pickle.dumps`."""
    out = io.BytesIO()
    dump(obj, out, protocol, buffer_callback)
    return out.getvalue()
