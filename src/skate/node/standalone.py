"""A node in its own process, which outlives its drivers and can serve several at once."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from skate import stack_dumps
from skate.node.driver import address
from skate.node.driver.drivers import Drivers
from skate.node.host import NodeHost
from skate.node.network import Joined, Network, check_standby, connect, record
from skate.node.output.job_output import JobOutput, LogFile
from skate.node.output.log_folder import LogFolder
from skate.node.peer_links import PeerLinks
from skate.node.settings import Settings
from skate.node.sigint import SigintHandler
from skate.protocol import messages as m
from skate.wire.pump import Pump

if TYPE_CHECKING:
    from skate.node.registry.head_state import HeadState

#: The folder of uploaded packages in that of the session.
PACKAGES = "packages"
#: How often a standby looks whether the head has ended.
STANDBY_SECONDS = 0.5


class Taken(Exception):
    """Raised when a living node has the folder already."""


class Place:
    """The locked folder of a node."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.made = address.make(folder)
        lock = address.lock(folder)
        if lock is None:
            raise Taken(folder)
        self.lock = lock
        #: Paths of files that a dead node had left; they are removed now.
        self.swept = address.sweep(folder)
        self.path = ""

    def leave(self, keep_log: bool = False) -> None:
        """Remove the node's files, and release the folder."""
        address.sweep(self.folder, keep_log)
        if self.made:
            try:
                os.rmdir(self.folder)
            except OSError:
                # The folder contains other files.
                pass
        os.close(self.lock)


class Beside(Protocol):
    """A program beside the node, such as its dashboard."""

    def start(self, path: str) -> None:
        """Start it for the node with this socket."""

    def end(self) -> None:
        """End it."""


#: Makes such a program; the argument writes to the node's log.
MakeBeside = Callable[[Callable[[str], object]], Beside]


class Address(NamedTuple):
    """Where a node is found: its socket; in a network also its cluster, and the file of the cluster's token."""

    path: str
    cluster: str = ""
    token_file: str = ""


def run(
    settings: Settings,
    place: Place,
    ready: Callable[[Address], None],
    network: Network | None = None,
    beside: Sequence[MakeBeside] = (),
    driver: int = -1,
) -> str:
    """Run a node until it is stopped, or has to leave its cluster: return why.

    Calls `ready` with its address once drivers can connect. Programs `beside` it start then, and end with it. With `driver`, a
    descriptor of the process that it is for, the node ends with that process.
    """
    os.environ.pop("SKATE_ADDRESS", None)  # this process hosts a node instead of joining one
    stack_dumps.offer()
    log = LogFile(os.path.join(place.folder, address.LOG_NAMES[0]))
    stream: Any = log
    terminal = sys.stderr
    programs = [make(log.write) for make in beside]
    state = None if network is None else _state(network, place.folder)
    pump = Pump(threading.RLock(), "loop")
    with pump.lock:
        host = NodeHost(settings, pump, SigintHandler(pump), network is None or not network.head, state)
        for ending in (signal.SIGTERM, signal.SIGINT):
            signal.signal(ending, lambda *_: _stop(host))
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # survive the end of the terminal
        try:
            host.output.close()
            host.output = output = JobOutput(host, log)
            if settings.log_folder:
                output.log_folder = LogFolder(settings.log_folder)
            place.path = address.path_for(place.folder, os.getpid())
            found, number = Address(place.path), 0
            if network is not None:
                joined = _join(host, network, place.folder, log)
                found, number = Address(place.path, joined.address, joined.token_file), joined.number
            session_folder = address.session_folder(place.path)
            if session_folder is not None:
                host.pool.environments.stores.append(Path(session_folder) / PACKAGES)
            listener = address.bind(place.path)
            host.drivers = Drivers(host, listener, place.path, output, number)
            host.drivers.cluster = found.cluster
            if driver >= 0:
                pump.add(driver, lambda _: host.leave())
            ready(found)
            sys.stderr = stream
            for program in programs:
                program.start(place.path)
            pump.wait(lambda: host.leaving)
            if network is not None:
                _announce_end(host, network)
        finally:
            host.leaving = True
            sys.stderr = terminal
    for program in programs:
        program.end()
    host.shutdown()
    place.leave(keep_log=bool(host.drivers.why_lost))
    return host.drivers.why_lost


def _state(network: Network, folder: str) -> HeadState | None:
    """Open the durable state of a head, if it has some; a standby waits until no other head has it."""
    if not network.state:
        return None
    from skate.node.registry.head_state import HeadState  # few nodes are heads with state
    from skate.node.registry.store import StoreTakenError

    if network.standby:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        check_standby(network, folder)
    while True:
        try:
            return HeadState.at(network.state)
        except StoreTakenError:
            if not network.standby:
                raise
            time.sleep(STANDBY_SECONDS)  # the interval of the poll


def _join(host: NodeHost, network: Network, folder: str, log: LogFile) -> Joined:
    """Connect a node with its cluster."""

    def leave(reason: str) -> None:
        with host.lock:
            log.write(f"this node leaves its cluster: {reason}\n")
            if host.drivers is not None:
                host.drivers.why_lost = f"it has left its cluster: {reason}"
            host.leave()

    if host.state is not None:
        host.state.start(host.answered, leave)
    joined = connect(network, folder, host.pump, host.info(), leave, host.state)
    from skate.runtime_env.cache import default_root  # only nodes with others

    # Programs put the folders of their environments where the other nodes fetch them.
    host.zygote_config["packages"] = str(default_root())
    host.neighbours = PeerLinks(host, joined.fabric)
    joined.begin()
    record(folder, joined)
    return joined


def _announce_end(host: NodeHost, network: Network) -> None:
    """Tell the other nodes that this one leaves, and if it is a head without durable state, that they have to end."""
    assert host.neighbours is not None
    if host.state is not None:
        return  # it may be started again
    host.neighbours.send_all(m.Leaving(m.LEAVING, host.neighbours.farewell))
    fabric = host.neighbours.fabric
    for member in [] if network.head else list(fabric.members()):
        fabric.request_leave(member)


def _stop(host: NodeHost) -> None:
    host.leaving = True
    host.pump.kick()


def run_apart(
    settings: Settings,
    place: Place,
    report: int,
    network: Network | None = None,
    beside: Sequence[MakeBeside] = (),
) -> None:
    """Detach a forked child from the terminal and run a node; write its address, or the error, to `report`."""

    started = False

    def ready(found: Address) -> None:
        nonlocal started
        os.write(report, b"+" + b"\0".join(map(os.fsencode, found)))
        os.close(report)
        started = True  # a connection may reuse the descriptor number from now on

    os.setsid()
    _close_all_but({place.lock, report})
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    os.close(null)
    os.chdir("/")
    try:
        run(settings, place, ready, network, beside)
    except Exception as error:  # report any error to the parent, and log it
        expected = network is not None and isinstance(error, ConnectionError | ValueError) and not started
        if expected:  # the cluster or this machine does not allow it
            place.leave()
        else:
            LogFile(os.path.join(place.folder, address.LOG_NAMES[0])).write(traceback.format_exc())
        if started:
            raise
        os.write(report, b"-" + f"{'' if expected else f'{type(error).__name__}: '}{error}".encode())


def _close_all_but(kept: set[int]) -> None:
    """Close inherited descriptors, because the reader of a pipe would otherwise never see its end."""
    for name in os.listdir("/proc/self/fd"):
        fd = int(name)
        if fd > 2 and fd not in kept:
            try:
                os.close(fd)
            except OSError:
                # The descriptor of the listing itself.
                continue
