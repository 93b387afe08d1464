"""An exporter of spans for tests with several processes: each span is a line of JSON in a file named by a variable."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult

VARIABLE = "SKATE_TEST_SPAN_FILE"


class FileExporter(SpanExporter):
    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        with open(os.environ[VARIABLE], "a") as file:
            for span in spans:
                file.write(json.dumps(plain(span)) + "\n")
        return SpanExportResult.SUCCESS


def plain(span: ReadableSpan) -> dict[str, Any]:
    assert span.context is not None
    return {
        "name": span.name,
        "kind": span.kind.name,
        "trace": f"{span.context.trace_id:032x}",
        "id": f"{span.context.span_id:016x}",
        "parent": None if span.parent is None else f"{span.parent.span_id:016x}",
        "status": span.status.status_code.name,
        "attributes": dict(span.attributes or {}),
        "events": [event.name for event in span.events],
        "pid": os.getpid(),
    }


def exporters() -> list[Any]:
    return [SimpleSpanProcessor(FileExporter())]
