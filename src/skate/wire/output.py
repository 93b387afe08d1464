"""The marker with which a worker announces in its output who prints next."""

from __future__ import annotations

#: Precedes "pid task name" and the end mark, in front of a line; programs do not print it.
MARK = b"\0\x1eskate\x1e"
END_OF_MARK = b"\0\x1f"
#: Stands for the task where none runs.
NO_TASK = "-"


def key_of(task_id: bytes, attempt: int) -> str:
    """Return the text for an attempt of a task in a mark."""
    return f"{task_id.hex()}:{attempt}"
