"""The process that supervises one job: it reserves resources, prepares the environment, runs the command and records the end.

`start` begins it in the name of any client; it belongs to nobody then, and ends with its command or with the node.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable
from typing import Any

from skate.client.session import node_access
from skate.job_submission import environment
from skate.job_submission.journal import Journal
from skate.job_submission.log_file import LIMIT_BYTES, last_words
from skate.job_submission.models import JobErrorType, JobStatus
from skate.job_submission.request import JobSubmitRequest
from skate.job_submission.runner import Runner

STOP_SECONDS = 3.0
#: After this long, a job that waits for resources says for which; afterwards it says so when that changes.
REASON_SECONDS = 1.0
LIMIT_VARIABLE = "SKATE_JOB_LOG_MAX_BYTES"


class JobEnd(Exception):
    """Raised to end a job before its command does."""

    def __init__(
        self, status: JobStatus, message: str | None = None, error: JobErrorType | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.error = error


def start(path: str, journal: Journal, job: str, lock: int) -> None:
    """Start the supervisor of a job that the journal has, and return at once.

    Args: path: the node's socket. lock: the descriptor that the journal has returned; it is closed here.
    """
    command = [sys.executable, "-m", __name__, path, job, str(lock)]
    try:
        subprocess.run(command, check=True, pass_fds=[lock], start_new_session=True, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.CalledProcessError) as error:
        text = f"The process that supervises the job did not start: {error}"
        kind = JobErrorType.JOB_SUPERVISOR_ACTOR_START_FAILURE.value
        journal.end(job, JobStatus.FAILED, text, error_type=kind)
    finally:
        os.close(lock)


class Supervisor:
    """One job on its way from PENDING to its end."""

    def __init__(self, path: str, job: str, runner: Runner, early_stops: list[int]) -> None:
        session_folder = node_access.session_folder(path)
        assert session_folder is not None
        self._path = path
        self._folder = session_folder
        self._job = job
        self._runner = runner
        self._journal = Journal(session_folder)
        record = self._journal.job(job)
        assert record is not None
        self._record = record
        self._wake_read, self._wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._stop_requested = threading.Event()
        signal.signal(signal.SIGTERM, self._stop)
        if early_stops:
            self._stop()
        pid = node_access.pid_of(path)
        assert pid is not None
        self._node = os.pidfd_open(pid)
        self._poll = select.poll()
        for fd in (self._node, self._wake_read, runner.fileno()):
            self._poll.register(fd, select.POLLIN)
        self._received: list[dict[str, Any]] = []

    def run(self) -> None:
        """Run the job to its end, and record it."""
        release: Callable[[], None] = lambda: None  # noqa: E731
        try:
            devices, release = self._reserve()
            request = self._request(devices)
            self._run_command(request)
        except JobEnd as end:
            self._runner.close()
            kind = end.error.value if end.error else None
            self._journal.end(self._job, end.status, end.message, error_type=kind)
        except Exception:  # any failure of the set-up ends the job
            self._runner.close()
            self._journal.end(
                self._job, JobStatus.FAILED, f"The job could not be supervised:\n{traceback.format_exc()}",
                error_type=JobErrorType.JOB_SUPERVISOR_ACTOR_UNKNOWN_FAILURE.value,
            )  # fmt: skip
        release()
        self._journal.forget_supervisor(self._job)

    # -- before the command

    def _reserve(self) -> tuple[str | None, Callable[[], None]]:
        """Wait for the resources of the job; return its GPUs, and a function that gives everything back."""
        fields: dict[str, Any] = {
            name: self._record.get(name) for name in JobSubmitRequest.__dataclass_fields__ if name != "job_id"
        }
        request = JobSubmitRequest(**{**fields, "submission_id": self._job})
        amounts, labels = request.resources(), request.entrypoint_label_selector or {}
        if not amounts and not labels:
            return None, lambda: None
        from skate.job_submission.reservation import Reservation  # few jobs have resources

        # A session takes SIGTERM for itself; a request to stop that comes meanwhile waits until that is undone.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        reservation = Reservation(self._path, self._job, amounts, labels, self._wake)
        signal.signal(signal.SIGTERM, self._stop)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
        reported = ""
        while not reservation.is_held:
            if reservation.refusal:
                kind = JobErrorType.JOB_SUPERVISOR_ACTOR_UNSCHEDULABLE
                raise JobEnd(JobStatus.FAILED, reservation.refusal, kind)
            if not self._wait(REASON_SECONDS):
                reason = reservation.reason()
                if reason and reason != reported:
                    reported = reason
                    self._journal.append(
                        self._job, message=f"Job has not started yet. It waits for resources: {reason}"
                    )
        return reservation.devices, reservation.release

    def _request(self, devices: str | None) -> dict[str, Any]:
        """Prepare the runtime environment; return the request to the runner."""
        from skate.runtime_env import prepare  # few jobs need all of it

        environment.find_own_python_first()
        env = self._record["runtime_env"] or {}
        found: list[Any] = []
        cancelled = threading.Event()

        def set_up() -> None:
            try:
                local = environment.with_local_packages(env, self._folder)
                found[:] = [prepare.prepare(prepare.validate(local, where="job"), cancelled=cancelled), local]
            except Exception as error:  # any: the thread passes it on
                found.append(error)
            self._wake()

        threading.Thread(target=set_up, daemon=True).start()
        try:
            while not found:
                self._wait(None)
        finally:
            cancelled.set()
        prepared = found[0]
        if isinstance(prepared, Exception):
            text = f"runtime_env setup failed: {prepared}"
            raise JobEnd(JobStatus.FAILED, text, JobErrorType.RUNTIME_ENV_SETUP_FAILURE)
        environment.write_shim(self._journal.shim)
        record = {**self._record, "runtime_env": found[1]}
        variables = environment.of_command(record, prepared, self._path, self._journal, devices)
        self._variables = variables
        return {
            "job": self._job, "command": self._record["entrypoint"], "env": variables, "cwd": prepared.cwd or os.getcwd(),
            "log": self._journal.log_path(self._job), "limit_bytes": int(os.environ.get(LIMIT_VARIABLE, LIMIT_BYTES)),
        }  # fmt: skip

    # -- the command

    def _run_command(self, request: dict[str, Any]) -> None:
        if self._stop_requested.is_set():
            raise JobEnd(JobStatus.STOPPED)
        self._runner.send(**request)
        self._journal.append(self._job, status=JobStatus.RUNNING.value, message=None)
        status: int | None = None
        asked = False
        while status is None:
            if self._stop_requested.is_set() and not asked:
                asked = True
                number, seconds = self._how_to_stop()
                self._runner.send(signal=number, seconds=seconds)
            self._wait(None, ends=False)
            for message in self._received:
                if "error" in message:
                    text = f"The command could not be started: {message['error']}"
                    raise JobEnd(JobStatus.FAILED, text, JobErrorType.JOB_ENTRYPOINT_COMMAND_START_ERROR)
                status = message.get("status", status)
            self._received.clear()
        self._runner.close()
        self._record_end(status)

    def _record_end(self, status: int) -> None:
        if self._stop_requested.is_set():
            self._journal.end(self._job, JobStatus.STOPPED)
        elif status == 0:
            self._journal.end(self._job, JobStatus.SUCCEEDED, driver_exit_code=0)
        else:
            last = last_words(self._journal.log_path(self._job))
            text = f"Job entrypoint command failed with exit code {status}"
            text += (
                f", last available logs (truncated to 20,000 chars):\n{last}"
                if last
                else ". No logs available."
            )
            kind = JobErrorType.JOB_ENTRYPOINT_COMMAND_ERROR.value
            self._journal.end(self._job, JobStatus.FAILED, text, error_type=kind, driver_exit_code=status)

    def _how_to_stop(self) -> tuple[int, float]:
        named = self._variables.get("RAY_JOB_STOP_SIGNAL", "SIGTERM")
        number = signal.SIGINT if named == "SIGINT" else signal.SIGTERM
        try:
            seconds = float(self._variables.get("RAY_JOB_STOP_WAIT_TIME_S", STOP_SECONDS))
        except ValueError:
            seconds = STOP_SECONDS
        return number, max(seconds, 0.0)

    # -- events

    def _stop(self, *_: object) -> None:
        self._stop_requested.set()
        self._wake()

    def _wake(self) -> None:
        try:
            os.write(self._wake_write, b"!")
        except BlockingIOError:
            # It is awake already.
            pass

    def _wait(self, seconds: float | None, ends: bool = True) -> bool:
        """Wait for an event; return False if there was none for so long. Raise JobEnd if the job cannot continue.

        Args: ends: a request to stop ends the job here, because its command does not run yet.
        """
        ready = {fd for fd, _ in self._poll.poll(None if seconds is None else seconds * 1000)}
        if self._wake_read in ready:
            os.read(self._wake_read, 1 << 10)
        if self._node in ready:
            text = "The node has ended, and the job with it."
            raise JobEnd(JobStatus.FAILED, text, JobErrorType.JOB_SUPERVISOR_ACTOR_DIED)
        if self._runner.fileno() in ready:
            received = self._runner.receive()
            if received is None:
                text = "The process that ran the command of the job was killed, and the command with it."
                raise JobEnd(JobStatus.FAILED, text, JobErrorType.JOB_SUPERVISOR_ACTOR_DIED)
            self._received += received
        if self._stop_requested.is_set() and ends:
            raise JobEnd(JobStatus.STOPPED)
        return bool(ready)


def main(arguments: list[str]) -> None:
    """Supervise a job, in a process that is no child of the one that has started it."""
    path, job, number = arguments
    lock = int(number)
    early_stops: list[int] = []
    signal.signal(signal.SIGTERM, lambda signum, _: early_stops.append(signum))
    child = os.fork()
    if child:
        os.ftruncate(lock, 0)
        os.pwrite(lock, str(child).encode(), 0)
        os._exit(0)
    os.set_inheritable(lock, False)
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    os.close(null)
    runner = Runner(lock)
    node_access.adopt_orphans()
    Supervisor(path, job, runner, early_stops).run()


if __name__ == "__main__":
    main(sys.argv[1:])
