"""Requests to the application without a socket, so that a header may be anything."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any, NamedTuple
from urllib.parse import unquote

from skate.dashboard.access import Access
from skate.dashboard.guard import Guard

HOST = "127.0.0.1:8265"
TOKENS = {
    "read": "the-token-that-reads",
    "control": "the-one-that-controls",
    "submit": "the-one-for-everything",
}


def access() -> Access:
    return Access({HOST, "localhost:8265"}, TOKENS)


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def ask(
    app: Guard,
    path: str,
    method: str = "GET",
    headers: Sequence[tuple[str, str]] = (),
    host: str | None = HOST,
    body: bytes = b"",
) -> Answer:
    """Send one request; `host` is left out if it is None."""
    path, _, query = path.partition("?")
    sent = [*([("host", host)] if host is not None else []), *headers]
    scope = {
        "type": "http", "http_version": "1.1", "method": method, "scheme": "http", "path": unquote(path),
        "raw_path": path.encode(), "query_string": query.encode(), "root_path": "",
        "headers": [(name.lower().encode(), value.encode()) for name, value in sent],
    }  # fmt: skip
    answer: list[Any] = []

    asked = False

    async def receive() -> dict[str, Any]:
        nonlocal asked
        if asked:  # the client stays until it has the whole answer
            await asyncio.Event().wait()
        asked = True
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        answer.append(message)

    asyncio.run(app(scope, receive, send))
    answered = {name.decode(): value.decode() for name, value in answer[0]["headers"]}
    return Answer(answer[0]["status"], answered, b"".join(each.get("body", b"") for each in answer[1:]))


def ask_stream(app: Guard, path: str, headers: Sequence[tuple[str, str]], host: str | None = HOST) -> int:
    """Ask for a WebSocket; return the status with which it is refused, or 101."""
    sent = [*([("host", host)] if host is not None else []), *headers]
    scope = {
        "type": "websocket", "http_version": "1.1", "scheme": "ws", "path": path, "raw_path": path.encode(), "query_string": b"",
        "root_path": "", "headers": [(name.lower().encode(), value.encode()) for name, value in sent], "subprotocols": [],
        "extensions": {"websocket.http.response": {}},
    }  # fmt: skip
    said: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "websocket.connect"}

    async def send(message: Any) -> None:
        said.append(message)

    asyncio.run(app(scope, receive, send))
    return 101 if said[0]["type"] == "websocket.accept" else int(said[0]["status"])


def bearer(scope: str) -> tuple[str, str]:
    return "authorization", f"Bearer {TOKENS[scope]}"
