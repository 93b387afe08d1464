"""Standalone nodes: starting, querying and stopping them; the basis of the commands."""

from __future__ import annotations

import fcntl
import os
import select
import signal
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from skate.core.cluster.membership import GROWS_LABEL as GROWS_LABEL
from skate.node.autoscaler_process import AutoscalerProcess as AutoscalerProcess
from skate.node.dashboard_process import Dashboard as Dashboard
from skate.node.dashboard_process import DashboardPlace as DashboardPlace
from skate.node.dashboard_process import recorded as recorded
from skate.node.driver import address, handshake
from skate.node.driver.address import DISCOVERY_NAME as DISCOVERY_NAME
from skate.node.driver.address import METRICS_TOKEN_NAME as METRICS_TOKEN_NAME
from skate.node.driver.address import TOKEN_NAME as TOKEN_NAME
from skate.node.driver.address import given_address as given_address
from skate.node.driver.address import is_network
from skate.node.settings import Settings

if TYPE_CHECKING:
    from skate.node.network import Network as Network
    from skate.node.standalone import Address as Address
    from skate.node.standalone import MakeBeside

#: The time limit for a node to start; an idle machine needs a hundredth of it.
START_SECONDS = 30.0
#: The time limit for submitted jobs to end after their node.
JOBS_SECONDS = 10.0


class AlreadyRunning(Exception):
    """A node of this user lives; the text is its address."""


def folder_of(named: str | None) -> str:
    """The folder of this user's node, or the one that is named instead."""
    return os.path.abspath(named) if named else address.directory()


def network_of_head(
    port: int,
    ip: str | None,
    token_file: str | None,
    state: str | None = None,
    grace: float | None = None,
    standby: bool = False,
) -> Network:
    """Return the network of a head that listens on a TCP port; with 0, on any free port.

    With a folder or an address of etcd for its state it can be started again, and other nodes wait for it for `grace` seconds, by
    default 60. As a `standby` it begins when no other head has that state.
    """
    from skate.node.network import STAY_SECONDS, Network, own_address  # few nodes have a network

    return Network(
        ip or own_address(),
        port,
        token_file=_absolute(token_file),
        state=state if state and "://" in state else _absolute(state) or "",
        grace=STAY_SECONDS if grace is None else grace,
        standby=standby,
    )


def network_of_member(address: str, ip: str | None, token_file: str | None, timeout_s: float) -> Network:
    """Return the network of a node that joins the cluster at an address. Raises ValueError for an invalid address."""
    from skate.node.network import Network, own_address  # few nodes have a network

    if not is_network(address):
        raise ValueError(
            f"--address must be HOST:PORT, as the head prints it, or several with commas between them, got {address!r}"
        )
    return Network(
        ip or own_address(address), head=address, token_file=_absolute(token_file), timeout=timeout_s
    )


def has_token(token_file: str | None = None) -> bool:
    """Return True if this machine has a token for a cluster: in the file, the environment, or the user's folder.

    Raises ValueError for a file that cannot be read.
    """
    from skate.fabric.dask import credentials  # imports Dask, which only clusters need

    return credentials.find_token(token_file) is not None


def _absolute(path: str | None) -> str | None:
    """Return the path for a node, which does not stay in this directory."""
    return path and os.path.abspath(path)


def start(
    folder: str,
    settings: dict[str, Any],
    network: Network | None = None,
    beside: Sequence[MakeBeside] = (),
) -> tuple[Address, list[str]]:
    """Start a node in a process of its own: its address, and what a dead one had left and was removed.

    Raises AlreadyRunning, PermissionError for a folder that is open to others, ValueError and TypeError for settings that cannot
    be, RuntimeError if the node does not come up.
    """
    from skate.node import standalone  # all of the node, which only this needs

    checked = Settings.of("local", settings)
    place = _place(folder)
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            os.close(read_end)
            standalone.run_apart(checked, place, write_end, network, beside)
            status = 0
        finally:
            os._exit(status)
    os.close(write_end)
    os.close(place.lock)
    answer = read_answer(read_end, START_SECONDS + (0 if network is None else network.timeout))
    if not answer.startswith(b"+"):
        os.waitpid(pid, 0)
        raise RuntimeError(
            f"the node did not start: {answer[1:].decode(errors='replace') or 'it gave no reason'}"
        )
    return standalone.Address(*map(os.fsdecode, answer[1:].split(b"\0"))), place.swept


def wait_for_dashboard(found: Address) -> dict[str, Any]:
    """Return the facts about the dashboard of a node that has just started, or its error."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        facts = recorded(os.path.dirname(found.path))
        if facts is not None:
            return facts
        time.sleep(0.02)
    return {"error": f"it has not started within {START_SECONDS:g} s; see the log of the node"}


def serve(
    folder: str,
    settings: dict[str, Any],
    ready: Any,
    network: Network | None = None,
    beside: Sequence[MakeBeside] = (),
) -> str:
    """Be a node, in this process, until it is stopped; `ready` is called with its address. Return why it has to leave its
    cluster, if it does. Raises what `start` raises.
    """
    from skate.node import standalone  # all of the node, which only this needs

    checked = Settings.of("local", settings)
    place = _place(folder)
    try:
        return standalone.run(checked, place, ready, network, beside)
    except (ConnectionError, ValueError, SystemExit, KeyboardInterrupt):  # the last two end a standby
        place.leave()
        raise


def _place(folder: str) -> Any:
    from skate.node import standalone  # imported only if used

    try:
        return standalone.Place(folder)
    except standalone.Taken:
        deadline = time.monotonic() + START_SECONDS
        while not (living := _living(folder)) and time.monotonic() < deadline:
            time.sleep(0.01)  # it has the folder, and is about to make its socket
        raise AlreadyRunning(living) from None


def _living(folder: str) -> str:
    try:
        return address.find(folder)
    except ConnectionError:
        return ""


def read_answer(fd: int, seconds: float) -> bytes:
    """All that comes out of a pipe until its end, or for as long as a node may take."""
    answer = b""
    deadline = time.monotonic() + seconds
    try:
        while select.select([fd], [], [], max(0.0, deadline - time.monotonic()))[0]:
            data = os.read(fd, 4096)
            if not data:
                break
            answer += data
    finally:
        os.close(fd)
    return answer


def locate(named: str | None, folder: str) -> str:
    """Return the socket of the node at an address, or of this user's node. Raises ConnectionError if there is none."""
    wanted = given_address(named) or "auto"
    return address.find(folder) if wanted in ("auto", "local") else address.to_path(wanted) or wanted


def of_process(pid: int, folder: str | None = None) -> str:
    """Return the address of the session of a process. Raises ConnectionError if it has none that can be looked at."""
    return address.to_address(address.of_pid(pid, folder_of(folder)))


def status(path: str) -> dict[str, Any]:
    """Return the status report of a node. Raises ConnectionError if there is none at that path."""
    return handshake.ask(path, "status")


class Stopped:
    """The result of `stop`: the ended node's pid (None if none was alive), if it was killed, and removed leftovers
    of a dead one.
    """

    def __init__(self, pid: int | None, killed: bool, removed: list[str]) -> None:
        self.pid = pid
        self.killed = killed
        self.removed = removed


def stop(folder: str, grace_s: float, force: bool) -> Stopped:
    """End the node of a folder, with all that it started; one that has not ended after `grace_s` seconds is killed."""
    try:
        address.check(folder)
    except FileNotFoundError:
        return Stopped(None, False, [])
    try:
        path = address.find(folder)
    except ConnectionError:
        return Stopped(None, False, _sweep(folder))
    pid = address.pid_of(path)
    assert pid is not None
    watched = os.pidfd_open(pid)
    jobs = address.job_locks(folder)
    try:
        if not force:
            try:
                began = time.monotonic()
                handshake.ask(path, "stop", min(max(grace_s, 0.1), handshake.ANSWER_SECONDS))
                grace_s = max(grace_s - (time.monotonic() - began), 0.0)
            except ConnectionError:
                # It hangs, or has just gone.
                grace_s = 0.0
        if force or not select.select([watched], [], [], grace_s)[0]:
            signal.pidfd_send_signal(watched, signal.SIGKILL)
            select.select([watched], [], [], 10.0)
            _wait_for_jobs(jobs)
            return Stopped(pid, True, _sweep(folder))
        _wait_for_jobs(jobs)
    finally:
        for fd in (watched, *jobs):
            os.close(fd)
    _sweep(folder)
    return Stopped(pid, False, [])


def _wait_for_jobs(locks: list[int]) -> None:
    """Wait until the supervisors that hold these locks have ended, which they do as soon as the node has."""
    deadline = time.monotonic() + JOBS_SECONDS
    for fd in locks:
        while time.monotonic() < deadline:
            try:
                fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                time.sleep(0.005)
                continue
            break


def _sweep(folder: str) -> list[str]:
    """Remove the leftovers of a dead node."""
    try:
        lock = address.lock(folder)
    except FileNotFoundError:
        return []
    if lock is None:
        return []
    try:
        return address.sweep(folder)
    finally:
        os.close(lock)
