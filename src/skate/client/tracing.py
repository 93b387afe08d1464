"""Spans of OpenTelemetry around calls: one where a call is made and one where it runs, which knows the first as its parent.

`init(_tracing_startup_hook="module:function")` turns it on: the function is called in each process of the session and sets up
where spans go. Until then nothing here is loaded; what packs arguments is replaced by what also packs the context of the caller.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from skate.client import span_export
from skate.client.task import submission
from skate.core.ids import WorkerID
from skate.core.state.surveys import EXPORTS

if TYPE_CHECKING:
    from skate.client.process import Process

#: The environment variable that passes the hook to the session's workers.
ENVIRONMENT_VARIABLE = "SKATE_TRACING_HOOK"
#: The keyword by which the context of the caller travels.
CONTEXT = "_ray_trace_ctx"
TRACER = "skate"
NEEDED_BY = "_tracing_startup_hook"

_plain_pack = submission.pack_arguments
_plain_create = submission.request_actor
#: In each thread, the span of an actor whose arguments are packed, until the request for it is sent.
_creating = threading.local()


def start(hook: str | Callable[[], Any]) -> None:
    """Call the hook, here and in the workers that are started from now on, and record spans.

    Raises ValueError for a hook that is no "module:function", ImportError or AttributeError for one that is not there, and
    ImportError without OpenTelemetry.
    """
    text = hook if isinstance(hook, str) else f"{hook.__module__}:{hook.__qualname__}"
    function = _function(text)
    if importlib.util.find_spec("opentelemetry") is None:
        raise ImportError(
            f"{NEEDED_BY} needs OpenTelemetry, which is not installed: pip install opentelemetry-sdk"
        )
    function()
    os.environ[ENVIRONMENT_VARIABLE] = text
    record()


def stop(process: Process | None = None) -> None:
    """Stop recording spans in this process, after all processes of its session have exported theirs."""
    if process is not None and not process.closed and not process.lost:
        process.ask_everybody((EXPORTS,), span_export.LIMIT_SECONDS)
    os.environ.pop(ENVIRONMENT_VARIABLE, None)
    setattr(submission, "pack_arguments", _plain_pack)  # noqa: B010
    setattr(submission, "request_actor", _plain_create)  # noqa: B010


def record() -> None:
    """Have the calls that are made here be spans."""
    setattr(submission, "pack_arguments", _traced)  # noqa: B010
    setattr(submission, "request_actor", _traced_creation)  # noqa: B010


def call_hook() -> None:
    """In a worker: call the hook that the environment names."""
    _function(os.environ[ENVIRONMENT_VARIABLE])()


def check(text: str) -> str:
    """Return the name of a hook. Raises ValueError for one that is no "module:function"."""
    module, colon, name = text.partition(":")
    if not module or not colon or not name:
        raise ValueError(f'a hook for tracing must be "module:function", got {text!r}')
    return text


def _function(text: str) -> Callable[[], Any]:
    module, _, name = check(text).partition(":")
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
    """Pack arguments and the context of the span around this call."""
    function = getattr(getattr(callee, "_remote_function", None), "_function", None)
    if function is not None:
        name = f"{function.__module__}.{function.__name__}"
        attributes = {"ray.remote": "function", "ray.function": name}
        here = whereabouts(process)
        if process.context is not None and (task_id := process.context.task_id()):
            here["ray.task_id"] = task_id.hex()
        with _producer(name, {**attributes, **here}):
            return _with_context(process, args, kwargs, callee, name, attributes)
    if not hasattr(callee, "class_name"):
        return _traced_constructor(process, args, kwargs, callee)
    longer, described = _of_actor(callee.class_name, callee.name)
    more = {**whereabouts(process), "ray.actor_id": callee.actor_id.hex()}
    with _producer(longer, {**described, **more}):
        name, attributes = _of_actor(callee.class_name.rpartition(".")[2], callee.name)
        return _with_context(process, args, kwargs, callee, name, attributes)


def _traced_constructor(
    process: Process, args: tuple[Any, ...], kwargs: dict[str, Any], callee: Any
) -> submission.Packed:
    """Pack the arguments of a constructor. Its span stays open until the actor has an id."""
    from opentelemetry import trace  # the hook has loaded it

    _end_of_creation("the actor could not be created")  # of one before
    longer, described = _of_actor(callee.name, "__init__")
    name, attributes = _of_actor(callee.name.rpartition(".")[2], "__init__")
    _creating.span = trace.get_tracer(TRACER).start_span(
        f"{longer} ray.remote",
        kind=trace.SpanKind.PRODUCER,
        attributes={**described, **whereabouts(process)},
    )
    with trace.use_span(_creating.span):
        return _with_context(process, args, kwargs, callee, name, attributes)


def _traced_creation(process: Process, actor_id: bytes, *rest: Any) -> None:
    """Request an actor, and end the span of that."""
    _plain_create(process, actor_id, *rest)
    _creating.span.set_attribute("ray.actor_id", actor_id.hex())
    _end_of_creation()


def _end_of_creation(problem: str = "") -> None:
    span, _creating.span = getattr(_creating, "span", None), None
    if span is not None:
        if problem:
            from opentelemetry import trace  # the hook has loaded it

            span.set_status(trace.StatusCode.ERROR, problem)
        span.end()


def _producer(name: str, attributes: dict[str, str]) -> AbstractContextManager[Any]:
    from opentelemetry import trace  # the hook has loaded it

    return trace.get_tracer(TRACER).start_as_current_span(
        f"{name} ray.remote", kind=trace.SpanKind.PRODUCER, attributes=attributes
    )


def _with_context(
    process: Process,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    callee: Any,
    name: str,
    attributes: dict[str, str],
) -> submission.Packed:
    """Pack arguments, the current context, and the name and attributes of the span where the call runs."""
    from opentelemetry import propagate  # the hook has loaded it

    carrier: dict[str, str] = {}
    propagate.inject(carrier)
    return _plain_pack(process, args, {**kwargs, CONTEXT: (name, attributes, carrier)}, callee)


def _of_actor(class_name: str, method: str) -> tuple[str, dict[str, str]]:
    """Return the name of a call of an actor, and its attributes."""
    name = f"{class_name}.{method}"
    return name, {
        "ray.remote": "actor", "ray.actor_class": class_name, "ray.actor_method": method, "ray.function": name,
    }  # fmt: skip


def whereabouts(process: Process) -> dict[str, str]:
    """The attributes for the origin of a span."""
    return {
        "ray.pid": str(os.getpid()),
        "ray.job_id": process.job.hex(),
        "ray.node_id": process.node_id.hex(),
        "ray.worker_id": WorkerID(process.cid.to_bytes(4, "big").rjust(28, b"\0")).hex(),
    }
