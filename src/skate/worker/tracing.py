"""OpenTelemetry spans for running calls. See `client.tracing` for when they are recorded."""

from __future__ import annotations

import importlib.util
import os
import sys
from typing import Any

from skate.client import tracing
from skate.protocol import messages as m
from skate.worker.executor import Executor
from skate.worker.returns import Partial

HAS_PACKAGE = importlib.util.find_spec("opentelemetry") is not None
if HAS_PACKAGE:  # the environment of this worker may have other packages than that of the driver
    from opentelemetry import context as contexts
    from opentelemetry import propagate, trace

_arguments = Executor.arguments
_answer = Executor.answer
_failed = Executor.failed
_left = Executor.left
#: Spans of the running calls, by task id, with the tokens that detach their contexts.
_open: dict[bytes, tuple[Any, Any]] = {}


def start() -> None:
    """Call the hook, and record a span for each call that carries its caller's context.

    A hook that fails is named in the worker's output; calls run without it, and their spans go nowhere.
    """
    setattr(Executor, "arguments", _begin)  # noqa: B010
    try:
        tracing.call_hook()
    except Exception as error:  # the hook may raise anything, and the work does not depend on it
        hook = os.environ[tracing.ENVIRONMENT_VARIABLE]
        print(
            f"the tracing hook {hook} has failed in this worker, so its spans go nowhere: {type(error).__name__}: {error}",
            file=sys.stderr,
        )
    if not HAS_PACKAGE:
        return
    tracing.record()
    setattr(Executor, "answer", _end)  # noqa: B010
    setattr(Executor, "failed", _fail)  # noqa: B010
    setattr(Executor, "left", _leave)  # noqa: B010


def _begin(executor: Executor, blob: bytes, deps: tuple[Any, ...]) -> tuple[Any, dict[str, Any]]:
    given, named = _arguments(executor, blob, deps)
    carried = named.pop(tracing.CONTEXT, None)
    running = executor.context.current()
    if carried is not None and running is not None and HAS_PACKAGE:
        name, attributes, carrier = carried
        parent = propagate.extract(carrier)
        attributes = {**attributes, **tracing.whereabouts(executor.process)}
        if executor.context.actor_id:
            attributes["ray.actor_id"] = executor.context.actor_id.hex()
        else:
            attributes["ray.task_id"] = running.task_id.hex()
        span = trace.get_tracer(tracing.TRACER).start_span(
            f"{name} ray.remote_worker", parent, trace.SpanKind.CONSUMER, attributes
        )
        # The context of the caller may hold more than a span, such as baggage.
        _open[running.task_id] = span, contexts.attach(trace.set_span_in_context(span, parent))
    return given, named


def _end(
    executor: Executor, running: Any, status: int, returns: Any, started: float, retriable: bool
) -> None:
    _close(running, "" if status == m.OK else "the call was cancelled")
    _answer(executor, running, status, returns, started, retriable)


def _fail(executor: Executor, running: Any, error: BaseException, started: float) -> None:
    if running.task_id in _open:
        cause = error.error if isinstance(error, Partial) else error
        _open[running.task_id][0].record_exception(cause)
        _close(running, f"{type(cause).__name__}: {cause}")
    _failed(executor, running, error, started)


def _leave(executor: Executor, running: Any, error: BaseException) -> None:
    """End the span of a call that ends its process."""
    _close(running, "")
    _left(executor, running, error)


def _close(running: Any, problem: str) -> None:
    span, token = _open.pop(running.task_id, (None, None))
    if span is not None:
        if problem:
            span.set_status(trace.StatusCode.ERROR, problem)
        contexts.detach(token)
        span.end()
