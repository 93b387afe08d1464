"""The server of last resort, in the controller."""

from __future__ import annotations

import asyncio
import socket
from types import SimpleNamespace

from skate.serve.config.http import HTTPOptions
from skate.serve.ingress.fallback_server import FallbackServer
from skate.serve.routing.table import Table


def test_a_server_that_closes_does_not_accept_again() -> None:
    async def run() -> bool:
        listening = socket.create_server(("127.0.0.1", 0))
        listening.setblocking(False)
        spare = FallbackServer(HTTPOptions(), listening, SimpleNamespace(node="n", table=Table()))
        spare.update(Table())
        accepted = spare.serving._accepting
        await spare.close()
        listening.close()
        spare.update(Table())  # a tick of the controller while it ends
        return accepted and not spare.serving._accepting

    assert asyncio.run(run())
