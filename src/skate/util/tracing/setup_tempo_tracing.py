"""A hook for `init(_tracing_startup_hook=...)`: sends OpenTelemetry spans to a local receiver of OTLP, such as Tempo."""

from __future__ import annotations

from skate.installed import require

#: Where receivers of OTLP over gRPC listen by default.
ENDPOINT = "http://localhost:4317"


def setup_tracing() -> None:
    """Send the spans of this process to the receiver, and print them."""
    sdk = require("opentelemetry.sdk.trace", "setup_tracing()", "opentelemetry-sdk")
    export = require("opentelemetry.sdk.trace.export", "setup_tracing()", "opentelemetry-sdk")
    otlp = require(
        "opentelemetry.exporter.otlp.proto.grpc.trace_exporter",
        "setup_tracing()",
        "opentelemetry-exporter-otlp",
    )
    trace = require("opentelemetry.trace", "setup_tracing()", "opentelemetry-sdk")
    provider = sdk.TracerProvider()
    for exporter in (otlp.OTLPSpanExporter(endpoint=ENDPOINT, insecure=True), export.ConsoleSpanExporter()):
        provider.add_span_processor(export.SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
