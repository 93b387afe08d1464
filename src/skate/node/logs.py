"""What workers print, brought to the driver's stdout and stderr line by line, with the worker's name in front.

One thread reads all pipes, so that nothing here can hold up the loop of the node, and a worker that prints faster than the
driver's terminal takes only waits for its own pipe. No line is dropped, joined or left out as a repetition.
"""

from __future__ import annotations

import os
import select
import sys
import threading

READ_BYTES = 1 << 16
LINE_BYTES_MAX = 1 << 20
MARK = b"\0"


class _Source:
    __slots__ = ("fd", "pid", "name", "is_error", "rest")

    def __init__(self, fd: int, is_error: bool) -> None:
        self.fd = fd
        self.is_error = is_error
        self.pid = 0
        self.name = "worker"
        self.rest = b""


class WorkerOutput:
    """Reads the output pipes of workers and prints their lines."""

    def __init__(self, enabled: bool) -> None:
        self.enabled = enabled
        self._sources: dict[int, _Source] = {}
        self._pids: dict[int, int] = {}
        self._poller = select.epoll()
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._poller.register(self._wake, select.EPOLLIN)
        self._closing = False
        self._thread: threading.Thread | None = None
        #: Last lines of stderr by worker, for the message when it dies.
        self.last_lines: dict[int, list[str]] = {}

    def pipes(self, cid: int) -> tuple[int, int]:
        """Two pipe ends for a new worker to write to; the reading ends are watched here."""
        ends = []
        for is_error in (False, True):
            read_end, write_end = os.pipe()
            os.set_blocking(read_end, False)
            source = _Source(read_end, is_error)
            source.pid = -cid
            self._sources[read_end] = source
            self._poller.register(read_end, select.EPOLLIN)
            ends.append(write_end)
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="skate-output", daemon=True)
            self._thread.start()
        return ends[0], ends[1]

    def started(self, cid: int, pid: int) -> None:
        """The worker has a pid now."""
        self._pids[cid] = pid

    def _run(self) -> None:
        while True:
            events = self._poller.poll(0.2 if self._closing else -1)
            if self._closing and not events:
                return
            for fd, _ in events:
                if fd == self._wake:
                    try:
                        os.eventfd_read(self._wake)
                    except BlockingIOError:
                        continue
                else:
                    self._read(self._sources[fd])
            if self._closing and not self._sources:
                return

    def _read(self, source: _Source) -> None:
        try:
            data = os.read(source.fd, READ_BYTES)
        except BlockingIOError:
            return
        if not data:
            if source.rest:
                self._print(source, [source.rest])
            self._poller.unregister(source.fd)
            del self._sources[source.fd]
            os.close(source.fd)
            return
        lines = (source.rest + data).split(b"\n")
        source.rest = lines.pop()
        if len(source.rest) > LINE_BYTES_MAX:
            lines.append(source.rest)
            source.rest = b""
        if lines:
            self._print(source, lines)

    def _print(self, source: _Source, lines: list[bytes]) -> None:
        texts = []
        pid = self._pids.get(-source.pid, 0)
        for line in lines:
            if line.startswith(MARK):
                source.name = line[1:].decode("utf-8", "replace")
                continue
            text = line.decode("utf-8", "replace").rstrip("\r")
            texts.append(f"({source.name} pid={pid}) {text}\n")
            if source.is_error:
                recent = self.last_lines.setdefault(-source.pid, [])
                recent.append(text)
                del recent[:-20]
        if not self.enabled or not texts:
            return
        stream = sys.stderr if source.is_error else sys.stdout
        try:
            stream.write("".join(texts))
            stream.flush()
        except (OSError, ValueError, AttributeError):
            # The driver's stream is closed or gone: there is nobody to read it.
            return

    def close(self) -> None:
        """Print what is left and stop; the workers have ended, so their pipes do."""
        self._closing = True
        os.eventfd_write(self._wake, 1)
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout=2)
        for fd in list(self._sources):
            os.close(fd)
        self._sources.clear()
        self._poller.close()
        os.close(self._wake)
