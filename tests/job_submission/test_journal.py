"""The table of jobs: folded from any lines, final once a job has ended, and aware of supervisors that died."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from skate.job_submission.journal import DuplicateJob, Journal
from skate.job_submission.models import JobStatus

NEW = {"entrypoint": "true", "status": "PENDING"}


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(str(tmp_path))


def test_the_first_end_of_a_job_counts(journal: Journal) -> None:
    lock = journal.create({"id": "a", **NEW})
    journal.append("a", status="RUNNING")
    journal.end("a", JobStatus.STOPPED)
    journal.end("a", JobStatus.FAILED, "too late", driver_exit_code=1)
    journal.append("a", driver={"id": "01"})
    found = journal.job("a")
    assert found is not None and found["status"] == "STOPPED" and found["driver"] == {"id": "01"}
    assert found["message"] is None and "driver_exit_code" not in found
    os.close(lock)


def test_an_id_is_taken_until_its_job_is_deleted(journal: Journal) -> None:
    os.close(journal.create({"id": "a", **NEW}))
    with pytest.raises(DuplicateJob, match="already exists"):
        journal.create({"id": "a", **NEW})
    assert list(journal.jobs()) == ["a"]
    journal.append("a", deleted=True)
    assert journal.jobs() == {} and journal.job("a") is None
    os.close(journal.create({"id": "a", **NEW}))


@pytest.mark.parametrize("rest", [b'{"id": "b", "sta', b"\n\nnot json\n", b"\xff\n"])
def test_lines_that_a_full_disk_has_cut_off_are_left_out(journal: Journal, rest: bytes) -> None:
    lock = journal.create({"id": "a", **NEW})
    with open(journal.path, "ab") as file:
        file.write(rest)
    journal.append("a", status="RUNNING")
    assert {job: record["status"] for job, record in journal.jobs().items()} == {"a": "RUNNING"}
    os.close(lock)


def test_a_supervisor_that_was_killed_is_noticed(journal: Journal) -> None:
    lock = journal.create({"id": "a", **NEW})
    code = "import sys; print('here', flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", code], pass_fds=[lock], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        os.pwrite(lock, str(process.pid).encode(), 0)
        os.close(lock)
        assert journal.supervisor("a") == process.pid
        assert journal.jobs()["a"]["status"] == "PENDING"
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert journal.supervisor("a") is None
    found = journal.jobs()["a"]
    assert found["status"] == "FAILED" and str(process.pid) in found["message"]
    assert found["error_type"] == "JOB_SUPERVISOR_ACTOR_DIED" and found["end_time"]
    assert journal.job("a") == found
