"""A hook for `init(_tracing_startup_hook=...)`: writes OpenTelemetry spans to one file per process, one JSON
object per line."""

from __future__ import annotations

import os

from skate.installed import require

spans_dir = "/tmp/spans/"


def setup_tracing() -> None:
    """Send the spans of this process to a file in `spans_dir`, named after its pid."""
    sdk = require("opentelemetry.sdk.trace", "setup_tracing()", "opentelemetry-sdk")
    export = require("opentelemetry.sdk.trace.export", "setup_tracing()", "opentelemetry-sdk")
    trace = require("opentelemetry.trace", "setup_tracing()", "opentelemetry-sdk")
    os.makedirs(spans_dir, exist_ok=True)
    out = open(f"{spans_dir}{os.getpid()}.txt", "w")  # noqa: SIM115  it is open as long as the process lives
    provider = sdk.TracerProvider()
    exporter = export.ConsoleSpanExporter(
        out=out, formatter=lambda span: span.to_json(indent=None) + os.linesep
    )
    provider.add_span_processor(export.SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
