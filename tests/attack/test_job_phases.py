"""SIGKILL of all that has a part in a job, in each phase of it: status and output are right afterwards, and nothing runs on."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from skate.job_submission import JobStatus, JobSubmissionClient
from tests.conformance.waiting import wait_for
from tests.process.programs import MARK, SOURCE
from tests.process.standing import Node
from tests.process.test_jobs import STUBBORN, TOKEN, arguments, nothing_runs_on, server, until, until_said

pytestmark = pytest.mark.attack
FLOOD = "echo ready; i=0; while :; do i=$((i+1)); echo line $i; done"
#: Each phase: the command, and the text of its output with which it is reached.
PHASES = {
    "waits for resources": ("echo never", ""),
    "runs": ("echo ready; sleep 1000", "\nready\n"),
    "floods": (FLOOD, "\nline 1000\n"),
    "is stopped": (STUBBORN, "\nready\n"),
    "has ended": ("echo ready", "\nready\n"),
}
VICTIMS = ("supervisor", "runner", "both", "command", "node", "server", "client")
#: Submits over HTTP and follows, as `skate job submit` does.
CLIENT = """
import asyncio, json, sys
from skate.job_submission import JobSubmissionClient
client = JobSubmissionClient(sys.argv[1])
client.submit_job(**json.loads(sys.argv[2]))
async def follow():
    async for text in client.tail_job_logs("job"):
        print(text, flush=True)
asyncio.run(follow())
"""


@pytest.fixture
def started(node: Node, monkeypatch: pytest.MonkeyPatch) -> Iterator[Node]:
    """Start a node with one licence."""
    for name in ("SKATE_ADDRESS", "RAY_ADDRESS", "RAY_AUTH_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SKATE_TMPDIR", str(node.folder))
    monkeypatch.setenv("PYTHONPATH", SOURCE)
    monkeypatch.setenv(MARK, node.mark)
    node.start("--resources", '{"licence": 1}', cpus=2)
    yield node


def processes_of(node: Node, job: str) -> list[int]:
    """Return the supervisor of a job and the process between it and the command."""
    return sorted(
        pid for pid in node.processes() if job.encode() in arguments(pid) and b"-m" in arguments(pid)
    )


def kill(*pids: int) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def parent_of(pid: int) -> int:
    """Return the parent of a process, 0 if it has ended."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


@pytest.mark.parametrize("victim", VICTIMS)
@pytest.mark.parametrize("phase", PHASES)
def test_a_kill_in_a_phase(started: Node, phase: str, victim: str, tmp_path: Path) -> None:
    jobs = JobSubmissionClient()
    command, text = PHASES[phase]
    waits = phase == "waits for resources"
    if waits:
        jobs.submit_job(entrypoint="sleep 1004", submission_id="holder", entrypoint_resources={"licence": 1})
        until(jobs, "holder", JobStatus.RUNNING)
    asked = {
        "entrypoint": command, "submission_id": "job", "entrypoint_resources": {"licence": 1},
        "runtime_env": {"env_vars": {"RAY_JOB_STOP_WAIT_TIME_S": "2"}},
    }  # fmt: skip
    with server(started) as dashboard:
        url = dashboard.args[0]  # type: ignore[index]
        env = {**os.environ, "RAY_AUTH_TOKEN": TOKEN}
        with subprocess.Popen(
            [sys.executable, "-c", CLIENT, url, json.dumps(asked)], env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as client:  # fmt: skip
            wait_for(lambda: "job" in [each.submission_id for each in jobs.list_jobs()], 30, "the job")
            if waits:
                wait_for(lambda: "licence" in (jobs.get_job_info("job").message or ""), 30, "the reason")
            else:
                until_said(jobs, "job", text)
            if phase == "is stopped":
                jobs.stop_job("job")
            if phase == "has ended":
                until(jobs, "job", JobStatus.SUCCEEDED)
            found = processes_of(started, "job")
            strike(started, victim, found, dashboard, client)
            check(started, jobs, phase, victim)
            client.kill()


def strike(
    node: Node,
    victim: str,
    found: list[int],
    dashboard: subprocess.Popen[str],
    client: subprocess.Popen[bytes],
) -> None:
    """Kill the victim."""
    if victim == "supervisor":
        kill(*found[:1])
    elif victim == "runner":
        kill(*found[1:2])
    elif victim == "both":
        kill(*found)
    elif victim == "command":
        # The shell of the job, below the process between it and the supervisor; while it waits, there is none.
        kill(*(pid for pid in node.processes() if len(found) > 1 and parent_of(pid) == found[1]))
    elif victim == "node":
        kill(node.pid)
    else:
        process: subprocess.Popen[str] | subprocess.Popen[bytes] = dashboard if victim == "server" else client
        process.kill()
        process.wait()


def check(node: Node, jobs: JobSubmissionClient, phase: str, victim: str) -> None:
    """Look at status, output and processes after the kill."""
    if victim == "node":
        nothing_runs_on(node)
        with pytest.raises(ConnectionError, match="skate start --head"):
            JobSubmissionClient()
        return
    text = jobs.get_job_logs("job")
    if phase == "has ended":
        assert jobs.get_job_status("job") is JobStatus.SUCCEEDED and text.endswith("\nready\n")
    elif victim in ("server", "client") or (victim == "command" and phase == "waits for resources"):
        if phase != "is stopped":
            wanted = JobStatus.PENDING if phase == "waits for resources" else JobStatus.RUNNING
            assert jobs.get_job_status("job") is wanted
            jobs.stop_job("job")
        until(jobs, "job", JobStatus.STOPPED)
    else:
        ended = until(jobs, "job", JobStatus.FAILED, JobStatus.STOPPED)
        # A job that was being stopped may count as stopped: all that ran has ended, as its user wanted.
        assert ended is JobStatus.FAILED or phase == "is stopped"
        details = jobs.get_job_info("job")
        if ended is JobStatus.FAILED and victim != "command":
            assert details.error_type == "JOB_SUPERVISOR_ACTOR_DIED" and "killed" in (details.message or "")
        elif ended is JobStatus.FAILED:
            assert (
                details.driver_exit_code == -signal.SIGKILL
                or details.driver_exit_code == 128 + signal.SIGKILL
            )
    if phase == "floods":
        lines = jobs.get_job_logs("job").splitlines()[2:]
        assert lines[:1000] == [f"line {number}" for number in range(1, 1001)], (
            "no line is lost or torn on the way"
        )
    if phase == "waits for resources":
        jobs.stop_job("holder")
        until(jobs, "holder", JobStatus.STOPPED)
    nothing_runs_on(node)
    # What the job held is free again.
    jobs.submit_job(entrypoint="echo free", submission_id="next", entrypoint_resources={"licence": 1})
    assert until(jobs, "next", JobStatus.SUCCEEDED, JobStatus.FAILED) is JobStatus.SUCCEEDED
