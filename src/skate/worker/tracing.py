"""OpenTelemetry spans for running calls. See `client.tracing` for when they are recorded."""

from __future__ import annotations

from typing import Any

from opentelemetry import context as contexts
from opentelemetry import propagate, trace

from skate.client import tracing
from skate.protocol import messages as m
from skate.worker.executor import Executor

_arguments = Executor.arguments
_answer = Executor.answer
#: Spans of the running calls, by task id, with the tokens that detach their contexts.
_open: dict[bytes, tuple[Any, Any]] = {}


def start() -> None:
    """Call the hook, and record a span for each call that carries its caller's context."""
    tracing.call_hook()
    tracing.record()
    setattr(Executor, "arguments", _begin)  # noqa: B010
    setattr(Executor, "answer", _end)  # noqa: B010


def _begin(executor: Executor, blob: bytes, deps: tuple[Any, ...]) -> tuple[Any, dict[str, Any]]:
    given, named = _arguments(executor, blob, deps)
    carrier = named.pop(tracing.CONTEXT, None)
    running = executor.context.current()
    if carrier is not None and running is not None:
        parent = propagate.extract(carrier)
        attributes = {**carrier["attributes"], **tracing.whereabouts(executor.process)}
        if executor.context.actor_id:
            attributes["ray.actor_id"] = executor.context.actor_id.hex()
        else:
            attributes["ray.task_id"] = running.task_id.hex()
        span = trace.get_tracer("skate").start_span(
            f"{carrier['function']} ray.remote_worker", parent, trace.SpanKind.CONSUMER, attributes
        )
        _open[running.task_id] = span, contexts.attach(trace.set_span_in_context(span))
    return given, named


def _end(
    executor: Executor, running: Any, status: int, returns: Any, started: float, retriable: bool
) -> None:
    span, token = _open.pop(running.task_id, (None, None))
    if span is not None:
        if status != m.OK:
            span.set_status(trace.StatusCode.ERROR)
        contexts.detach(token)
        span.end()
    _answer(executor, running, status, returns, started, retriable)
