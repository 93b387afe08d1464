"""A node in its own process, which outlives its drivers and can serve several at once."""

from __future__ import annotations

import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from typing import Any

from skate.node.driver import address
from skate.node.driver.drivers import Drivers
from skate.node.host import NodeHost
from skate.node.output.job_output import JobOutput, LogFile
from skate.node.settings import Settings
from skate.node.sigint import SigintHandler
from skate.wire.pump import Pump


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

    def leave(self) -> None:
        """Remove the node's files, and release the folder."""
        address.sweep(self.folder)
        if self.made:
            try:
                os.rmdir(self.folder)
            except OSError:
                # The folder contains other files.
                pass
        os.close(self.lock)


def run(settings: Settings, place: Place, ready: Callable[[str], None]) -> None:
    """Run a node until it is stopped. Call `ready` with its address once drivers can connect."""
    os.environ.pop("SKATE_ADDRESS", None)  # this process hosts a node instead of joining one
    log = LogFile(os.path.join(place.folder, address.LOG_NAMES[0]))
    stream: Any = log
    pump = Pump(threading.RLock(), "loop")
    with pump.lock:
        host = NodeHost(settings, pump, SigintHandler(pump))
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: _stop(host))
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # survive the end of the terminal
        try:
            host.output.close()
            host.output = output = JobOutput(host, log)
            place.path = address.path_for(place.folder, os.getpid())
            listener = address.bind(place.path)
            host.drivers = Drivers(host, listener, place.path, output)
            ready(place.path)
            sys.stderr = stream
            pump.wait(lambda: host.leaving)
        finally:
            host.leaving = True
    host.shutdown()
    place.leave()


def _stop(host: NodeHost) -> None:
    host.leaving = True
    host.pump.kick()


def run_apart(settings: Settings, place: Place, report: int) -> None:
    """Detach a forked child from the terminal and run a node; write its address, or the error, to `report`."""

    started = False

    def ready(path: str) -> None:
        nonlocal started
        os.write(report, b"+" + os.fsencode(path))
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
        run(settings, place, ready)
    except Exception as error:  # report any error to the parent, and log it
        LogFile(os.path.join(place.folder, address.LOG_NAMES[0])).write(traceback.format_exc())
        if started:
            raise
        os.write(report, b"-" + f"{type(error).__name__}: {error}".encode())


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
