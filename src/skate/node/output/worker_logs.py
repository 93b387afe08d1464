"""Forwards the output of workers to the driver's stdout and stderr line by line, prefixed with the worker's name.

One thread reads all pipes and another prints (`printer`), so that neither the node's loop nor a task waits for a paused terminal
or a pipe without a reader. Every line is printed, repetitions included, and lines are never joined.
"""

from __future__ import annotations

import os
import select
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any

from skate.node.output import log_rows, tail_rows
from skate.node.output.log_folder import LogFolder, LogStream
from skate.node.output.printer import Printer
from skate.protocol.fields import Where
from skate.wire.limits import start_thread
from skate.wire.output import END_OF_MARK, MARK, NO_TASK

#: As much as a pipe holds, so that one round over the pipes reads all that was in them.
READ_BYTES = 1 << 16
LINE_BYTES_MAX = 1 << 20
#: The number of seconds after which an incomplete line is printed.
UNENDED_SECONDS = 0.3
RECENT_LINES = 20
RECENT_CHARACTERS_MAX = 1000
# How much `get_log` can show of a worker's stream, and for how many streams.
TAIL_BYTES_MAX = 1 << 16
TAILS_MAX = 256
#: For names of log files: the length of a worker's id, and the job of workers that belong to no program.
WORKER_ID_DIGITS = 56
NO_JOB = "ffffffff"


class _Worker:
    """State shared by the two pipes of one worker."""

    __slots__ = ("cid", "pid", "open", "job", "lost")

    def __init__(self, cid: int, job: str) -> None:
        self.cid = cid
        self.job = job
        self.pid = 0
        self.open = 2
        self.lost = False


class _Source:
    __slots__ = ("fd", "worker", "name", "pid", "task", "is_error", "rest", "log", "unlogged")

    def __init__(self, fd: int, worker: _Worker, is_error: bool) -> None:
        self.fd = fd
        self.worker = worker
        self.is_error = is_error
        self.name = "worker"
        self.pid = 0
        self.task = NO_TASK
        self.rest = b""
        #: Its log file, if the node keeps any, and lines for it.
        self.log: LogStream | None = None
        self.unlogged: list[bytes] = []


class Tail:
    """The last lines of a stream, with the attempts of tasks that printed them."""

    __slots__ = ("lines", "tasks", "size", "end")

    def __init__(self) -> None:
        self.lines: deque[str] = deque()
        self.tasks: deque[str] = deque()
        self.size = 0
        #: How many lines the stream has had.
        self.end = 0

    def add(self, line: str, task: str = NO_TASK) -> None:
        """Add a line, and drop the oldest ones if there is too much."""
        lines = self.lines
        line = line[-TAIL_BYTES_MAX // 2 :]
        lines.append(line)
        self.tasks.append(task)
        self.end += 1
        # Its size in memory: a short line takes more than its text.
        self.size += sys.getsizeof(line)
        while self.size > TAIL_BYTES_MAX and len(lines) > 1:
            self.size -= sys.getsizeof(lines.popleft())
            self.tasks.popleft()

    def since(self, start: int, task: str | None) -> tuple[list[str], int]:
        """Return the lines from a number on, only those of a task if one is given, and how many are no longer kept."""
        first = self.end - len(self.lines)
        skipped = max(0, start - first)
        kept = zip(islice(self.lines, skipped, None), islice(self.tasks, skipped, None), strict=True)
        return [line for line, of in kept if task is None or of == task], max(0, first - start)


class WorkerOutput:
    """Reads the output pipes of workers and prints their lines."""

    def __init__(self, enabled: bool) -> None:
        self.enabled = enabled
        self._sources: dict[int, _Source] = {}
        #: The times since which incomplete lines may have waited for their ends.
        self._unended: dict[_Source, float] = {}
        self._workers: dict[int, _Worker] = {}
        self._poller = select.epoll()
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._poller.register(self._wake, select.EPOLLIN)
        self._closing = False
        #: Rounds over the pipes that have ended, and True during one.
        self._rounds = 0
        self._in_round = False
        self._reader: threading.Thread | None = None
        self._printer = Printer()
        #: The last lines of stdout and stderr by worker, in order, for the message about its death.
        self.last_lines: dict[int, deque[str]] = {}
        #: The last lines of each stream by (pid, "out" or "err"), for `get_log`.
        self.tails: dict[tuple[int, str], Tail] = {}
        self._tail_guard = threading.Lock()
        #: What follows the pid in front of each line, by job: the address of this node if the driver is elsewhere.
        self.places: dict[str, str] = {}
        #: Keeps log files, if the node has a folder for them.
        self.log_folder: LogFolder | None = None
        #: Called in the reading thread when all output of a worker was read.
        self.on_end: Callable[[], None] = _nothing

    def pipes(self, cid: int, job: str = "") -> tuple[int, int]:
        """Create the output pipes of a new worker; return the ends to write to, and watch the others."""
        ends: list[int] = []
        worker = self._workers[cid] = _Worker(cid, job)
        for is_error in (False, True):
            try:
                read_end, write_end = os.pipe()
            except OSError:
                # The reader notices the end of the other pipe, and closes its end.
                for end in ends:
                    os.close(end)
                raise
            os.set_blocking(read_end, False)
            self._sources[read_end] = _Source(read_end, worker, is_error)
            self._poller.register(read_end, select.EPOLLIN)
            ends.append(write_end)
        if self._reader is None:
            try:
                self._reader = start_thread(self._read_all, "skate-output", " that reads what workers print")
            except OSError:
                for end in ends:
                    os.close(end)
                raise
        return ends[0], ends[1]

    def started(self, cid: int, pid: int) -> None:
        """Record the pid of a worker."""
        worker = self._workers.get(cid)
        if worker is not None:
            worker.pid = pid

    def ended(self, cid: int) -> Iterable[str]:
        """Return the last output of a lost worker, as far as it was read."""
        worker = self._workers.get(cid)
        if worker is not None:
            worker.lost = True
        return self.last_lines.pop(cid, ())

    def rows(self, where: Where) -> tuple[dict[str, Any], ...]:
        """Return one row for each stream with kept output: pid and stream; its lines if a pid or a task is requested.

        `since` is the number of the first line that is wanted, `printer` the attempt of a task that has printed it. With `file`,
        return the log files instead; see `log_rows`. With `unread`, return how far the pipes were read; see `_progress`. With
        `cursor`, return new lines of several streams; see `tail_rows`.
        """
        if "unread" in where:
            return (self._progress(),)
        if "cursor" in where:
            with self._tail_guard:
                return tail_rows.rows(self.tails, str(where["cursor"]))
        if "file" in where:
            return () if self.log_folder is None else log_rows.rows(self.log_folder, where)
        pid, stream, task = where.get("pid"), where.get("stream"), where.get("printer")
        start = int(where.get("since", 0))
        open_now = {source.pid or source.worker.pid for source in list(self._sources.values())}
        found = []
        with self._tail_guard:
            for (of, suffix), tail in self.tails.items():
                if pid not in (None, str(of)) or stream not in (None, suffix):
                    continue
                row: dict[str, Any] = {"pid": of, "stream": suffix, "end": tail.end, "open": of in open_now}
                if pid is not None or task is not None:
                    row["lines"], row["lost"] = tail.since(start, task if isinstance(task, str) else None)
                if task is None or row["lines"]:
                    found.append(row)
        return tuple(found)

    def _progress(self) -> dict[str, Any]:
        """Return the number of rounds over the pipes that have ended, and False as "unread" if all that was printed was read.

        Two rounds later at most, all is read that had been printed before this call.
        """
        poller = select.poll()
        for fd in list(self._sources):
            poller.register(fd, select.POLLIN)
        # In this order: what leaves a pipe meanwhile is part of a round.
        unread = bool(poller.poll(0)) or self._in_round
        return {"pid": 0, "stream": "", "rounds": self._rounds, "unread": unread}

    # -- reading

    def _read_all(self) -> None:
        while True:
            events = self._poller.poll(0.2 if self._closing else UNENDED_SECONDS if self._unended else -1)
            if self._closing and not events:
                return
            self._in_round = True
            if self._unended:
                self._print_unended()
            for fd, _ in events:
                if fd == self._wake:
                    try:
                        os.eventfd_read(self._wake)
                    except BlockingIOError:
                        continue
                else:
                    self._read(self._sources[fd])
            self._rounds += 1
            self._in_round = False
            if self._closing and not self._sources:
                return

    def _read(self, source: _Source) -> None:
        try:
            data = os.read(source.fd, READ_BYTES)
        except BlockingIOError:
            return
        if not data:
            if source.rest:
                self._take(source, [source.rest], whole=False)
            self._forget(source)
            return
        lines = (source.rest + data).split(b"\n")
        source.rest = lines.pop()
        if len(source.rest) > LINE_BYTES_MAX:
            lines.append(source.rest)
            source.rest = b""
        if source.rest:
            self._unended.setdefault(source, time.monotonic())
        if lines:
            self._take(source, lines)

    def _print_unended(self) -> None:
        """Print incomplete lines that have waited long enough."""
        before = time.monotonic() - UNENDED_SECONDS
        for source in [source for source, since in self._unended.items() if since <= before]:
            del self._unended[source]
            if source.rest and source.rest.count(MARK) == source.rest.count(END_OF_MARK):
                rest, source.rest = source.rest, b""
                self._take(source, [rest], whole=False)

    def _forget(self, source: _Source) -> None:
        self._poller.unregister(source.fd)
        self._unended.pop(source, None)
        del self._sources[source.fd]
        os.close(source.fd)
        if source.log is not None:
            source.log.close()
        source.worker.open -= 1
        if not source.worker.open:
            self._workers.pop(source.worker.cid, None)
            if source.worker.lost:  # its death was reported, so the lines are no longer needed
                self.last_lines.pop(source.worker.cid, None)
            self.on_end()
            self.silent(source.worker.cid, source.worker.job)

    def reading(self, cid: int) -> bool:
        """Return True if more output of a worker may arrive."""
        return cid in self._workers

    def silent(self, cid: int, job: str) -> None:
        """Record the end of a worker's output, in the reading thread."""

    def _take(self, source: _Source, lines: list[bytes], whole: bool = True) -> None:
        """Take lines; with `whole` unset, one that has not ended, and may be only a mark."""
        texts: list[str] = []
        with self._tail_guard:
            for line in lines:
                while MARK in line:
                    # An incomplete line may precede the mark.
                    before, _, line = line.partition(MARK)
                    self._print_one(source, before, texts)
                    named, _, line = line.partition(END_OF_MARK)
                    pid, _, rest = named.decode("utf-8", "replace").partition(" ")
                    if pid.isdecimal():  # else user code has printed something like a mark
                        task, _, name = rest.partition(" ")
                        source.pid, source.task, source.name = int(pid), task, name
                self._print_one(source, line, texts, empty=whole)
        if source.unlogged:
            self._log(source)
        if texts:
            recent = self.last_lines.get(source.worker.cid)
            if recent is None:
                recent = self.last_lines[source.worker.cid] = deque(maxlen=RECENT_LINES)
            # Without the name in front, because the message contains it.
            place = self.places.get(source.worker.job, "")
            end = f" pid={source.pid or source.worker.pid}{place}) "
            recent.extend(
                text.partition(end)[2][:-1][:RECENT_CHARACTERS_MAX] for text in texts[-RECENT_LINES:]
            )
        if self.enabled and texts:
            self.print_lines(source.worker.job, source.is_error, "".join(texts))

    def _print_one(self, source: _Source, line: bytes, texts: list[str], empty: bool = False) -> None:
        if not line and not empty:
            return
        text = line.decode("utf-8", "replace").rstrip("\r")
        pid = source.pid or source.worker.pid
        place = self.places.get(source.worker.job, "")
        texts.append(f"({source.name} pid={pid}{place}) {text}\n")
        if self.log_folder is not None:
            source.unlogged.append(line)
        key = (pid, "err" if source.is_error else "out")
        tail = self.tails.get(key)
        if tail is None:
            tail = self.tails[key] = Tail()
            if len(self.tails) > TAILS_MAX:
                del self.tails[next(iter(self.tails))]
        tail.add(text, source.task)

    def _log(self, source: _Source) -> None:
        """Write lines to the log file of a stream, which is named as in Ray."""
        worker = source.worker
        if source.log is None and self.log_folder is not None and worker.cid >= 0:
            worker_id = worker.cid.to_bytes(4, "big").hex().rjust(WORKER_ID_DIGITS, "0")
            end = "err" if source.is_error else "out"
            pid = worker.pid or source.pid
            source.log = self.log_folder.open(f"worker-{worker_id}-{worker.job or NO_JOB}-{pid}.{end}")
        if source.log is not None:
            source.log.write(b"".join(line + b"\n" for line in source.unlogged))
        source.unlogged.clear()

    # -- printing

    def print_lines(self, job: str, is_error: bool, text: str) -> None:
        """Print whole lines from a worker; called in the reading thread."""
        self._printer.hold(is_error, text)

    def relay(self, is_error: bool, text: str) -> None:
        """Print the output of another node's workers."""
        if self.enabled:
            self._printer.hold(is_error, text)

    # -- the end

    def close(self) -> None:
        """Print the rest and stop. The workers have ended, so their pipes end too."""
        self._closing = True
        os.eventfd_write(self._wake, 1)
        self._printer.wait_for(self._reader)
        self._printer.close()
        for fd in list(self._sources):
            os.close(fd)
        self._sources.clear()
        self._poller.close()
        os.close(self._wake)
        if self.log_folder is not None:
            self.log_folder.close()


def _nothing() -> None:
    """Do nothing."""
