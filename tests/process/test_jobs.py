"""Submitted jobs as real processes: their output, their end, and that nothing of them runs on, whatever is killed."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import skate
from skate.job_submission import JobStatus, JobSubmissionClient
from skate.util import state
from tests.conformance.waiting import wait_for
from tests.process.programs import MARK, SOURCE
from tests.process.standing import Node

TOKEN = "the-token-for-everything"
#: Ends by no signal but SIGKILL, and has left the process group.
STUBBORN = "trap '' TERM; echo ready; setsid sleep 1000 & sleep 1001; sleep 1002"


@pytest.fixture
def client(node: Node, monkeypatch: pytest.MonkeyPatch) -> Callable[..., JobSubmissionClient]:
    """Start the node, and connect with it in the way of a test."""
    for name in ("SKATE_ADDRESS", "RAY_ADDRESS", "RAY_AUTH_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SKATE_TMPDIR", str(node.folder))
    monkeypatch.setenv("PYTHONPATH", SOURCE)
    monkeypatch.setenv(MARK, node.mark)

    def start(*flags: str) -> JobSubmissionClient:
        node.start(*flags, cpus=2)
        return JobSubmissionClient()

    return start


@contextlib.contextmanager
def server(node: Node) -> Iterator[subprocess.Popen[str]]:
    """Run the dashboard of a node; its address is in the attribute `args`."""
    command = [sys.executable, "-m", "skate.dashboard", "--json", "--jobs", "--port", "0"]
    env = {**os.environ, **node.environment, MARK: node.mark, "PYTHONPATH": SOURCE, "RAY_AUTH_TOKEN": TOKEN}
    with subprocess.Popen(
        command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        facts = json.loads(process.stdout.readline())
        process.args = [facts["url"], facts["read_token"]]
        try:
            yield process
        finally:
            process.kill()


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def followed(client: JobSubmissionClient, job: str) -> str:
    async def gather() -> str:
        return "".join([text async for text in client.tail_job_logs(job)])

    return asyncio.run(gather())


def until(client: JobSubmissionClient, job: str, *wanted: JobStatus) -> JobStatus:
    wait_for(lambda: client.get_job_status(job) in wanted, what=f"{job} to be {wanted}")
    return client.get_job_status(job)


def until_said(client: JobSubmissionClient, job: str, text: str) -> None:
    wait_for(lambda: text in client.get_job_logs(job), what=f"{job} to say {text!r}")


def arguments(pid: int) -> list[bytes]:
    """Return the command line of a process, empty if it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return []


def is_of_job(text: str) -> bool:
    return "sleep 100" in text or "job_submission" in text


def nothing_runs_on(node: Node) -> None:
    wait_for(
        lambda: not [text for text in node.processes().values() if is_of_job(text)],
        10,
        "the end of all processes of jobs",
    )


PROGRAM = """
import os, sys
import ray
import neighbour
ray.init()

@ray.remote
def task():
    import neighbour
    return neighbour.__name__, os.environ["COLOUR"]

assert ray.__name__ == "skate"
print("program", sys.argv[1:], neighbour.__name__, *ray.get(task.remote()), ray.get_runtime_context().runtime_env["env_vars"])
os.system("python -c 'import ray.util; print(\\"child\\", ray.util.__name__)'")
"""


def check_failures(client: JobSubmissionClient) -> None:
    """Look at a command that fails, and at an environment that cannot be made."""
    failed = client.submit_job(entrypoint="echo out; echo err >&2; exit 7")
    assert "out\nerr\n" in followed(client, failed)
    details = client.get_job_info(failed)
    assert details.status is JobStatus.FAILED and details.driver_exit_code == 7
    assert details.error_type == "JOB_ENTRYPOINT_COMMAND_ERROR" and "exit code 7" in (details.message or "")
    assert "out\nerr\n" in (details.message or "")
    broken = client.submit_job(entrypoint="true", runtime_env={"working_dir": "file:///no/such.zip"})
    assert until(client, broken, JobStatus.FAILED, JobStatus.SUCCEEDED) is JobStatus.FAILED
    assert client.get_job_info(broken).error_type == "RUNTIME_ENV_SETUP_FAILURE"


def look_over_http(url: str, text: str) -> None:
    """Look at a job with the token that reads, as the functions of the state API do."""
    (row,) = state.list_jobs(url, [("submission_id", "=", "here")], detail=True)
    assert row["runtime_env"]["env_vars"] == {"COLOUR": "***"} and row["status"] == "SUCCEEDED"
    assert "".join(state.get_log(url, submission_id="here", follow=True)) == text


def test_a_job_from_a_folder_to_its_end(
    node: Node, client: Callable[..., JobSubmissionClient], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    local = client()
    work = tmp_path / "work"
    work.mkdir()
    (work / "program.py").write_text(PROGRAM)
    (work / "neighbour.py").touch()
    env = {"working_dir": str(work), "env_vars": {"COLOUR": "red"}}
    with server(node) as process:
        url, read_token = process.args  # type: ignore[misc]
        remote = JobSubmissionClient(url, headers=bearer(TOKEN), metadata={"by": "http"})
        for each, job in ((local, "here"), (remote, "there")):
            assert each.get_version() == "4" and each.list_jobs() == local.list_jobs()
            asked: dict[str, Any] = {"submission_id": job, "runtime_env": env, "metadata": {"who": job}}
            assert each.submit_job(entrypoint="python program.py 3", **asked) == job
            text = followed(each, job)
            details = each.get_job_info(job)
            assert details.status is JobStatus.SUCCEEDED, text
            assert text == each.get_job_logs(job)
            assert text.startswith(f"Running entrypoint for job {job}: python program.py 3\n")
            assert (
                "program ['3'] neighbour neighbour red {'COLOUR': 'red'}" in text
                and "child skate.util" in text
            )
            assert details.message == "Job finished successfully." and details.driver_exit_code == 0
            assert details.metadata == ({"who": job} if each is local else {"who": job, "by": "http"})
            assert details.driver_info is not None and details.job_id == details.driver_info.id
            assert (details.runtime_env or {})["working_dir"].startswith("gcs://_ray_pkg_")
            assert (details.start_time or 0) <= (details.end_time or 0)
            assert each.get_job_info(details.job_id or "").submission_id == job
            with pytest.raises(RuntimeError, match="status code 400.*already exists"):
                each.submit_job(entrypoint="true", submission_id=job)
            for ask in (each.get_job_info, each.get_job_logs, each.stop_job, each.delete_job):
                with pytest.raises(RuntimeError, match="status code 404.*does not exist"):
                    ask("nothing")
            with pytest.raises(RuntimeError, match="404"):
                followed(each, "nothing")
            check_failures(each)
        reader = JobSubmissionClient(url, headers=bearer(read_token))
        assert (reader.get_job_info("here").runtime_env or {})["env_vars"] == {"COLOUR": "***"}
        with monkeypatch.context() as patch:
            patch.setenv("RAY_AUTH_TOKEN", read_token)
            look_over_http(url, local.get_job_logs("here"))
        with pytest.raises(skate.exceptions.AuthenticationError, match="the token is for read"):
            reader.submit_job(entrypoint="true")
        assert remote.delete_job("here") is True
        assert "here" not in [each.submission_id for each in local.list_jobs()]
    nothing_runs_on(node)
    node.stop()
    assert not node.folder.exists()


def test_stop_ends_every_process_of_a_job(node: Node, client: Callable[..., JobSubmissionClient]) -> None:
    jobs = client("--resources", '{"licence": 1}')
    stubborn = jobs.submit_job(
        entrypoint=STUBBORN, runtime_env={"env_vars": {"RAY_JOB_STOP_WAIT_TIME_S": "0.3"}},
        entrypoint_resources={"licence": 1},
    )  # fmt: skip
    until_said(jobs, stubborn, "\nready\n")
    waiting = jobs.submit_job(entrypoint="echo never", entrypoint_resources={"licence": 1})
    wait_for(lambda: "licence" in (jobs.get_job_info(waiting).message or ""), what="the reason why it waits")
    assert jobs.get_job_status(waiting) is JobStatus.PENDING
    with pytest.raises(RuntimeError, match="non-terminal state PENDING"):
        jobs.delete_job(waiting)
    assert jobs.stop_job(waiting) is True
    assert until(jobs, waiting, JobStatus.STOPPED) and jobs.get_job_logs(waiting) == ""
    assert jobs.stop_job(waiting) is False
    never = jobs.submit_job(entrypoint="true", entrypoint_num_cpus=1000)
    until(jobs, never, JobStatus.FAILED)
    assert "1000" in (jobs.get_job_info(never).message or "")
    assert jobs.get_job_info(never).error_type == "JOB_SUPERVISOR_ACTOR_UNSCHEDULABLE"
    assert jobs.stop_job(stubborn) is True
    until(jobs, stubborn, JobStatus.STOPPED)
    nothing_runs_on(node)
    polite = jobs.submit_job(
        entrypoint="trap 'echo bye; exit 0' TERM; echo ready; while :; do sleep 0.01; done"
    )
    until_said(jobs, polite, "\nready\n")
    jobs.stop_job(polite)
    until(jobs, polite, JobStatus.STOPPED)
    assert (
        "\nbye\n" in jobs.get_job_logs(polite)
        and jobs.get_job_info(polite).message == "Job was intentionally stopped."
    )


def test_whatever_is_killed_nothing_runs_on(node: Node, client: Callable[..., JobSubmissionClient]) -> None:
    jobs = client("--resources", '{"licence": 1}')

    def supervisors(job: str) -> list[int]:
        """Return the supervisor and the process between it and the command."""
        return sorted(pid for pid in node.processes() if job.encode() in arguments(pid))

    for victim in (0, 1):
        job = f"running{victim}"
        jobs.submit_job(entrypoint=STUBBORN, submission_id=job)
        until_said(jobs, job, "\nready\n")
        assert len(supervisors(job)) == 2
        os.kill(supervisors(job)[victim], signal.SIGKILL)
        until(jobs, job, JobStatus.FAILED)
        details = jobs.get_job_info(job)
        assert details.error_type == "JOB_SUPERVISOR_ACTOR_DIED" and "killed" in (details.message or "")
        nothing_runs_on(node)
    jobs.submit_job(entrypoint="sleep 1003", submission_id="holder", entrypoint_resources={"licence": 1})
    until(jobs, "holder", JobStatus.RUNNING)
    jobs.submit_job(entrypoint="sleep 1004", submission_id="pending", entrypoint_resources={"licence": 1})
    wait_for(lambda: len(supervisors("pending")) == 2, what="both processes")
    os.kill(supervisors("pending")[0], signal.SIGKILL)
    until(jobs, "pending", JobStatus.FAILED)
    wait_for(lambda: not supervisors("pending"), what="the end of both")
    # The resources of what was killed are free again.
    jobs.stop_job("holder")
    jobs.submit_job(entrypoint="echo free", submission_id="next", entrypoint_resources={"licence": 1})
    assert until(jobs, "next", JobStatus.SUCCEEDED, JobStatus.FAILED) is JobStatus.SUCCEEDED
    # Neither the client nor the server matters to a job.
    with server(node) as process:
        url = process.args[0]  # type: ignore[index]
        remote = JobSubmissionClient(url, headers=bearer(TOKEN))
        remote.submit_job(entrypoint=STUBBORN, submission_id="alone")
        until_said(remote, "alone", "\nready\n")
        process.kill()
        process.wait()
        with pytest.raises(ConnectionError, match="Failed to connect"):
            remote.get_job_status("alone")
    assert jobs.get_job_status("alone") is JobStatus.RUNNING
    os.kill(node.pid, signal.SIGKILL)
    nothing_runs_on(node)
    with pytest.raises(ConnectionError, match="skate start --head"):
        JobSubmissionClient()


def test_the_command_line_and_its_exit_codes(node: Node, client: Callable[..., JobSubmissionClient]) -> None:
    jobs = client()
    done = node.command(
        "job",
        "submit",
        "--submission-id",
        "good",
        "--metadata-json",
        '{"a": "b"}',
        "--",
        "echo",
        "a b",
        "--no-wait",
    )
    assert "Job 'good' submitted successfully" in done.stdout and "\na b --no-wait\n" in done.stdout
    assert "Job 'good' succeeded" in done.stdout and jobs.get_job_info("good").metadata == {"a": "b"}
    assert node.command("job", "submit", "--submission-id", "bad", "false", check=False).returncode == 1
    assert "Job 'bad' failed" in node.command("job", "status", "bad").stdout
    assert node.command("job", "logs", "good").stdout.endswith("\na b --no-wait\n")
    assert "Job 'good' succeeded" in node.command("job", "logs", "-f", "good").stdout
    # A hook that fails prevents the job, and so do headers that cannot be read.
    prevented = node.command("job", "submit", "true", check=False, RAY_JOB_SUBMIT_HOOK="builtins.print")
    assert prevented.returncode == 1 and "'address' is an invalid keyword argument" in prevented.stderr
    prevented = node.command("job", "submit", "true", check=False, RAY_JOB_HEADERS="{key value}")
    assert prevented.returncode == 1 and "is not a valid JSON string" in prevented.stderr
    node.command("job", "submit", "--no-wait", "-v", "--submission-id", "long", "--", "sleep", "1000")
    assert "was stopped" in node.command("job", "stop", "long").stdout
    assert "submission_id='long'" in node.command("job", "list").stdout
    assert "SUBMISSION" in node.command("list", "jobs", "--filter", "submission_id=long").stdout
    assert "exit code 1" in node.command("get", "jobs", "bad").stdout
    files = node.command("logs").stdout
    assert "job-driver-good.log" in files and "job-driver-long.log" in files
    assert node.command("logs", "job-driver-good.log", "--tail", "1").stdout.endswith("\na b --no-wait\n")
    node.command("job", "delete", "long")
    gone = node.command("job", "status", "long", check=False)
    assert gone.returncode == 1 and "does not exist" in gone.stderr
    # A node that is stopped has no jobs left when the command returns.
    jobs.submit_job(entrypoint=STUBBORN, submission_id="last")
    until_said(jobs, "last", "\nready\n")
    node.stop()
    assert not [text for text in node.processes().values() if is_of_job(text)]


def test_a_session_inside_a_program_takes_no_jobs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SKATE_TMPDIR", str(tmp_path / "none"))
    skate.init(num_cpus=1, object_store_memory=10**8, log_to_driver=False)
    try:
        with pytest.raises(ConnectionError, match="skate start --head"):
            JobSubmissionClient()
    finally:
        skate.shutdown()
