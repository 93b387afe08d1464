"""The handle calls made by a request."""

from __future__ import annotations

import asyncio
from typing import Any


def release(children: set[Any] | None, failed: bool) -> None:
    """Forget the handle calls of a request that has ended; cancel them if it failed or was cancelled."""
    if children:
        if failed or _cancelled():
            for each in list(children):
                each.cancel()
        children.clear()


def release_of_task(children: set[Any], failed: bool) -> None:
    """Do the same for a request that is a task: if it was cancelled, what it has sent was cancelled with it."""
    if not _cancelled():
        release(children, failed)
        return
    for each in list(children):
        if each._call.ref is None:  # a second cancellation would disturb code that handles the first one
            each.cancel()
    children.clear()


def _cancelled() -> bool:
    """Return True if the current request was cancelled, even if its code has caught the CancelledError."""
    task = asyncio.current_task()
    return task is not None and hasattr(task, "cancelling") and task.cancelling() > 0  # from Python 3.11 on
