"""The main loop and entry point of a node that joins the cluster of a head in its own process."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
from typing import TYPE_CHECKING, Any

import msgpack

from skate.fabric.local import MemberFabric, RefusedError
from skate.node.host import NodeHost
from skate.node.output.job_output import JobOutput
from skate.node.peer_links import PeerLinks
from skate.node.settings import Settings
from skate.node.sigint import SigintHandler
from skate.node.worker.launcher import PYTHON
from skate.protocol.values import LOOPBACK
from skate.wire.pump import Pump

if TYPE_CHECKING:
    from skate.fabric.mesh_member import MeshMember

STDIN = 0


class RelayedOutput(JobOutput):
    """Prints the output of workers on the head, or sends it to the driver of their job."""

    def __init__(self, host: NodeHost, fabric: MemberFabric | MeshMember) -> None:
        super().__init__(host, Relayed(fabric))
        self._fabric = fabric

    def print_lines(self, job: str, is_error: bool, text: str) -> None:
        """Send a text to the head for printing, or to the driver of its job."""
        if job:
            super().print_lines(job, is_error, text)
            return
        with self._host.lock:
            self._fabric.print(is_error, text)


class Relayed:
    """Stands in for the log file of a node: prints on the head."""

    def __init__(self, fabric: MemberFabric | MeshMember) -> None:
        self._fabric = fabric

    def write(self, text: str) -> int:
        """Print the text."""
        with self._fabric.pump.lock:
            self._fabric.print(True, text)
        return len(text)


def run(settings: Settings, head: socket.socket | str) -> None:
    """Run a node of the cluster at the other end of a socket or at an address, until the head ends or dismisses it."""
    pump = Pump(threading.RLock(), "loop")
    with pump.lock:
        host = NodeHost(settings, pump, SigintHandler(pump), head=False)
        try:
            fabric = _fabric_of(host, head)
            config = fabric.greet()
            host.take_over(config)
            host.output = RelayedOutput(host, fabric)
            if settings.node_ip_address != LOOPBACK:
                host.output.places[""] = f", ip={settings.node_ip_address}"
            host.neighbours = PeerLinks(host, fabric)
            fabric.on_end = host.leave
            host.pool.launcher_for(PYTHON)
            fabric.begin()
            pump.wait(lambda: host.leaving)
        finally:
            host.leaving = True
    host.shutdown()


def _fabric_of(host: NodeHost, head: socket.socket | str) -> MemberFabric | MeshMember:
    if isinstance(head, socket.socket):
        return MemberFabric(host.pump, host.info(), head)
    from skate.fabric.dask.carrier import MemberCarrier  # with Dask.distributed, which takes half a second
    from skate.fabric.mesh_member import MeshMember

    info = host.info()
    carrier = MemberCarrier(host.pump, info["node_id"].hex(), head, LOOPBACK)
    carrier.start()
    return MeshMember(host.pump, info, carrier)


def main() -> None:
    """Run the process, with settings from standard input."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the driver
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with os.fdopen(STDIN, "rb", closefd=False) as file:
        given: dict[str, Any] = msgpack.unpackb(file.read(), strict_map_key=False)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, STDIN)
    os.close(null)
    settings = Settings.unpacked(given["settings"])
    try:
        run(settings, given["head"] if "head" in given else _inherited(given["socket"]))
    except RefusedError as error:
        sys.exit(f"this node cannot join: {error}")
    except ConnectionError:
        # The head ended while this node was starting.
        return


def _inherited(fd: int) -> socket.socket:
    sock = socket.socket(fileno=fd)
    # A worker that had it too would hide from the head that this process has died.
    sock.set_inheritable(False)
    return sock
