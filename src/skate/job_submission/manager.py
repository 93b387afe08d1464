"""The jobs of a node, for clients on its machine and for the HTTP server: submit, stop, delete, look, read the output."""

from __future__ import annotations

import dataclasses
import functools
import os
import signal
import time
from typing import Any

from skate.client.session import node_access, session
from skate.job_submission import supervisor
from skate.job_submission.journal import Journal
from skate.job_submission.log_file import JobLogReader, read_all
from skate.job_submission.models import JobDetails, JobInfo, JobStatus, JobType
from skate.job_submission.request import JobSubmitRequest, is_id
from skate.runtime_env.package_store import PackageStore

REFUSAL = (
    "jobs need a node that stays, and this session ends with the program that has started it; start a node with "
    "`skate start --head`, and submit to that"
)


def of_session() -> JobManager:
    """Return the jobs of the node that this process is connected with. Raises ConnectionError if it is inside a program."""
    address = session.address_of_node()
    if not address:
        raise ConnectionError(REFUSAL)
    return _manager_at(address)


@functools.cache
def _manager_at(address: str) -> JobManager:
    return JobManager(node_access.to_path(address) or address)


class NoSuchJob(LookupError):
    """Raised for an id that names no job."""


class JobNotEnded(RuntimeError):
    """Raised when a job that still runs is to be deleted."""


class JobManager:
    """The jobs of one node.

    Args:
        path: the node's socket.

    Raises ConnectionError for a session inside a program.
    """

    def __init__(self, path: str) -> None:
        folder = node_access.session_folder(path)
        if folder is None:
            raise ConnectionError(REFUSAL)
        self.path = path
        self.packages = PackageStore(folder)
        self._journal = Journal(folder)

    def submit(self, request: JobSubmitRequest) -> str:
        """Start a job, and return its id. Raises DuplicateJob if the id is taken, ConnectionError if the node is gone."""
        node = node_access.ask(self.path, "status")
        record = dataclasses.asdict(request)
        job: str = record.pop("submission_id")
        del record["job_id"]
        here = next((each["node_id"] for each in node["nodes"] if each["pid"] == node["pid"]), None)
        record |= {"id": job, "status": JobStatus.PENDING.value, "start_time": int(time.time() * 1000)}
        record["driver_node_id"] = here
        lock = self._journal.create(record)
        supervisor.start(self.path, self._journal, job, lock)
        return job

    def stop(self, job: str) -> bool:
        """Ask a job to end; return False if it has ended already. Raises NoSuchJob."""
        record = self._record(job)
        if JobStatus(record["status"]).is_terminal():
            return False
        pid = self._journal.supervisor(job)
        if pid is None:
            return False
        try:
            watched = os.pidfd_open(pid)
        except ProcessLookupError:
            return False
        try:
            if self._journal.supervisor(job) == pid:  # the number was not reused meanwhile
                signal.pidfd_send_signal(watched, signal.SIGTERM)
        except ProcessLookupError:
            return False
        finally:
            os.close(watched)
        return True

    def delete(self, job: str) -> bool:
        """Forget a job that has ended; its log stays. Raises NoSuchJob, and JobNotEnded for one that has not."""
        record = self._record(job)
        if not JobStatus(record["status"]).is_terminal():
            raise JobNotEnded(
                f"Attempted to delete job '{job}', but it is in a non-terminal state {record['status']}; stop it first."
            )
        self._journal.append(job, deleted=True)
        return True

    def details(self, job: str) -> JobDetails:
        """Return the facts about a job. `job` may also be the id of its driver. Raises NoSuchJob."""
        record = self._journal.job(job) if is_id(job) else None
        if record is not None:
            return _details(job, record)
        for found in self.all_details():
            if job in (found.job_id, found.submission_id):
                return found
        raise NoSuchJob(f"Job {job} does not exist")

    def all_details(self) -> list[JobDetails]:
        """Return the facts about all jobs."""
        return [_details(job, record) for job, record in self._journal.jobs().items()]

    def id_of(self, job: str) -> str:
        """Return the id under which a job was submitted. `job` may also be the id of its driver. Raises NoSuchJob."""
        found = self.details(job).submission_id
        assert found is not None
        return found

    def log(self, job: str) -> str:
        """Return the output of a job. Raises NoSuchJob."""
        return read_all(self._journal.log_path(self.id_of(job)))

    def follow(self, job: str) -> JobLogTail:
        """Return the output of a job as it comes. Raises NoSuchJob."""
        return JobLogTail(self._journal, self.id_of(job))

    def _record(self, job: str) -> dict[str, Any]:
        record = self._journal.job(job) if is_id(job) else None
        if record is None:
            raise NoSuchJob(f"Job {job} does not exist")
        return record


class JobLogTail:
    """The output of one job, read while it grows."""

    def __init__(self, journal: Journal, job: str) -> None:
        self._journal = journal
        self._job = job
        self._reader = JobLogReader(journal.log_path(job))
        self._has_ended = False

    def read(self) -> str | None:
        """Return what is new, empty if nothing is, or None at the end of the output of a job that has ended."""
        text = self._reader.read()
        if text:
            return text
        if self._has_ended:
            self._reader.close()
            return None
        record = self._journal.job(self._job)
        # What was written before the end is read by the next call.
        self._has_ended = record is None or JobStatus(record["status"]).is_terminal()
        return ""

    def close(self) -> None:
        """Close the file."""
        self._reader.close()


def _details(job: str, record: dict[str, Any]) -> JobDetails:
    names = {field.name for field in dataclasses.fields(JobInfo)}
    info = JobInfo(**{name: value for name, value in record.items() if name in names})
    shown = dataclasses.asdict(info)
    driver = record.get("driver")
    return JobDetails.of(
        {
            **shown,
            "type": JobType.SUBMISSION,
            "submission_id": job,
            "job_id": driver["id"] if driver else None,
            "driver_info": driver,
        }
    )


def status_of(error: Exception) -> int:
    """Return the HTTP status of an error of the manager."""
    if isinstance(error, NoSuchJob):
        return 404
    return 400 if isinstance(error, (ValueError, TypeError, JobNotEnded)) else 500
