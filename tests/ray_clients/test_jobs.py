"""`ray job` and `JobSubmissionClient` of real Ray submit, watch and end jobs of Skate."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.ray_clients.ray_programs import WITHOUT, Client

pytestmark = [WITHOUT, pytest.mark.ray_clients]


def test_ray_job_from_submit_to_delete(client: Client, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text("import ray\nprint(ray.__name__, open('data.txt').read())\n")
    (tmp_path / "data.txt").write_text("a file beside it")
    done = client.ray(
        "job", "submit", "--submission-id", "good", "--working-dir", str(tmp_path), "--metadata-json", '{"team": "a"}',
        "--entrypoint-num-cpus", "1", "--", "python", "program.py",
    )  # fmt: skip
    assert "Job 'good' submitted successfully" in done.stderr + done.stdout
    assert "skate a file beside it" in done.stdout + done.stderr
    assert "Job 'good' succeeded" in done.stderr + done.stdout
    bad = client.ray(
        "job", "submit", "--submission-id", "bad", "--", "sh", "-c", "echo out; exit 3", check=False
    )
    assert bad.returncode == 1 and "Job 'bad' failed" in bad.stdout + bad.stderr
    again = client.ray("job", "submit", "--submission-id", "bad", "--", "true", check=False)
    assert again.returncode == 1 and "already exists" in again.stdout + again.stderr
    status = client.ray("job", "status", "bad")
    assert "exit code 3" in status.stdout + status.stderr
    assert "skate a file beside it" in "".join(client.ray("job", "logs", "good").stdout)
    followed = client.ray("job", "logs", "--follow", "good")
    assert (
        "skate a file beside it" in followed.stdout
        and "Job 'good' succeeded" in followed.stdout + followed.stderr
    )
    client.ray("job", "submit", "--no-wait", "--submission-id", "long", "--", "sleep", "1000")
    stopped = client.ray("job", "stop", "long")
    assert "Job 'long' was stopped" in stopped.stdout + stopped.stderr
    listed = client.ray("job", "list")
    for job in ("good", "bad", "long"):
        assert f"submission_id='{job}'" in listed.stdout + listed.stderr
    deleted = client.ray("job", "delete", "good")
    assert "Job 'good' deleted successfully" in deleted.stdout + deleted.stderr
    gone = client.ray("job", "status", "good", check=False)
    assert gone.returncode == 1 and "does not exist" in gone.stdout + gone.stderr


SDK = """
import asyncio

job = client.submit_job(
    entrypoint="echo $COLOUR; exit 4", runtime_env={"env_vars": {"COLOUR": "red"}}, metadata={"a": "b"}, submission_id="sdk"
)

async def follow():
    return "".join([text async for text in client.tail_job_logs(job)])

text = asyncio.run(follow())
info = client.get_job_info(job)
errors = []
for ask in (client.get_job_info, client.stop_job, client.delete_job, client.get_job_logs):
    try:
        ask("nothing")
    except RuntimeError as error:
        errors.append("404" in str(error))
found = {
    "job": job, "text": text, "same": text == client.get_job_logs(job), "status": info.status.value, "metadata": info.metadata,
    "code": info.driver_exit_code, "type": info.type.value, "error": info.error_type, "times": info.start_time <= info.end_time,
    "env": info.runtime_env, "errors": errors, "version": client.get_version(), "address": client.get_address() == url,
    "listed": [each.submission_id for each in client.list_jobs()], "deleted": client.delete_job(job),
    "stopped": client.stop_job(client.submit_job(entrypoint="sleep 1000")),
}
"""


def test_the_sdk_reads_each_field(client: Client) -> None:
    found = client.sdk(SDK)
    assert found["text"] == "Running entrypoint for job sdk: echo $COLOUR; exit 4\nred\n"
    assert "sdk" in found.pop("listed") and found.pop("version") == "4"
    assert found == {
        "job": "sdk", "text": found["text"], "same": True, "status": "FAILED", "metadata": {"a": "b"}, "code": 4,
        "type": "SUBMISSION", "error": "JOB_ENTRYPOINT_COMMAND_ERROR", "times": True, "address": True,
        "env": {"env_vars": {"COLOUR": "red"}}, "errors": [True] * 4, "deleted": True, "stopped": True,
    }  # fmt: skip


def test_without_the_token_nothing_runs(client: Client, tmp_path: Path) -> None:
    thief = Client(client.url, "a-wrong-token", tmp_path)
    done = thief.ray("job", "submit", "--", "touch", str(tmp_path / "stolen"), check=False)
    assert done.returncode != 0 and "token" in (done.stdout + done.stderr).lower()
    assert not (tmp_path / "stolen").exists()
