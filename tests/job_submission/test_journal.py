"""The table of jobs: folded from any lines, final once a job has ended, and aware of supervisors that died."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from skate.client.session.submitted_job import JOURNAL_VARIABLE, SUBMISSION_VARIABLE
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


def test_what_a_killed_supervisor_has_left_is_killed(journal: Journal) -> None:
    def left(job: str) -> subprocess.Popen[bytes]:
        variables = {**os.environ, SUBMISSION_VARIABLE: job, JOURNAL_VARIABLE: journal.path}
        return subprocess.Popen(["sleep", "1000"], env=variables, start_new_session=True)

    locks = [journal.create({"id": job, **NEW}) for job in ("a", "b")]
    with left("a") as dead, left("b") as living:
        os.close(locks[0])  # as if its supervisor had ended
        assert journal.jobs()["a"]["status"] == "FAILED"
        assert dead.wait(20) == -signal.SIGKILL
        assert living.poll() is None and journal.jobs()["b"]["status"] == "PENDING"
        living.kill()
    os.close(locks[1])


def test_many_jobs_leave_a_short_journal(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("skate.job_submission.journal.ENDED_MAX", 20)
    monkeypatch.setattr("skate.job_submission.journal.SPARE_LINES", 10)
    running = journal.create({"id": "running", **NEW})
    sizes = []
    for number in range(200):
        job = f"job{number}"
        lock = journal.create({"id": job, **NEW})
        Path(journal.log_path(job)).write_text("output")
        journal.append(job, status="RUNNING")
        journal.end(job, JobStatus.SUCCEEDED, driver_exit_code=0)
        os.close(lock)
        journal.forget_supervisor(job)
        sizes.append(os.path.getsize(journal.path))
    found = journal.jobs()
    assert found.pop("running")["status"] == "PENDING"
    assert (
        list(found) == [f"job{number}" for number in range(200 - len(found), 200)] and 20 <= len(found) <= 30
    )
    assert all(
        record["status"] == "SUCCEEDED" and record["driver_exit_code"] == 0 for record in found.values()
    )
    assert max(sizes[100:]) <= max(sizes[:100])
    assert {path.name for path in Path(journal.logs).iterdir()} == {f"job-driver-{job}.log" for job in found}
    assert sorted(os.listdir(journal.folder)) == ["journal.jsonl", "running.lock"]
    os.close(running)


OPERATIONS = (
    (os, "open"), (os, "write"), (os, "close"), (os, "fsync"), (os, "replace"), (os, "unlink"), (os, "stat"), (os, "makedirs"),
    (fcntl, "flock"),
)  # fmt: skip


def die_at(number: int, act: Callable[[], object]) -> bool:
    """Run a function in a forked process that is killed before its nth operation on files; return True if it has ended."""
    child = os.fork()
    if not child:
        left = number

        def counted(real: Callable[..., Any]) -> Callable[..., Any]:
            def call(*given: Any, **named: Any) -> Any:
                nonlocal left
                left -= 1
                if not left:
                    os.kill(os.getpid(), signal.SIGKILL)
                return real(*given, **named)

            return call

        for module, name in OPERATIONS:
            setattr(module, name, counted(getattr(module, name)))
        try:
            act()
        finally:
            os._exit(0)
    return os.waitpid(child, 0)[1] == 0


def test_a_journal_is_readable_whenever_its_writer_is_killed(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("skate.job_submission.journal.ENDED_MAX", 3)

    def create(job: str) -> None:
        monkeypatch.setattr(
            "skate.job_submission.journal.SPARE_LINES", -1000
        )  # in the child alone: shorten at once
        journal.create({"id": job, **NEW})

    expected: dict[str, str] = {}
    shortened = created = 0
    for number in range(1, 60):
        for each in range(3):
            job = f"old{number}.{each}"
            lock = journal.create({"id": job, **NEW})
            journal.end(job, JobStatus.SUCCEEDED)
            os.close(lock)
            journal.forget_supervisor(job)
            expected[job] = "SUCCEEDED"
        before = os.path.getsize(journal.path)
        has_ended = die_at(number, partial(create, f"new{number}"))
        shortened += os.path.getsize(journal.path) < before
        found = {
            job: record["status"] for job, record in Journal(os.path.dirname(journal.folder)).jobs().items()
        }
        created += found.get(f"new{number}") == "FAILED"  # its supervisor, the killed process, is gone
        expected[f"new{number}"] = "FAILED"
        assert found == {job: status for job, status in expected.items() if job in found}
        assert [f"old{number}.{each}" in found for each in range(3)] == [True] * 3
        if has_ended:
            break
    assert has_ended and shortened and created and number > 10


def test_two_processes_write_while_the_file_is_replaced(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("skate.job_submission.journal.SPARE_LINES", 0)
    locks = [journal.create({"id": "shared", **NEW})]
    children = []
    for writer in range(2):
        child = os.fork()
        if not child:
            status = 1
            try:
                for number in range(100):
                    journal.append("shared", **{f"field{writer}.{number}": number})
                status = 0
            finally:
                os._exit(status)
        children.append(child)
    for number in range(50):
        locks.append(journal.create({"id": f"job{number}", **NEW}))
    assert [os.waitpid(child, 0)[1] for child in children] == [0, 0]
    found = journal.jobs()
    assert len(found) == 51
    shared = {name for name in found["shared"] if name.startswith("field")}
    assert shared == {f"field{writer}.{number}" for writer in range(2) for number in range(100)}
    for lock in locks:
        os.close(lock)
