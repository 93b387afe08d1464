"""The driver's link to a node hosted in the same process: a direct call."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from skate.client.process import Process
from skate.node.host import DRIVER
from skate.protocol import messages as m
from skate.protocol.shell_events import DRIVER_JOINED, DriverJoined

if TYPE_CHECKING:
    from skate.node.host import NodeHost


def join(host: NodeHost, namespace: str, runtime_env: dict[str, Any] | None) -> Process:
    """Make this process a driver of the node it hosts. The lock is held."""
    node_id = host.node_id
    process = host.process = Process(DRIVER, host.pump, node_id, host.job)
    process.connect(EmbeddedLink(host))
    process.mapping = host.mapping
    process.is_driver = True
    process.namespace = namespace
    process.node_id = node_id
    process.node_ip_address = host.settings.node_ip_address
    process.job_environment = runtime_env
    host.admit(DriverJoined(DRIVER_JOINED, host.job.hex(), namespace, True))
    return process


class EndedLink:
    """Replaces the link after the end of the session, and raises in threads that are in the middle of a call."""

    def __init__(self, process: Process) -> None:
        self._process = process

    def send(self, message: m.ToNode) -> None:
        """Raise the error of an ended session."""
        raise self._process.ended()

    def flush(self) -> None:
        """No-op: nothing is queued."""

    def throttle(self) -> None:
        """No-op: nothing is queued."""

    def block(self, lasting: bool = True) -> bool:
        """Return False: the session has ended."""
        return False

    def unblock(self) -> None:
        """No-op: the session has ended."""


class EmbeddedLink:
    """A direct call of the node that the driver hosts."""

    def __init__(self, host: NodeHost) -> None:
        self._host = host

    def send(self, message: m.ToNode) -> None:
        """Pass a message to the core."""
        host = self._host
        core = host.core
        core.step(DRIVER, message, time.monotonic())
        if core.effects and not host._applying:
            host.apply()
            if host.dirty:
                host.flush_soon()
            if host.pump.watched:
                host.pump.wake_ready()

    def flush(self) -> None:
        """Send everything that is queued."""
        if not self._host._applying:
            self._host.flush()

    def throttle(self) -> None:
        """No-op: the node is in this process."""

    def block(self, lasting: bool = True) -> bool:
        """Return False: a driver holds no CPU, so the node need not know."""
        return False

    def unblock(self) -> None:
        """No-op: an embedded driver never blocks the node."""
