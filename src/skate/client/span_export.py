"""The export of spans of OpenTelemetry that wait in this process, on request."""

from __future__ import annotations

import sys
from collections.abc import Callable

from skate.wire.limits import start_thread

#: The longest time that an export takes here; a batch that takes longer is lost if its process ends.
LIMIT_SECONDS = 2.0


def begin(done: Callable[[], object]) -> None:
    """Export in a thread what this process has recorded, and call `done` afterwards."""
    trace = sys.modules.get("opentelemetry.trace")
    flush = None if trace is None else getattr(trace.get_tracer_provider(), "force_flush", None)

    def run() -> None:
        try:
            if flush is not None:
                flush(int(LIMIT_SECONDS * 1000))
        finally:
            done()

    start_thread(run, "skate-spans", " that exports spans")
