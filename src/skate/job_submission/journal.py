"""The table of a session's jobs: an append-only file, written by clients, supervisors and drivers, and folded by each reader.

Each line is a JSON object with the id of a job and the fields that change. A supervisor holds a lock as long as it lives, so any
reader can tell that one has died, whatever killed it. When the file has many lines for few jobs, it is replaced by a shorter one.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
from typing import Any

from skate.client.session.submitted_job import locked
from skate.job_submission import remains
from skate.job_submission.models import JobErrorType, JobStatus

#: A supervisor that was killed is noticed by the next reader, at the latest.
DIED = (
    "The process that supervises the job has died (pid {pid}); it was killed, or the machine ran out of memory. "
    "The command has been killed too."
)
#: So many jobs that have ended are remembered; the oldest are forgotten, with their output.
ENDED_MAX = 1000
#: The file is replaced by a shorter one when it has so many lines more than twice the number of jobs.
SPARE_LINES = 256
_TERMINAL = frozenset(status.value for status in JobStatus if status.is_terminal())


class DuplicateJob(ValueError):
    """Raised for the id of a job that exists."""


class Journal:
    """The jobs in the folder of a session. Not thread-safe; several processes may have one at a time."""

    def __init__(self, session_folder: str) -> None:
        self.folder = os.path.join(session_folder, "jobs")
        self.logs = os.path.join(session_folder, "logs")
        self.shim = os.path.join(session_folder, "shim")
        self.path = os.path.join(self.folder, "journal.jsonl")

    def log_path(self, job: str) -> str:
        """Return the file with the output of a job."""
        return os.path.join(self.logs, f"job-driver-{job}.log")

    # -- reading

    def jobs(self) -> dict[str, dict[str, Any]]:
        """Return the facts about each job by its id, in the order of submission."""
        found = self._fold()
        for job, record in found.items():
            if record["status"] not in _TERMINAL and not self._is_supervised(job):
                self._bury(job)
                return self.jobs()
        return found

    def job(self, job: str) -> dict[str, Any] | None:
        """Return the facts about a job, or None."""
        record = self._fold().get(job)
        if record is not None and record["status"] not in _TERMINAL and not self._is_supervised(job):
            self._bury(job)
            return self._fold().get(job)
        return record

    def _fold(self) -> dict[str, dict[str, Any]]:
        return self._counted()[0]

    def _counted(self) -> tuple[dict[str, dict[str, Any]], int]:
        """Return the jobs, and the number of lines."""
        jobs: dict[str, dict[str, Any]] = {}
        try:
            with open(self.path, "rb") as file:
                lines = file.read().split(b"\n")
        except FileNotFoundError:
            return jobs, 0
        for line in lines:
            try:
                change = json.loads(line) if line else None
            except ValueError:  # the disk was full, or the writer was killed
                continue
            if change:
                _apply(jobs, change)
        return jobs, len(lines)

    # -- writing

    def create(self, record: dict[str, Any]) -> int:
        """Add a job. Return the descriptor of its lock, for its supervisor.

        Raises DuplicateJob if there is one of this id.
        """
        for folder in (self.folder, self.logs):
            os.makedirs(folder, mode=0o700, exist_ok=True)
        job = record["id"]
        with locked(self.path, os.O_CREAT) as file:
            jobs, lines = self._counted()
            if job in jobs:
                raise DuplicateJob(
                    f"Job with submission_id {job} already exists. Please use a different submission_id."
                )
            lock = os.open(self._lock_path(job), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(lock)
                raise DuplicateJob(
                    f"Job with submission_id {job} was deleted, but has not ended yet."
                ) from None
            _write(file, {**record, "new": True})
            forgotten = self._forgotten(jobs)
            if forgotten or lines > 2 * len(jobs) + SPARE_LINES:
                with contextlib.suppress(OSError):  # without room on the disk, the next job tries again
                    self._shorten(forgotten)
        for each in (job, *forgotten):  # the output of an older job of this id, and that of forgotten ones
            for path in (self.log_path(each), f"{self.log_path(each)}.1"):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(path)
        return lock

    def _forgotten(self, jobs: dict[str, dict[str, Any]]) -> list[str]:
        """Return the oldest jobs that have ended, as far as there are too many; some more at a time."""
        ended = [job for job, record in jobs.items() if record["status"] in _TERMINAL]
        return ended[: len(ended) - ENDED_MAX] if len(ended) >= ENDED_MAX + SPARE_LINES else []

    def _shorten(self, forgotten: list[str]) -> None:
        """Replace the file by one with a line for each job. The lock is held."""
        jobs = self._fold()
        text = b"".join(
            json.dumps({**record, "new": True}).encode() + b"\n"
            for job, record in jobs.items()
            if job not in forgotten
        )
        part = f"{self.path}.new"
        fd = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with open(fd, "wb") as file:
            file.write(text)
            file.flush()
            os.fsync(fd)
        os.replace(part, self.path)

    def append(self, job: str, **fields: Any) -> None:
        """Record changes of a job. Once it has ended, its status does not change any more."""
        with locked(self.path, os.O_CREAT) as file:
            _write(file, {"id": job, **fields})

    def end(self, job: str, status: JobStatus, message: str | None = None, **fields: Any) -> None:
        """Record the end of a job."""
        now = int(time.time() * 1000)
        self.append(job, status=status.value, message=message, end_time=now, **fields)

    # -- supervisors

    def supervisor(self, job: str) -> int | None:
        """Return the pid of the process that supervises a job, or None if none lives."""
        if not self._is_supervised(job):
            return None
        try:
            with open(self._lock_path(job)) as file:
                text = file.read()
        except FileNotFoundError:  # it has ended meanwhile
            return None
        return int(text) if text else None

    def forget_supervisor(self, job: str) -> None:
        """Remove the lock of a job whose end is recorded."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._lock_path(job))

    def _lock_path(self, job: str) -> str:
        return os.path.join(self.folder, f"{job}.lock")

    def _is_supervised(self, job: str) -> bool:
        try:
            lock = os.open(self._lock_path(job), os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(lock)
        return False

    def _bury(self, job: str) -> None:
        """Record that the supervisor of a job has died, unless it has recorded the end itself."""
        try:
            with open(self._lock_path(job)) as file:
                pid = file.read()
        except FileNotFoundError:
            pid = ""
        remains.kill_all(job, self.path)
        message = DIED.format(pid=pid or "unknown")
        self.end(job, JobStatus.FAILED, message, error_type=JobErrorType.JOB_SUPERVISOR_ACTOR_DIED.value)
        self.forget_supervisor(job)


def _apply(jobs: dict[str, dict[str, Any]], change: dict[str, Any]) -> None:
    job = change["id"]
    if change.pop("new", False):
        jobs[job] = change
    elif job in jobs and change.get("deleted"):
        del jobs[job]
    elif job in jobs:
        if jobs[job]["status"] in _TERMINAL:
            for name in ("status", "message", "error_type", "end_time", "driver_exit_code"):
                change.pop(name, None)
        jobs[job].update(change)


def _write(fd: int, record: dict[str, Any]) -> None:
    """Append a line, also after one that a full disk has cut off."""
    size = os.fstat(fd).st_size
    begin = b"" if not size or os.pread(fd, 1, size - 1) == b"\n" else b"\n"
    os.write(fd, begin + json.dumps(record).encode() + b"\n")
