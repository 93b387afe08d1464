"""Hooks: how those of workers are encoded (a function becomes text, a name stays unchanged), and functions by name."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

_MARK = "pickle:"


def pickled(function: Callable[..., Any]) -> str:
    """Encode a function as text for JSON; a function of the driver's script is pickled by value."""
    # cloudpickle costs tens of milliseconds to import, and few programs have a hook.
    import cloudpickle

    return _MARK + base64.b64encode(cloudpickle.dumps(function)).decode("ascii")


def travelling(hook: Any) -> bytes | str:
    """Decode a hook for the worker: the pickled function's bytes, or 'module.function' unchanged."""
    if callable(hook):
        hook = pickled(hook)
    text = str(hook)
    return base64.b64decode(text[len(_MARK) :]) if text.startswith(_MARK) else text


def named(path: str) -> Callable[..., Any]:
    """Return a function by 'module.function'. Raises ValueError, ImportError or AttributeError if there is none."""
    import importlib  # few programs name a hook

    module, _, name = path.rpartition(".")
    function: Callable[..., Any] = getattr(importlib.import_module(module), name)
    return function


def run(hook: bytes | str) -> None:
    """Run a setup hook in this process; called by the worker before its first task.

    Raises ImportError or AttributeError if a named function does not exist, and any error of the function.
    """
    if isinstance(hook, bytes):
        import pickle  # only a worker with a hook needs it this early

        function = pickle.loads(hook)
    else:
        function = named(hook)
    function()
