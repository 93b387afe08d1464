"""The refs of this process whose tensors are sent by a transport."""

from __future__ import annotations

import weakref
from typing import Any


class MadeRef:
    """The caller's record of the result of a method with a transport."""

    __slots__ = ("source", "transport", "receivers", "warned")

    def __init__(self, source: Any, transport: str) -> None:
        #: A handle to the actor that has the tensors; None for this process.
        self.source = source
        self.transport = transport
        self.receivers: set[bytes] = set()
        self.warned = False


#: The records of results of methods with a transport, and of values put with one, by ref.
made: weakref.WeakKeyDictionary[Any, MadeRef] = weakref.WeakKeyDictionary()
