"""The end of processes that a job has left: those of its command, after its supervisor and its runner were killed together."""

from __future__ import annotations

import contextlib
import os
import signal

from skate import procfs
from skate.client.session.submitted_job import JOURNAL_VARIABLE, SUBMISSION_VARIABLE

#: Each round finds what was forked during the one before. After so many, the job forks faster than it can be killed.
ROUNDS_MAX = 20
#: Supervisors of jobs that this job has submitted; they have inherited its variables.
SUPERVISOR = b"skate.job_submission.supervisor"


def kill_all(job: str, journal: str) -> int:
    """Kill the processes whose environment names a job and its journal; return how many there were."""
    marks = {f"{SUBMISSION_VARIABLE}={job}".encode(), f"{JOURNAL_VARIABLE}={journal}".encode()}
    killed: set[int] = set()
    for _ in range(ROUNDS_MAX):
        found = {pid for pid in procfs.processes() if pid != os.getpid() and _is_of(pid, marks)} - killed
        if not found:
            break
        for pid in found:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        killed |= found
    return len(killed)


def _is_of(pid: int, marks: set[bytes]) -> bool:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            variables = file.read().split(b"\0")
    except OSError:  # it has ended, or belongs to another user
        return False
    return marks.issubset(variables) and SUPERVISOR not in procfs.read(f"/proc/{pid}/cmdline").split(b"\0")
