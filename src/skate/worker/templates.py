"""Functions and classes in a worker: unpickled at first use, and reloaded if their source has changed."""

from __future__ import annotations

import importlib
import os
import sys
from types import FunctionType
from typing import TYPE_CHECKING, Any

from skate.protocol.fields import TemplateFields
from skate.wire import values

if TYPE_CHECKING:
    from skate.client.process import Process

_stamps: dict[str, int] = {}


class WorkerTemplate:
    """A template with its function or class."""

    __slots__ = (
        "key", "fields", "name", "function_key", "returns", "streaming", "backpressure", "actor_backpressure", "per_yield",
        "retry_exceptions", "method", "group", "transport", "plain", "_functions", "_attribute",
    )  # fmt: skip

    def __init__(self, key: bytes, fields: TemplateFields, functions: dict[bytes, Any]) -> None:
        self.key = key
        self.fields = fields
        self.name: str = fields["name"]
        self.function_key: bytes = fields["function"]
        returns = fields.get("returns")
        self.returns: int = 1 if returns is None else returns
        self.streaming: bool = fields.get("streaming", False)
        self.backpressure: int = fields.get("backpressure", 0)
        self.actor_backpressure: int = fields.get("actor_backpressure", 0)
        #: The number of values in each yielded tuple, each of which gets its own ref.
        self.per_yield: int = fields.get("per_yield", 1)
        self.retry_exceptions: Any = fields.get("retry_exceptions", False)
        self.method: str = fields.get("method", "")
        self.group: str = fields.get("group", "")
        self.transport: str = fields.get("tensor_transport", "")
        #: The function of the class that a method call runs, once known; None if binding it takes more than that.
        self.plain: FunctionType | None = None
        self._functions = functions
        self._attribute: Any = None

    def load(self, process: Process, who: str = "The remote function") -> Any:
        """Return the function or class. Raises RuntimeError, beginning with `who`, if this worker cannot unpickle it."""
        found = self._functions[self.function_key]
        if type(found) is bytes:
            try:
                found = self._functions[self.function_key] = _unpickled(found)
            except Exception as error:  # unpickling imports modules, and may call code of the user's
                raise RuntimeError(
                    f"{who} failed to import on the worker: {self.name} needs something that is not installed there, or not "
                    f"found in sys.path ({type(error).__name__}: {error})"
                ) from error
        return found

    def bound(self, actor: Any) -> Any:
        """Return a method of an actor, looked up on the class because an instance attribute may have the same name."""
        cls = type(actor)
        found = self._attribute
        if found is None:
            name = self.method
            bases = [base for base in cls.__mro__ if name in base.__dict__]
            if not bases:  # provided by a metaclass's __getattr__, for example
                return getattr(actor, name)
            found = self._attribute = bases[0].__dict__[name]
            if type(found) is FunctionType:
                self.plain = found
        bind = getattr(found, "__get__", None)
        return found if bind is None else bind(actor, cls)

    def should_retry(self, error: BaseException) -> bool:
        """Return True if a task that fails with this error is retried."""
        wanted = self.retry_exceptions
        if type(wanted) is bytes:
            wanted = self.retry_exceptions = tuple(values.unpack(wanted))
        if isinstance(wanted, tuple):
            return isinstance(error, wanted) or isinstance(getattr(error, "cause", None), wanted)
        return bool(wanted) and isinstance(error, Exception)


def _unpickled(blob: bytes) -> Any:
    found = values.unpack(blob)
    module = sys.modules.get(getattr(found, "__module__", None) or "")
    path = getattr(module, "__file__", None)
    if module is None or not path or module.__name__ == "__main__" or "site-packages" in path:
        return found
    try:
        stamp = os.stat(path).st_mtime_ns
    except OSError:
        return found
    known = _stamps.setdefault(path, stamp)
    if known != stamp:
        _stamps[path] = stamp
        importlib.invalidate_caches()
        importlib.reload(module)
        return values.unpack(blob)
    return found
