"""A server with the files of Ray's own page, from the installed Ray, that passes all other requests on to a dashboard of Skate.

It adds the token, which Ray's page would keep in a cookie. Skate's dashboard knows no cookies.
"""

from __future__ import annotations

import http.client
import http.server
import mimetypes
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.ray_clients.ray_programs import PYTHON

SECONDS = 60
#: What the dashboard may learn of the request of the browser.
PASSED_ON = ("accept", "content-type")


def files() -> Path:
    """Return the folder of the page in the installed Ray."""
    (found,) = PYTHON.parents[1].glob("lib/python*/site-packages/ray/dashboard/client/build")
    return found


class Server(http.server.ThreadingHTTPServer):
    """The server, and the paths that the dashboard has refused."""

    daemon_threads = True

    def __init__(self, url: str, token: str) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.host = urlsplit(url).netloc
        self.token = token
        self.files = files()
        self.refused: list[tuple[int, str]] = []
        self.asked: set[str] = set()

    @property
    def url(self) -> str:
        """Return where the page is."""
        return f"http://127.0.0.1:{self.server_address[1]}/"


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers a request of the browser."""

    server: Server

    def do_GET(self) -> None:
        """Answer with a file or from the dashboard."""
        path = self.path.partition("?")[0].lstrip("/") or "index.html"
        file = (self.server.files / path).resolve()
        if file.is_relative_to(self.server.files) and file.is_file():
            kind = mimetypes.guess_type(file.name)[0] or "application/octet-stream"
            self._answer(200, kind, file.read_bytes())
            return
        connection = http.client.HTTPConnection(self.server.host, timeout=SECONDS)
        headers = {name: self.headers[name] for name in PASSED_ON if name in self.headers}
        headers["Authorization"] = f"Bearer {self.server.token}"
        try:
            connection.request(self.command, self.path, headers=headers)
            answer = connection.getresponse()
            body = answer.read()
        finally:
            connection.close()
        self.server.asked.add(self.path.partition("?")[0])
        if answer.status >= 400:
            self.server.refused.append((answer.status, self.path))
        self._answer(answer.status, answer.headers.get("content-type", "text/plain"), body)

    do_HEAD = do_GET

    def _answer(self, status: int, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Print nothing."""


@contextmanager
def served(url: str, token: str) -> Iterator[Server]:
    """Serve Ray's page on a dashboard of Skate."""
    with Server(url, token) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
