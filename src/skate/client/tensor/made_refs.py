"""Refs of this process whose tensors travel by a transport."""

from __future__ import annotations

import weakref
from typing import Any


class MadeRef:
    """The caller's knowledge of the result of a method with a transport."""

    __slots__ = ("source", "transport", "receivers", "warned")

    def __init__(self, source: Any, transport: str) -> None:
        #: A handle to the actor that has the tensors; None for the process itself.
        self.source = source
        self.transport = transport
        self.receivers: set[bytes] = set()
        self.warned = False


#: Refs of results of methods with a transport, and of values that were put with one.
made: weakref.WeakKeyDictionary[Any, MadeRef] = weakref.WeakKeyDictionary()
