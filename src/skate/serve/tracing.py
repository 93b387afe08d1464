"""OpenTelemetry spans for HTTP requests, handle calls, and the work of replicas on them.

Spans are created in processes that have loaded the OpenTelemetry SDK, through `TracingConfig` or the user's
own code. All others only pass the W3C trace context on.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from skate.installed import missing
from skate.serve import context
from skate.serve.identity import ReplicaID

if TYPE_CHECKING:
    from starlette.types import Scope

#: The headers with the trace context: those of W3C, or those of the propagator that the process has set.
Carrier = dict[str, str]
_SDK = "opentelemetry.sdk.trace"


def active() -> bool:
    """Return True if this process creates spans."""
    return _SDK in sys.modules


def set_up(config: Any, replica: ReplicaID | None = None) -> None:
    """Configure the exporters of a `TracingConfig`. Raises RuntimeError if OpenTelemetry is not installed."""
    if not config.enabled:
        return
    try:
        from opentelemetry import trace  # optional
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
        from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
    except ImportError:
        raise missing("OpenTelemetry", "TracingConfig(enabled=True)", "opentelemetry-sdk") from None
    provider: Any = trace.get_tracer_provider()
    if not isinstance(provider, TracerProvider):
        named = {"service.name": "skate.serve" if replica is None else replica.deployment_id.app_name}
        if replica is not None:
            named["service.instance.id"] = replica.unique_id
        sampler = ParentBased(TraceIdRatioBased(config.sampling_ratio))
        provider = TracerProvider(sampler=sampler, resource=Resource.create(named))
        trace.set_tracer_provider(provider)
    for each in _exporters(config.exporter_import_path):
        provider.add_span_processor(each if hasattr(each, "on_start") else BatchSpanProcessor(each))


def _exporters(named: str) -> list[Any]:
    """Return exporters or span processors from the function at the import path."""
    if not named:
        return []
    from skate.serve.code.import_path import load  # imported only if tracing is set up

    made = load(named)()
    return list(made) if isinstance(made, (list, tuple)) else [made]


def flush() -> None:
    """Export pending spans, because the process ends."""
    if active():
        from opentelemetry import trace  # already imported

        end = getattr(trace.get_tracer_provider(), "force_flush", None)
        if end is not None:
            end()


class Span:
    """An open span. Later spans of this task become its children."""

    __slots__ = ("_span",)

    def __init__(self, name: str, kind: str, carrier: Carrier | None, attributes: dict[str, Any]) -> None:
        from opentelemetry import context as around  # already imported, because spans exist
        from opentelemetry import propagate, trace

        above = None if carrier is None else propagate.extract(carrier, around.Context())
        self._span = trace.get_tracer("skate.serve").start_span(
            name, above, getattr(trace.SpanKind, kind), attributes
        )

    def enter(self) -> Span:
        """Make it the current span until the task ends."""
        from opentelemetry import context as around  # imported only if used
        from opentelemetry import trace

        around.attach(trace.set_span_in_context(self._span))
        return self

    def carrier(self) -> Carrier:
        """Return the trace context for other processes."""
        from opentelemetry import propagate, trace  # imported only if used

        found: Carrier = {}
        propagate.inject(found, trace.set_span_in_context(self._span))
        return found

    def end_rpc(self, error: BaseException | None, code: int) -> None:
        """End the span of a gRPC request, with an error or a status code."""
        self._span.set_attribute("rpc.grpc.status_code", code)
        self.end(error)

    def end(self, error: BaseException | None = None, status: int = 0) -> None:
        """End the span, with an error or an HTTP status."""
        from opentelemetry import trace  # imported only if used

        if status:
            self._span.set_attribute("http.response.status_code", status)
        if error is not None and isinstance(error, Exception):
            self._span.record_exception(error)
        if error is not None or status >= 500:
            description = "" if error is None else f"{type(error).__name__}: {error}"
            self._span.set_status(trace.Status(trace.StatusCode.ERROR, description))
        self._span.end()


def of_request(scope: Scope, around: context.RequestContext, replica: ReplicaID) -> Span:
    """Start the span of a request over HTTP or WebSocket, which continues the trace of its headers."""
    method = scope.get("method", "WEBSOCKET")
    return Span(
        f"{method} {around.route}",
        "SERVER",
        {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]},
        {
            "http.request.method": method,
            "http.route": around.route,
            "url.path": scope["path"],
            **_place(around.app_name, around.deployment, replica.unique_id, around.request_id),
        },
    ).enter()


def of_rpc(
    service: str, method: str, metadata: dict[str, Any], around: context.RequestContext, replica: ReplicaID
) -> Span:
    """Start the span of a gRPC request, which continues the trace of its metadata."""
    return Span(
        f"{service}/{method}",
        "SERVER",
        {name: value for name, value in metadata.items() if isinstance(value, str)},
        {
            "rpc.system": "grpc",
            "rpc.service": service,
            "rpc.method": method,
            **_place(around.app_name, replica.deployment_id.name, replica.unique_id, around.request_id),
        },
    ).enter()


def of_call(deployment: str, meta: tuple[Any, ...]) -> Span:
    """Start the span of a handle call, which ends with the response."""
    return Span(
        f"{deployment}.{meta[1]} call",
        "CLIENT",
        None,
        {"rpc.method": meta[1], **_place(meta[3], deployment, "", meta[0])},
    )


def of_work(meta: tuple[Any, ...], replica: ReplicaID) -> Span | None:
    """Start the span of a replica's work on a traced handle call; None if this process creates none."""
    if len(meta) < 7 or not active():
        return None
    name = replica.deployment_id.name
    return Span(
        f"{name}.{meta[1]}",
        "SERVER",
        meta[6],
        {"rpc.method": meta[1], "http.route": meta[2], **_place(meta[3], name, replica.unique_id, meta[0])},
    ).enter()


def _place(app: str, deployment: str, replica: str, request_id: str) -> dict[str, str]:
    attributes = {"serve.application": app, "serve.deployment": deployment, "serve.request_id": request_id}
    return {**attributes, "serve.replica": replica} if replica else attributes
