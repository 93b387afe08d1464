"""The questions of a page about the session: an overview, cheap enough for each second, long lists of tasks, chains of waits."""

from __future__ import annotations

from skate.client.state.overview import names_by_process, overview
from skate.client.state.task_list import COLUMNS, arguments, chain, submitted_at, tasks
from skate.client.state.worker_output import kept, lines_after, lines_of_task

__all__ = [
    "COLUMNS",
    "arguments",
    "chain",
    "kept",
    "lines_after",
    "lines_of_task",
    "names_by_process",
    "overview",
    "submitted_at",
    "tasks",
]
