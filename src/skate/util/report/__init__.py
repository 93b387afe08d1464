"""A report about a session: one HTML file without scripts, to keep after the session has ended or to send to somebody."""

from __future__ import annotations

import os

from skate.util.report.page import page
from skate.util.report.snapshot import Snapshot, take_snapshot

__all__ = ["Snapshot", "take_snapshot", "write_report"]


def write_report(path: str | os.PathLike[str]) -> None:
    """Write a report about the running session to a file, replacing it.

    The file has no scripts, and loads nothing. It holds names, error messages and lines of the program.

    Args:
        path: The file, such as "report.html".

    Raises:
        RuntimeError: No session is running.
        OSError: The file cannot be written.
    """
    text = page(take_snapshot())
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
