"""Accepts connections in the controller while no replica does."""

from __future__ import annotations

import socket
from typing import Protocol

from skate.serve.config.http import HTTPOptions
from skate.serve.ingress.application import EmptyApplication
from skate.serve.ingress.dispatcher import Dispatcher
from skate.serve.ingress.http_server import DemandReport, HttpServer
from skate.serve.routing.table import Table


class NodeDemandReport(DemandReport, Protocol):
    """A demand report with the node that it comes from."""

    node: str


class FallbackServer:
    """Accepts connections while no replica does, and passes them on."""

    def __init__(self, options: HTTPOptions, listening: socket.socket, watching: NodeDemandReport) -> None:
        self.dispatcher = Dispatcher(None, "", watching.node)
        self.serving = HttpServer(options, self.dispatcher, EmptyApplication(self.dispatcher), None, watching)
        self.serving._listening = listening

    def update(self, table: Table) -> None:
        """Apply a table, and accept only while no replica of this node can."""
        taken = any(
            entry.mailbox and entry.node == self.dispatcher.node
            for deployment in table.deployments.values()
            for entry in deployment.entries
        )
        self.serving.accept(not taken)
        self.serving._changed(table)

    async def close(self) -> None:
        """Stop serving."""
        await self.serving.close()
