"""A driver in the command of a submitted job: it takes its settings from the job, and announces itself."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator
from typing import Any

from skate.client.process import Process

#: Variables of the command: the id of the job, the file of the session's jobs, and the settings of the job.
SUBMISSION_VARIABLE = "SKATE_JOB_SUBMISSION_ID"
JOURNAL_VARIABLE = "SKATE_JOB_JOURNAL"
CONFIG_VARIABLE = "RAY_JOB_CONFIG_JSON_ENV_VAR"


def runtime_env_with_job(own: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return the runtime environment of a driver together with that of its job.

    Raises ValueError if both set the same, unless RAY_OVERRIDE_JOB_RUNTIME_ENV is 1; then the driver's wins.
    """
    job = dict(json.loads(os.environ[CONFIG_VARIABLE]).get("runtime_env") or {})
    mine = dict(own or {})
    job_vars, own_vars = job.pop("env_vars", None) or {}, mine.pop("env_vars", None) or {}
    twice = sorted(job.keys() & mine.keys()) + sorted(job_vars.keys() & own_vars.keys())
    if twice and os.environ.get("RAY_OVERRIDE_JOB_RUNTIME_ENV") != "1":
        raise ValueError(
            f"the runtime_env of the submitted job and that of init() both set {', '.join(twice)}; set it once, or set "
            "RAY_OVERRIDE_JOB_RUNTIME_ENV=1 to prefer what init() says"
        )
    merged = {**job, **mine}
    if job_vars or own_vars:
        merged["env_vars"] = {**job_vars, **own_vars}
    return merged or None


def announce(process: Process) -> None:
    """Record in the table of jobs which driver the command has started."""
    job, journal = os.environ.get(SUBMISSION_VARIABLE), os.environ.get(JOURNAL_VARIABLE)
    if not job or not journal or not process.is_driver:
        return
    driver = {
        "id": process.job.hex(),
        "node_ip_address": process.node_ip_address,
        "pid": str(os.getpid()),
    }
    line = json.dumps({"id": job, "driver": driver}).encode()
    try:
        with locked(journal) as fd:
            os.write(fd, b"\n" + line + b"\n")
    except OSError:
        # The session of the job has ended, or the disk is full; the program runs without this record.
        return


@contextlib.contextmanager
def locked(path: str, flags: int = 0) -> Iterator[int]:
    """Open a table of jobs for appending, while no other process changes or replaces it; yield its descriptor.

    Raises OSError if it cannot be opened.
    """
    while True:
        fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | flags, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            # It may have been replaced by a shorter one while this process waited.
            if os.path.samestat(os.fstat(fd), os.stat(path)):
                yield fd
                return
        finally:
            os.close(fd)
