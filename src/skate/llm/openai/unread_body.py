"""The response to a request whose body is rejected before all of it was read."""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from skate.llm.openai.responses import as_json

#: The rest of a rejected body is discarded for this long at most, and up to this many bytes.
_DISCARD_SECONDS = 2.0
_DISCARD_BYTES_MAX = 64 * 1024 * 1024


class UnreadBody(Response):
    """Send an error and close the connection, but first discard the data that the client still sends.

    Closing a socket with unread input makes the kernel reset the connection, and the client loses the response
    in transit. The head is sent first, so that a client that reads it can stop sending.
    """

    def __init__(self, found: Any) -> None:
        response = as_json(found)
        super().__init__(response.body, response.status_code, dict(response.headers))
        self.headers["connection"] = "close"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the head, discard the rest of the body within the limits, and send the error."""
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        try:
            await asyncio.wait_for(_discard(receive), _DISCARD_SECONDS)
        except Exception:  # a timeout, or a limit of the server; the error is sent in any case
            pass
        await send({"type": "http.response.body", "body": self.body})


async def _discard(receive: Receive) -> None:
    left = _DISCARD_BYTES_MAX
    while left > 0:
        message = await receive()
        left -= len(message.get("body", b""))
        if message["type"] != "http.request" or not message.get("more_body"):
            return
