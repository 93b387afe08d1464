"""A client that keeps asking over connections that stay, and counts what it is answered."""

from __future__ import annotations

import collections
import http.client
import threading


class Load:
    """So many threads, each with a connection, from `begin` to `end`."""

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
                said = f"{answer.status} {answer.read().decode()}"
            except (OSError, http.client.HTTPException) as error:
                connection.close()
                connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
                said = f"lost {type(error).__name__}"
            with self._lock:
                self.answers[said] += 1
        connection.close()

    def lost(self) -> dict[str, int]:
        """Everything but good answers."""
        return {said: count for said, count in self.answers.items() if not said.startswith("200")}

    def good(self) -> int:
        """Good answers so far."""
        with self._lock:
            return sum(count for said, count in self.answers.items() if said.startswith("200"))
