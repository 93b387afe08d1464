"""Skate's job client and command line on a real Ray, whose head this starts."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from skate.job_submission import JobStatus, JobSubmissionClient
from tests.conformance.waiting import wait_for
from tests.process.programs import MARK, SOURCE, marked
from tests.ray_clients.ray_programs import PYTHON, RAY, WITHOUT, environment

pytestmark = [WITHOUT, pytest.mark.ray_clients]
START_S = 90.0


def free_ports(count: int) -> list[int]:
    """Return ports that were free just now, below those that the kernel gives away."""
    found: list[int] = []
    for port in range(21000 + os.getpid() % 1000 * 10, 32000):
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            found.append(port)
        if len(found) == count:
            return found
    raise OSError("no free ports")


@pytest.fixture(scope="module")
def ray_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Start a head of real Ray with its server."""
    folder = Path(f"/tmp/skate-ray-{os.getpid()}")  # Ray's sockets need a short path
    folder.mkdir()
    mark = uuid.uuid4().hex
    env = environment(RAY_AUTH_MODE="disabled", **{MARK: mark})
    del env["SKATE_TEST_RUN"]  # Ray starts workers at any time, also after a test
    gcs, client, agent, dashboard, *workers = free_ports(5)
    process = subprocess.Popen(
        [str(PYTHON), "-c", RAY, "start", "--head", "--block", "--port", str(gcs), "--ray-client-server-port", str(client),
         "--dashboard-agent-listen-port", str(agent), "--dashboard-port", str(dashboard),
         "--min-worker-port", str(workers[0] + 1),
         "--max-worker-port", str(workers[0] + 60), "--num-cpus", "2", "--include-dashboard", "true",
         "--object-store-memory", "100000000", "--temp-dir", str(folder)],
        env=env, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    url = f"http://127.0.0.1:{dashboard}"

    def answers() -> bool:
        assert process.poll() is None, process.stdout and process.stdout.read()
        with contextlib.suppress(ConnectionError):
            JobSubmissionClient(url)
            return True
        return False

    try:
        wait_for(answers, START_S, "Ray's server")
        yield url
    finally:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(20)
        for pid in marked(mark):  # its workers and monitors have sessions of their own
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.wait()
        assert process.stdout is not None
        process.stdout.close()
        wait_for(lambda: not marked(mark), 30, "the end of Ray")
        shutil.rmtree(folder)


def test_skates_client_runs_a_job_on_ray(ray_url: str, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(
        "import ray\nray.init()\n"
        "print(ray.__name__, ray.get(ray.remote(lambda: open('data.txt').read()).remote()))\n"
    )
    (tmp_path / "data.txt").write_text("a file beside it")
    client = JobSubmissionClient(ray_url)
    job = client.submit_job(
        entrypoint=f"{PYTHON} program.py", submission_id="skates", metadata={"team": "a"},
        runtime_env={"working_dir": str(tmp_path), "env_vars": {"COLOUR": "red"}},
    )  # fmt: skip

    async def follow() -> str:
        return "".join([text async for text in client.tail_job_logs(job)])

    text = asyncio.run(follow())
    details = client.get_job_info(job)
    assert details.status is JobStatus.SUCCEEDED, text
    assert "ray a file beside it" in text and "ray a file beside it" in client.get_job_logs(job)
    assert details.metadata == {"team": "a"} and details.driver_info is not None
    assert (details.runtime_env or {})["env_vars"] == {"COLOUR": "red"}
    assert job in [each.submission_id for each in client.list_jobs()]
    with pytest.raises(RuntimeError, match="already exists"):
        client.submit_job(entrypoint="true", submission_id=job)
    for ask in (client.get_job_info, client.get_job_logs, client.stop_job, client.delete_job):
        with pytest.raises(RuntimeError, match="404"):
            ask("nothing")
    long = client.submit_job(entrypoint="sleep 1000")
    wait_for(lambda: client.get_job_status(long) is JobStatus.RUNNING, 60, "the job to run")
    assert client.stop_job(long) is True
    wait_for(lambda: client.get_job_status(long) is JobStatus.STOPPED, 30, "the end of the job")
    assert client.delete_job(job) is True


def test_skates_command_line_on_ray(ray_url: str) -> None:
    def skate(*words: str) -> subprocess.CompletedProcess[str]:
        env = {**environment(), "PYTHONPATH": SOURCE}
        return subprocess.run(
            [sys.executable, "-m", "skate", *words],
            env=env,
            capture_output=True,
            text=True,
            timeout=60,
            cwd="/",
        )

    done = skate("job", "submit", "--address", ray_url, "--submission-id", "cli", "--", "echo", "hello")
    assert done.returncode == 0 and "\nhello\n" in done.stdout and "Job 'cli' succeeded" in done.stdout
    assert "cli" in skate("job", "list", "--address", ray_url).stdout
    assert "hello" in skate("job", "logs", "--address", ray_url, "cli").stdout
    failed = skate("job", "submit", "--address", ray_url, "--", "sh", "-c", "exit 3")
    assert failed.returncode == 1
    nodes = skate("list", "nodes", "--address", ray_url).stdout
    assert re.search(r"Total: 1\b", nodes) and "ALIVE" in nodes
    jobs = skate("list", "jobs", "--address", ray_url).stdout
    assert "cli" in jobs and "SUCCEEDED" in jobs
