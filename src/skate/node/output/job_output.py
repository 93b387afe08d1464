"""The output of several programs' workers, forwarded to the driver of each program, or to a file once it is gone."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Any, Protocol

from skate.node.output.worker_logs import WorkerOutput

if TYPE_CHECKING:
    from skate.node.host import NodeHost

LOG_BYTES_MAX = 1 << 23


class LogFile:
    """A log file, created at the first write and rotated when full; one previous file is kept."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._size = -1

    def write(self, text: str) -> int:
        """Append a text, which is lost if the disk cannot take it."""
        data = text.encode("utf-8", "backslashreplace")
        with self._lock:
            try:
                if self._size < 0:
                    self._size = os.path.getsize(self.path) if os.path.exists(self.path) else 0
                if self._size + len(data) > LOG_BYTES_MAX and self._size:
                    os.replace(self.path, self.path + ".1")
                    self._size = 0
                fd = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
                try:
                    self._size += os.write(fd, data[:LOG_BYTES_MAX])
                finally:
                    os.close(fd)
            except OSError:
                # There is nowhere to report the error.
                pass
        return len(text)

    def flush(self) -> None:
        """Do nothing: writes are not buffered."""


class StderrLog:
    """Stands in for the log file of a hosted node: prints to the hosting program's stderr."""

    def __init__(self, output: GuestOutput) -> None:
        self._output = output

    def write(self, text: str) -> int:
        """Print the text."""
        self._output.relay(True, text)
        return len(text)


class Log(Protocol):
    """Takes the output that no driver takes."""

    def write(self, text: str) -> int:
        """Write a text."""


class JobOutput(WorkerOutput):
    """Routes the output of workers. A driver that stops reading does not delay other programs."""

    def __init__(self, host: NodeHost, log: Log) -> None:
        super().__init__(True)
        self._host = host
        self.log = log
        self._guard = threading.Lock()
        #: Pipes that are not read until their driver has caught up with printing, by job.
        self._paused: dict[str, list[int]] = {}

    def print_lines(self, job: str, is_error: bool, text: str) -> None:
        """Send a text to the driver of the job, or write it to the log."""
        host = self._host
        with host.lock:
            taken = host.drivers is not None and host.drivers.printed(job, is_error, text)
            taken = taken or host.jobs.relay(job, is_error, text)
        if not taken:
            self.log.write(text)

    def received(self, job: str, is_error: bool, text: str) -> None:
        """Send output of another node's workers to the driver of the job, or write it to the log. The lock is held."""
        drivers = self._host.drivers
        if drivers is None or not drivers.printed(job, is_error, text):
            self.log.write(text)

    def silent(self, cid: int, job: str) -> None:
        """Report the end of a worker's output to a driver that waits for it."""
        host = self._host
        with host.lock:
            if host.drivers is not None:
                host.drivers.silent(cid, job)
            host.jobs.silent(cid, job)

    def pause(self, job: str) -> None:
        """Stop reading the output of a job for now."""
        with self._guard:
            self._paused.setdefault(job, [])

    def resume(self, job: str) -> None:
        """Resume reading the output of a job."""
        with self._guard:
            for fd in self._paused.pop(job, ()):
                if fd in self._sources:
                    self._poller.register(fd, 1)

    def _read(self, source: Any) -> None:
        if self._paused and source.worker.job in self._paused:
            with self._guard:
                waiting = self._paused.get(source.worker.job)
                if waiting is not None:
                    self._poller.unregister(source.fd)
                    waiting.append(source.fd)
                    return
        super()._read(source)

    def unread(self) -> set[int]:
        """Return the workers whose output has not ended."""
        return set(self._workers)


class GuestOutput(JobOutput):
    """Prints the output of the hosting program's workers, and forwards that of its guests' workers."""

    def __init__(self, host: NodeHost, prints: bool) -> None:
        super().__init__(host, StderrLog(self))
        self._prints = prints

    def print_lines(self, job: str, is_error: bool, text: str) -> None:
        """Print the text, or send it to the job's driver; drop it if that driver is gone."""
        if job:
            host = self._host
            with host.lock:
                taken = host.drivers is not None and host.drivers.printed(job, is_error, text)
                if not taken:
                    host.jobs.relay(job, is_error, text)
        elif self._prints:
            self._printer.hold(is_error, text)

    def received(self, job: str, is_error: bool, text: str) -> None:
        """Send output of another node's workers to the driver of the job; drop it if that driver is gone."""
        drivers = self._host.drivers
        if drivers is not None:
            drivers.printed(job, is_error, text)

    def relay(self, is_error: bool, text: str) -> None:
        """Print the output of another node's workers."""
        if self._prints:
            self._printer.hold(is_error, text)

    def silent(self, cid: int, job: str) -> None:
        """Record the end of a worker's output."""
        if job:
            super().silent(cid, job)
