"""The report about a dead worker process: its memory and its last lines of output."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING

from skate.core.resource.resources import human_bytes
from skate.wire.limits import no_more_processes

if TYPE_CHECKING:
    from skate.core.memory.memory_pressure import Gauge
    from skate.node.worker.worker_process import WorkerProcess

LINES_MAX = 10
#: The prefix of the line in which a worker reports what the system refused it.
REFUSED = "skate: this worker cannot begin: "
#: The files of a worker's own stack frames, which say nothing about a crash in user code.
_OURS = tuple(
    f'  File "{os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(__file__))), part)}'
    for part in ("worker", "node")
)
_ENDS = ('  File "<string>", line 1 in <module>', "Extension modules:")
LINE_CHARACTERS_MAX = 400


def could_not_begin(lines: Iterable[str]) -> str:
    """Describe a worker that ended before its first task because the system refused it something."""
    why = next((line for line in lines if line.startswith(REFUSED)), "")
    return f"no worker could be started for it: {why.removeprefix(REFUSED) or no_more_processes('it ended at once')}"


def hook_failed(lines: Iterable[str]) -> str:
    """Describe a worker whose setup hook raised, with the traceback."""
    last = "".join(f"\n    {line[:LINE_CHARACTERS_MAX]}" for line in [*lines][-2 * LINES_MAX :])
    return f"Failed to execute the setup hook (worker_process_setup_hook): it raised in the worker{last}"


def details(worker: WorkerProcess, lines: Iterable[str], limit: Gauge | None) -> str:
    """Return the lines to show below the message."""
    parts = []
    if worker.resident:
        seen = f"\n  memory: {human_bytes(worker.resident)} of its own at the last check"
        if worker.resident_peak > worker.resident:
            seen += f", {human_bytes(worker.resident_peak)} at most"
        parts.append(seen)
    elif worker.peak:
        parts.append(f"\n  memory: {human_bytes(worker.peak)} at most, with what it shared")
    if parts and limit is not None:
        parts.append(f"; {human_bytes(limit.use)} of {human_bytes(limit.limit)} were in use ({limit.source})")
    last = [line for line in lines if line.strip() and not line.startswith((*_OURS, *_ENDS))][-LINES_MAX:]
    if last:
        parts.append("\n  last lines of its output:")
        parts += [f"\n    {line[:LINE_CHARACTERS_MAX]}" for line in last]
    return "".join(parts)
