"""The socket for joining a session that another program hosts: an abstract Unix socket, which leaves no file behind.

The kernel reports the user id of a connecting process, which decides if it may join. The code that serves drivers is loaded for
the first of them.
"""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING

from skate.node.driver import address
from skate.node.output.job_output import GuestOutput

if TYPE_CHECKING:
    from skate.node.host import NodeHost


class SessionSocket:
    """The listening socket of a hosted node."""

    def __init__(self, host: NodeHost) -> None:
        self.host = host
        self.path = f"{address.ABSTRACT}{address.SOCKET_PREFIX}{os.getpid()}-{os.urandom(6).hex()}"
        self._listener: socket.socket | None = address.bind(self.path)
        host.pump.add(self._listener.fileno(), self._knock)

    def _knock(self, events: int) -> None:
        """Handle the first connection: let `Drivers` serve the socket from now on."""
        from skate.node.driver.drivers import Drivers  # only sessions that other programs join need it

        host, listener = self.host, self._listener
        assert listener is not None
        assert isinstance(host.output, GuestOutput)
        self._listener = None
        host.pump.remove(listener.fileno())
        host.drivers = Drivers(host, listener, self.path, host.output)
        host.drivers.accept(events)

    def close(self) -> None:
        """Accept no more connections."""
        if self._listener is not None:
            self.host.pump.remove(self._listener.fileno())
            self._listener.close()
            self._listener = None

    def forked(self) -> None:
        """Close the socket in a forked child; it belongs to the parent."""
        if self._listener is not None:
            self._listener.close()
