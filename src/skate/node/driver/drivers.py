"""Drivers in other processes: they connect to the node's socket and are served over channels.

Everything here runs under the engine lock.
"""

from __future__ import annotations

import os
import socket
import time
import traceback
from typing import TYPE_CHECKING, Any

import msgpack

from skate.node.driver import address
from skate.node.job_views import packed
from skate.node.output.job_output import JobOutput
from skate.protocol import messages as m
from skate.protocol import shell_events as se
from skate.protocol.shape import greeting_refusal, is_leave, is_shown
from skate.protocol.version import refusal
from skate.version import __version__
from skate.wire.channel import Channel, ChannelClosed

if TYPE_CHECKING:
    from skate.node.host import NodeHost

EPOLLOUT = 4
#: How long a node of a cluster drains before `skate stop` ends it; the command kills it a second later.
STOP_SECONDS = 15
#: The number of characters that a driver may be behind in printing before its workers' output is paused.
UNPRINTED_MAX = 1 << 24
#: Job numbers of guest drivers start this far above those of the program that hosts the node.
OWN_JOBS = 1 << 16
#: Job numbers of drivers at different nodes of a cluster differ in their upper half.
NODE_JOBS_BITS = 16


class Driver:
    """One connected driver."""

    __slots__ = (
        "cid",
        "job",
        "channel",
        "pid",
        "pidfd",
        "command",
        "prints",
        "looks",
        "unprinted",
        "leaving",
        "awaited",
        "paused",
        "since",
        "viewer",
        "ended",
    )

    def __init__(self, cid: int, job: str, channel: Channel, pid: int, fields: dict[str, Any]) -> None:
        self.cid = cid
        self.job = job
        self.channel = channel
        self.pid = pid
        self.pidfd = -1
        self.command: str = fields.get("command") or ""
        self.prints: bool = fields.get("log_to_driver", True)
        self.looks: bool = bool(fields.get("looks"))
        self.unprinted = 0
        self.leaving: set[int] | None = None  # workers whose remaining output it waits for
        self.awaited: set[int] = set()  # other nodes that have such workers
        self.paused = False  # the output of its workers is not read for now
        self.since = time.time()
        self.ended = False  # the core has been notified of the end
        self.viewer = 0  # the client that holds values still in view there after it has left


class Drivers:
    """The node's socket, and the drivers connected through it."""

    def __init__(
        self, host: NodeHost, listener: socket.socket, path: str, output: JobOutput, number: int = 0
    ) -> None:
        self.host = host
        self.path = path
        self.output = output
        #: The address of the cluster of machines that the node belongs to, if it does.
        self.cluster = ""
        #: Why the node has to leave its cluster, once it has.
        self.why_lost = ""
        self.drivers: dict[int, Driver] = {}
        self._listener = listener
        self._strangers: set[Channel] = set()
        #: The last job number. Object ids contain it, so jobs of a driver in this process have their own range, and so has
        #: each node, by its `number`.
        self._number = number << NODE_JOBS_BITS
        if host.session_socket is not None:
            self._number = int.from_bytes(host.job, "big") + OWN_JOBS
        host.pump.add(listener.fileno(), self.accept)

    # -- connections

    def accept(self, _: int) -> None:
        """Accept a connection."""
        try:
            sock, _address = self._listener.accept()
        except OSError:
            # The peer has given up, or this process has no descriptors left.
            return
        pid, uid = address.credentials(sock)
        if uid not in (os.geteuid(), 0):
            sock.close()
            return
        channel = Channel(sock)
        self._strangers.add(channel)
        self.host.pump.add(channel.fd, lambda events: self._greet(channel, pid))

    def _greet(self, channel: Channel, pid: int) -> None:
        try:
            messages = channel.read()
        except ChannelClosed:
            self._dismiss(channel)
            return
        if not messages:
            return
        tag, *rest = messages[0]
        refused = refusal(rest[0] if tag == m.ATTACH and rest else None, "this program")
        if refused:
            text = f"the node at {self.path} is of Skate {__version__}: {refused}"
            self._refuse(channel, f"{text}, or start another node")
            return
        fields = rest[1] if len(rest) == 2 else None
        if not isinstance(fields, dict):
            self._refuse(channel, "a driver must identify itself first")
        elif fields.get("wants") == "status":
            self._answer(channel, self.status())
        elif fields.get("wants") == "stop" and self.host.session_socket is not None:
            self._refuse(channel, f"this session ends with the program that started it (pid {os.getpid()})")
        elif fields.get("wants") == "stop":
            self._answer(channel, {"pid": os.getpid(), "drivers": len(self.drivers)})
            self.host.tell(se.StopWanted(se.STOP_WANTED, STOP_SECONDS))
            self.host.flush()
        else:
            refused = greeting_refusal(fields)
            if refused:
                self._refuse(channel, f"{refused}; join with skate.init(address=...)")
            else:
                self._admit(channel, pid, fields)

    def _answer(self, channel: Channel, fields: dict[str, Any]) -> None:
        channel.push(m.Welcome(m.WELCOME, fields))
        channel.flush()
        self._dismiss(channel)

    def _refuse(self, channel: Channel, text: str) -> None:
        channel.push(m.Refused(m.REFUSED, text))
        channel.flush()
        self._dismiss(channel)

    def _dismiss(self, channel: Channel) -> None:
        self._strangers.discard(channel)
        self.host.pump.remove(channel.fd)
        channel.close()

    def _admit(self, channel: Channel, pid: int, fields: dict[str, Any]) -> None:
        host = self.host
        self._number += 1
        job = self._number.to_bytes(4, "big")
        name = job.hex()
        if host.settings.tracing_hook:
            fields["environ"].setdefault("SKATE_TRACING_HOOK", host.settings.tracing_hook)
        host.jobs.add(job, fields)
        try:
            if not fields.get("looks"):  # else it needs no workers
                host.pool.launcher_for(host.jobs.python_of(name), name)
        except OSError as error:
            host.jobs.forget(name)
            self._refuse(channel, f"no worker can be started with {fields['python'][0]}: {error.strerror}")
            return
        self._strangers.discard(channel)
        host.pump.remove(channel.fd)
        cid = host.admit(se.JobBegun(se.JOB_BEGUN, name, fields["namespace"], *packed(fields)))
        driver = self.drivers[cid] = Driver(cid, name, channel, pid, fields)
        host.guests[cid] = channel
        self._welcome(driver, job)
        host.pump.add(channel.fd, lambda events: self._readable(driver, events))
        self._watch(driver)

    def _welcome(self, driver: Driver, job: bytes) -> None:
        host = self.host
        fields = {
            "cid": driver.cid, "job": job, "node_id": host.node_id, "pid": os.getpid(),
            "node_ip_address": host.settings.node_ip_address, "packages": host.zygote_config.get("packages", ""),
            "arena_bytes": host.settings.object_store_memory, "overflow_bytes": host.overflow.capacity,
            "tracing_hook": host.settings.tracing_hook,
        }  # fmt: skip
        fds = [fd for fd in (host.arena.fd, host.overflow.fd) if fd >= 0]
        try:
            socket.send_fds(driver.channel.sock, [msgpack.packb(m.Welcome(m.WELCOME, fields))], fds)
        except OSError:
            # The peer is gone; its channel reports that.
            return

    def _watch(self, driver: Driver) -> None:
        """Watch the driver's process, because a child may keep its socket open."""
        try:
            driver.pidfd = os.pidfd_open(driver.pid)
        except (OSError, AttributeError):
            # It has just ended, or is in another pid namespace; the channel reports its end.
            return
        self.host.pump.add(driver.pidfd, lambda _: self._lost(driver))

    # -- messages

    def _readable(self, driver: Driver, events: int) -> None:
        channel = driver.channel
        host = self.host
        if events & EPOLLOUT:
            if channel.flush():
                host.pump.want_write(channel.fd, False)
            if not events & ~EPOLLOUT:
                return
        try:
            messages = channel.read()
        except ChannelClosed:
            self._lost(driver)
            return
        links = host.neighbours
        if links is not None and links.congested:
            links.overfull = None
        now = time.monotonic()
        for message in messages:
            refused = self._take(driver, message, now)
            if refused:
                self._expel(driver, refused)
                break
        host.apply_if_idle()
        if host.dirty:
            host.flush()
        if links is not None and links.overfull is not None:
            links.pause(channel)

    def _take(self, driver: Driver, message: tuple[Any, ...], now: float) -> str:
        """Process one message of a driver; return the reason if it is refused."""
        if message[0] < m.ATTACH:
            refused = self.host.guard.refusal(driver.cid, message, False)
            if refused:
                return refused
            try:
                self.host.core.step(driver.cid, message, now)
            except Exception:  # a bug that one driver triggers must not end the sessions of others
                self.output.log.write(traceback.format_exc())
                return f"the node failed on message {message[0]}; its log has the traceback"
            return ""
        if message[0] == m.SHOWN and is_shown(message):
            _, size = message
            self._has_printed(driver, size)
            return ""
        if message[0] == m.LEAVE and is_leave(message):
            _, viewed = message
            self._end_driver(driver, viewed)
            return ""
        return (
            f"message {message[0]} is not one that a driver sends, or has other fields: {message[1:]!r:.200}"
        )

    def _expel(self, driver: Driver, refused: str) -> None:
        """End the session of a driver that has sent an invalid message."""
        text = f"the driver of job {driver.job} (pid {driver.pid}) sent an invalid message: {refused}"
        self.output.log.write(f"{text}; its session is ended\n")
        driver.channel.push(m.Left(m.LEFT, f"it ended this session, because {text}"))
        driver.channel.flush()
        self._lost(driver)

    # -- output of workers

    def printed(self, job: str, is_error: bool, text: str) -> bool:
        """Forward a worker's output to its job's driver; return False if the driver is gone or does not print it."""
        driver = next((each for each in self.drivers.values() if each.job == job), None)
        if driver is None or not driver.prints:
            return False
        driver.channel.push(m.Printed(m.PRINTED, is_error, text))
        if not driver.channel.flush():
            self.host.pump.want_write(driver.channel.fd, True)
        driver.unprinted += len(text)
        if driver.unprinted > UNPRINTED_MAX and not driver.paused:
            self._pause(driver, True)
        return True

    def _pause(self, driver: Driver, paused: bool) -> None:
        """Stop reading the output of a driver's workers, on all nodes, or resume."""
        driver.paused = paused
        if paused:
            self.output.pause(driver.job)
        else:
            self.output.resume(driver.job)
        if self.host.neighbours is not None:
            self.host.neighbours.send_all(m.JobPaused(m.JOB_PAUSED, driver.job, paused))

    def _has_printed(self, driver: Driver, size: int) -> None:
        driver.unprinted -= size
        if driver.paused and driver.unprinted < UNPRINTED_MAX // 2:
            self._pause(driver, False)

    def silent_at(self, cid: int, job: str) -> None:
        """Record that another node has no more output of a job; of any job if that is empty, since the node was lost."""
        for driver in list(self.drivers.values()):
            if driver.leaving is not None and job in ("", driver.job):
                driver.awaited.discard(cid)
                self._confirm_end(driver)

    def silent(self, cid: int, job: str) -> None:
        """Record the end of a worker's output."""
        for driver in list(self.drivers.values()):
            if driver.job == job and driver.leaving is not None:
                driver.leaving.discard(cid)
                self._confirm_end(driver)

    # -- the end of a driver

    def _end_driver(self, driver: Driver, viewed: tuple[bytes, ...]) -> None:
        """End the job of a leaving driver; `closing` then sends it its workers' remaining output and an end mark."""
        self._end_job(driver, viewed, left=True)

    def closing(self, job: str, nodes: tuple[int, ...]) -> None:
        """Have the driver of an ending job wait for the remaining output of its workers, here and at other nodes."""
        for driver in list(self.drivers.values()):
            if driver.job == job and driver.leaving is None:
                driver.leaving = self.host.snapshot.ending_workers(job) & self.output.unread()
                driver.awaited.update(nodes)
                self._confirm_end(driver)

    def _confirm_end(self, driver: Driver) -> None:
        if not driver.leaving and not driver.awaited:
            driver.channel.push(m.Left(m.LEFT, ""))
            driver.channel.flush()

    def _end_job(self, driver: Driver, viewed: tuple[bytes, ...] = (), left: bool = False) -> None:
        if driver.ended:
            return
        driver.ended = True
        host = self.host
        reason = f"the driver of its job {driver.job} (pid {driver.pid}) has ended"
        pid = 0 if driver.looks else driver.pid
        event = se.JobEnded(se.JOB_ENDED, driver.cid, viewed, reason, pid, left)
        if viewed:
            # The program may still have arrays in shared memory, which must not be reused.
            driver.viewer = host.admit(event)
            host.apply_if_idle()
        else:
            host.tell(event)
        host.flush()

    def _lost(self, driver: Driver) -> None:
        """Remove a driver that has ended."""
        if self.drivers.pop(driver.cid, None) is None:
            return
        host = self.host
        host.pump.remove(driver.channel.fd)
        host.guests.pop(driver.cid, None)
        host.dirty.discard(driver.cid)
        driver.channel.close()
        if driver.pidfd >= 0:
            host.pump.remove(driver.pidfd)
            os.close(driver.pidfd)
        self._end_job(driver)
        if driver.viewer:
            host.tell(se.ViewsClosed(se.VIEWS_CLOSED, driver.viewer))
        if driver.paused:
            self._pause(driver, False)

    def forked(self) -> None:
        """Close the sockets in a forked child; they belong to the parent."""
        self._listener.close()
        for driver in self.drivers.values():
            driver.channel.close()

    def close(self) -> None:
        """Notify every driver that the node ends, and accept no more connections."""
        self.host.pump.remove(self._listener.fileno())
        self._listener.close()
        for driver in list(self.drivers.values()):
            driver.channel.push(m.Left(m.LEFT, self.why_lost or "it was stopped"))
            driver.channel.flush()
            driver.channel.close()
            if driver.pidfd >= 0:
                os.close(driver.pidfd)
        for channel in self._strangers:
            channel.close()
        self.drivers.clear()
        self.host.guests.clear()

    # -- queries

    def status(self) -> dict[str, Any]:
        """Return the status for `skate status`."""
        snapshot = self.host.snapshot
        return {
            **snapshot.status(),
            "path": self.path,
            "cluster": self.cluster,
            "pid": os.getpid(),
            "drivers": [
                {
                    "pid": d.pid,
                    "job": d.job,
                    "command": d.command,
                    "seconds": time.time() - d.since,
                    "namespace": snapshot.namespace_of(d.cid),
                }
                for d in self.drivers.values()
                if not d.looks
            ],
            "workers": len(self.host.workers),
        }
