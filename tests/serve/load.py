"""Clients that send requests continuously, over HTTP or through a handle, and count the answers."""

from __future__ import annotations

import collections
import http.client
import threading
import time
from collections.abc import Callable
from typing import Any


class Load:
    """Threads that send requests inside a `with` block, each over its own connection."""

    def __init__(self, port: int, path: str = "/", threads: int = 8) -> None:
        self.port = port
        self.path = path
        self.answers: collections.Counter[str] = collections.Counter()
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._threads = [threading.Thread(target=self._ask, daemon=True) for _ in range(threads)]

    def __enter__(self) -> Load:
        for each in self._threads:
            each.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._stop.set()
        for each in self._threads:
            each.join(30)

    def _ask(self) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        while not self._stop.is_set():
            try:
                connection.request("GET", self.path)
                answer = connection.getresponse()
                answer_text = f"{answer.status} {answer.read().decode()}"
            except (OSError, http.client.HTTPException) as error:
                connection.close()
                connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
                answer_text = f"lost {type(error).__name__}"
            with self._lock:
                self.answers[answer_text] += 1
        connection.close()

    def lost(self) -> dict[str, int]:
        """Return all answers except good ones, with their counts."""
        return {
            answer_text: count
            for answer_text, count in self.answers.items()
            if not answer_text.startswith("200")
        }

    def good(self) -> int:
        """Return the number of good answers so far."""
        with self._lock:
            return sum(count for answer_text, count in self.answers.items() if answer_text.startswith("200"))


def wait_for(condition: Callable[[], Any], what: str, timeout_s: float = 40) -> Any:
    deadline = time.monotonic() + timeout_s
    pause = threading.Event()
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < deadline, f"waited {timeout_s} s for {what}; last: {value!r}"
        pause.wait(0.005)


class Calls:
    """Threads that call a handle continuously inside a `with` block, and count the results."""

    def __init__(self, handle: Any, threads: int = 8) -> None:
        self.handle = handle
        self.answers: collections.Counter[str] = collections.Counter()
        self.errors: list[BaseException] = []
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._ask, daemon=True) for _ in range(threads)]

    def __enter__(self) -> Calls:
        for each in self._threads:
            each.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._stop.set()
        for each in self._threads:
            each.join(40)

    def _ask(self) -> None:
        while not self._stop.is_set():
            try:
                self.answers[str(self.handle.remote().result(timeout_s=30))] += 1
            except Exception as error:  # the test counts all errors
                self.errors.append(error)

    def more(self, count: int) -> None:
        """Wait for this number of further good answers."""
        before = self.answers.total()
        wait_for(lambda: self.answers.total() >= before + count, f"{count} more answers")
