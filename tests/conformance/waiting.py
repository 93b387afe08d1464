"""Waiting for a condition instead of sleeping, in the test process and inside tasks."""

from __future__ import annotations

import pathlib
import threading
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

POLL_INTERVAL_S = 0.005


def wait_for(condition: Callable[[], T], timeout_s: float = 20.0, what: str = "the condition") -> T:
    """Return the first truthy value of ``condition()``, or fail naming ``what`` was awaited."""
    deadline = time.monotonic() + timeout_s
    pause = threading.Event()
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {timeout_s:g} s for {what}; last value: {value!r}")
        pause.wait(POLL_INTERVAL_S)


class Gate:
    """A signal between processes on one machine: a file that exists once the gate is open.

    A gate may be captured by a task or passed as an argument; it holds nothing but a path.
    """

    def __init__(self, path: pathlib.Path | str) -> None:
        self.path = pathlib.Path(path)

    def open(self) -> None:
        self.path.touch()

    def is_open(self) -> bool:
        return self.path.exists()

    def wait(self, timeout_s: float = 20.0) -> None:
        wait_for(self.is_open, timeout_s, f"gate {self.path.name} to open")


class Tally:
    """A count shared between processes: one byte is appended to a file per ``add``.

    No two calls of ``add`` return the same number: each returns the position after its own byte.
    """

    def __init__(self, path: pathlib.Path | str) -> None:
        self.path = pathlib.Path(path)

    def add(self) -> int:
        with self.path.open("ab", buffering=0) as file:
            file.write(b".")
            return file.tell()

    def count(self) -> int:
        return self.path.stat().st_size if self.path.exists() else 0
