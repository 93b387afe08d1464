"""Spans of OpenTelemetry around calls: one where a call is made and one where it runs, which knows the first as its parent.

`init(_tracing_startup_hook="module:function")` turns it on: the function is called in each process of the session and sets up
where spans go. Until then nothing here is loaded; what packs arguments is replaced by what also packs the context of the caller.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from skate.client.task import submission
from skate.core.ids import WorkerID

if TYPE_CHECKING:
    from skate.client.process import Process

#: The environment variable that passes the hook to the session's workers.
ENVIRONMENT_VARIABLE = "SKATE_TRACING_HOOK"
#: The keyword by which the context of the caller travels.
CONTEXT = "_ray_trace_ctx"

_plain = submission.pack_arguments


def start(hook: str | Callable[[], Any]) -> None:
    """Call the hook, here and in the workers that are started from now on, and record spans.

    Raises ValueError for a hook that is no "module:function", ImportError or AttributeError for one that is not there.
    """
    text = hook if isinstance(hook, str) else f"{hook.__module__}:{hook.__qualname__}"
    _function(text)()
    os.environ[ENVIRONMENT_VARIABLE] = text
    record()


def stop() -> None:
    """Stop recording spans in this process."""
    if os.environ.pop(ENVIRONMENT_VARIABLE, None) is not None:
        setattr(submission, "pack_arguments", _plain)  # noqa: B010


def record() -> None:
    """Have the calls that are made here be spans."""
    setattr(submission, "pack_arguments", _traced)  # noqa: B010


def call_hook() -> None:
    """In a worker: call the hook that the environment names."""
    _function(os.environ[ENVIRONMENT_VARIABLE])()


def _function(text: str) -> Callable[[], Any]:
    module, colon, name = text.partition(":")
    if not colon or not name:
        raise ValueError(f'_tracing_startup_hook must be "module:function", got {text!r}')
    try:
        found: Any = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name != "ray":
            raise
        own = f"skate{module.removeprefix('ray')}"
        found = importlib.import_module(own)
    for part in name.split("."):
        found = getattr(found, part)
    function: Callable[[], Any] = found
    return function


def _traced(
    process: Process, args: tuple[Any, ...], kwargs: dict[str, Any], callee: Any
) -> submission.Packed:
    from opentelemetry import propagate, trace  # the hook has loaded them

    name, call_attributes = _described(callee)
    attributes = {**call_attributes, **whereabouts(process)}
    tracer = trace.get_tracer("skate")
    with tracer.start_as_current_span(
        f"{name} ray.remote", kind=trace.SpanKind.PRODUCER, attributes=attributes
    ):
        carrier: dict[str, Any] = {"function": name, "attributes": call_attributes}
        propagate.inject(carrier)
        return _plain(process, args, {**kwargs, CONTEXT: carrier}, callee)


def _described(callee: Any) -> tuple[str, dict[str, str]]:
    """The name of a call, and its attributes."""
    function = getattr(getattr(callee, "_remote_function", None), "_function", None)
    if function is not None:
        name = f"{function.__module__}.{function.__name__}"
        return name, {"ray.remote": "function", "ray.function": name}
    signature = callee.signature if hasattr(callee, "key") else None
    if signature is not None:  # a method; else the constructor of a class
        cls, _, method = signature.name.rpartition(".")
    else:
        cls, method = callee.name.rpartition(".")[2], "__init__"
    name = f"{cls}.{method}"
    return name, {
        "ray.remote": "actor", "ray.actor_class": cls, "ray.actor_method": method, "ray.function": name,
    }  # fmt: skip


def whereabouts(process: Process) -> dict[str, str]:
    """The attributes for the origin of a span."""
    return {
        "ray.pid": str(os.getpid()),
        "ray.job_id": process.job.hex(),
        "ray.node_id": process.node_id.hex(),
        "ray.worker_id": WorkerID(process.cid.to_bytes(4, "big").rjust(28, b"\0")).hex(),
    }
