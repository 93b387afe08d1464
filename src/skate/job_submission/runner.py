"""The process between a supervisor and the command of its job: it runs the command, writes the log, and kills whatever remains.

It is forked from the supervisor, and adopts all processes that the command leaves behind. So nothing runs on when the command has
ended, is stopped, or the supervisor is killed.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import time
from typing import Any

from skate import procfs
from skate.client.session.node_access import adopt_orphans, end_all, ended_child
from skate.job_submission.log_file import JobLogWriter

_PIECE_BYTES = 1 << 16
#: Output that is still in the pipe when all processes have ended is read for this long.
DRAIN_SECONDS = 1.0
PR_SET_PDEATHSIG = 1


class Runner:
    """The supervisor's side: the forked process, and the connection to it."""

    def __init__(self, lock: int) -> None:
        here, there = socket.socketpair()
        self.pid = os.fork()
        if self.pid == 0:
            status = 1
            try:
                here.close()
                os.close(lock)  # only the supervisor shows by it that it lives
                Command(there).run()
                status = 0
            finally:
                os._exit(status)
        there.close()
        self._socket = here
        self._buffer = b""

    def fileno(self) -> int:
        """Return the descriptor that is readable when the runner has something to say."""
        return self._socket.fileno()

    def send(self, **message: Any) -> None:
        """Send a request."""
        try:
            self._socket.sendall(json.dumps(message).encode() + b"\n")
        except BrokenPipeError:
            # It was killed, which `receive` reports.
            pass

    def receive(self) -> list[dict[str, Any]] | None:
        """Return what has arrived, or None if the process has ended."""
        try:
            data = self._socket.recv(_PIECE_BYTES)
        except ConnectionResetError:
            data = b""
        if not data:
            return None
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        return [json.loads(line) for line in lines]

    def close(self) -> None:
        """End the process, with everything below it."""
        self._socket.close()
        try:
            os.waitpid(self.pid, 0)
        except ChildProcessError:  # the supervisor has reaped it already
            pass
        end_all([])  # what a killed runner has left is adopted by the supervisor


class Command:
    """The runner's side: a shell command with everything that it starts."""

    def __init__(self, supervisor: socket.socket) -> None:
        self._supervisor = supervisor
        self._buffer = b""
        self._poll = select.poll()
        self._killed_at = 0.0
        self._stopped = False

    def run(self) -> None:
        """Wait for the request, run the command, and report its exit status. End early if the supervisor does."""
        adopt_orphans()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, lambda *_: None)  # a handler of Python becomes the default in the command
        signal.pthread_sigmask(signal.SIG_SETMASK, set())
        request = self._request()
        if request is None:
            return
        output, write_end = os.pipe()
        try:
            log = JobLogWriter(request["log"], request["limit_bytes"])
            log.write(f"Running entrypoint for job {request['job']}: {request['command']}\n".encode())
            process = subprocess.Popen(
                request["command"], shell=True, start_new_session=True, stdin=subprocess.DEVNULL, stdout=write_end,
                stderr=write_end, env=request["env"], cwd=request["cwd"], preexec_fn=_die_with_runner,
            )  # fmt: skip
        except (OSError, ValueError) as error:
            self._report(error=str(error))
            return
        finally:
            os.close(write_end)
        self._report(pid=process.pid)
        status = self._watch(process, output, log)
        end_all([])
        self._drain(output, log)
        log.close()
        self._report(status=status)

    def _request(self) -> dict[str, Any] | None:
        while b"\n" not in self._buffer:
            data = self._supervisor.recv(_PIECE_BYTES)
            if not data:
                return None
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        found: dict[str, Any] = json.loads(line)
        return found

    def _watch(self, process: subprocess.Popen[bytes], output: int, log: JobLogWriter) -> int:
        """Write the output until the command ends; return its exit status."""
        ended = os.pidfd_open(process.pid)
        supervisor = self._supervisor.fileno()
        for fd in (ended, supervisor, output):
            self._poll.register(fd, select.POLLIN)
        self._obey(b"")  # a request to stop may have come together with that to run
        has_ended = False
        while not has_ended or (self._killed_at and _below()):
            ready = {fd for fd, _ in self._poll.poll(self._timeout_ms())}
            if output in ready and not _copy(output, log):
                self._poll.unregister(output)
            if supervisor in ready:
                data = self._supervisor.recv(_PIECE_BYTES)
                if data:
                    self._obey(data)
                else:
                    self._poll.unregister(supervisor)
                    _signal_all(signal.SIGKILL)
            if self._killed_at and time.monotonic() >= self._killed_at:
                self._killed_at = 0.0
                _signal_all(signal.SIGKILL)
            if ended in ready:
                self._poll.unregister(ended)
                has_ended = True
            if not has_ended:
                _reap_orphans(process.pid)
        os.close(ended)
        return process.wait()

    def _timeout_ms(self) -> float:
        if not self._killed_at:
            return 1000.0
        return min(50.0, max(0.0, self._killed_at - time.monotonic()) * 1000)

    def _obey(self, data: bytes) -> None:
        """Stop or kill the command, as the supervisor asks."""
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        for line in lines:
            request = json.loads(line)
            if not self._stopped or not request["seconds"]:
                self._stopped = True
                self._killed_at = time.monotonic() + request["seconds"]
                _signal_all(request["signal"])

    def _drain(self, output: int, log: JobLogWriter) -> None:
        deadline = time.monotonic() + DRAIN_SECONDS
        poll = select.poll()
        poll.register(output, select.POLLIN)
        while poll.poll(max(0.0, deadline - time.monotonic()) * 1000) and _copy(output, log):
            continue
        os.close(output)

    def _report(self, **message: Any) -> None:
        try:
            self._supervisor.sendall(json.dumps(message).encode() + b"\n")
        except BrokenPipeError:
            # The supervisor was killed.
            pass


def _copy(output: int, log: JobLogWriter) -> bool:
    """Write what is in the pipe to the log; return False at its end."""
    data = os.read(output, _PIECE_BYTES)
    if data:
        log.write(data)
    return bool(data)


def _below() -> list[int]:
    """Return the living descendants of this process."""
    children: dict[int, list[int]] = {}
    for pid in procfs.processes():
        fields = procfs.stat(pid)
        if len(fields) > procfs.PARENT and fields[procfs.STATE] != b"Z":
            children.setdefault(int(fields[procfs.PARENT]), []).append(pid)
    found: list[int] = []
    left = [os.getpid()]
    while left:
        below = children.get(left.pop(), [])
        found += below
        left += below
    return found


def _signal_all(number: int) -> None:
    for pid in _below():
        try:
            os.kill(pid, number)
        except (ProcessLookupError, PermissionError):
            continue


def _reap_orphans(command: int) -> None:
    while (pid := ended_child()) > 0 and pid != command:
        os.waitpid(pid, 0)


def _die_with_runner() -> None:
    """Have the kernel kill the shell when the runner is killed; runs in the forked child."""
    import ctypes  # loaded by `adopt_orphans` in the parent

    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
