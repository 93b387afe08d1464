"""An ASGI app on a port of the loopback, in a thread."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from typing import Any

import uvicorn


class Served:
    """Serves until closed."""

    def __init__(self, app: Any) -> None:
        self._socket = socket.socket()
        self._socket.bind(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self._server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="off", ws="none"))
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        deadline = time.monotonic() + 20
        while not self._server.started:
            assert time.monotonic() < deadline and self._thread.is_alive(), "the server did not start"
            threading.Event().wait(0.002)

    def _run(self) -> None:
        asyncio.run(self._server.serve([self._socket]))

    def close(self) -> None:
        """End the server."""
        self._server.should_exit = True
        self._thread.join(20)
        self._socket.close()
        assert not self._thread.is_alive(), "the server did not end"
