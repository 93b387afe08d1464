"""The folder and the modules of a job reach its tasks on other machines, which have neither its files nor its packages."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from skate.job_submission import JobStatus, JobSubmissionClient
from tests.process.programs import MARK, SOURCE
from tests.process.test_standing_clusters import MEMBER_IP, Pair

pytest.importorskip("distributed")
pytest.importorskip("cryptography")

PROGRAM = f"""
import os
import ray

ray.init()

@ray.remote(resources={{"node:{MEMBER_IP}": 0.001}})
def look():
    import extra, neighbour
    return neighbour.WHO, extra.WHO, open("data.txt").read(), os.environ["COLOUR"], os.getcwd()

*found, folder = ray.get(look.remote())
assert os.listdir(folder), "one machine plays both, so the folder of the other is here to see"
print("found", *found, folder == os.getcwd(), ray.get_runtime_context().runtime_env["working_dir"][:15])
"""


def test_a_job_has_its_folder_on_other_machines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    work, modules = tmp_path / "work", tmp_path / "modules" / "extra"
    for folder in (work, modules):
        folder.mkdir(parents=True)
    (work / "program.py").write_text(PROGRAM)
    (work / "neighbour.py").write_text("WHO = 'neighbour'\n")
    (work / "data.txt").write_text("data")
    (modules / "__init__.py").write_text("WHO = 'extra'\n")
    pair = Pair(tmp_path)
    for name in ("SKATE_ADDRESS", "RAY_ADDRESS"):
        monkeypatch.delenv(name, raising=False)
    try:
        monkeypatch.setenv("SKATE_CACHE_DIR", str(tmp_path / "cache of the head"))
        pair.head.start("--port", "0", "--node-ip-address", "127.0.0.1")
        monkeypatch.setenv("SKATE_CACHE_DIR", str(tmp_path / "cache of the member"))
        pair.join()
        monkeypatch.setenv("SKATE_CACHE_DIR", str(tmp_path / "cache of the client"))
        monkeypatch.setenv("SKATE_TMPDIR", str(pair.head.folder))
        monkeypatch.setenv("PYTHONPATH", SOURCE)
        monkeypatch.setenv(MARK, pair.head.mark)
        jobs = JobSubmissionClient()
        job = jobs.submit_job(
            entrypoint="python program.py",
            runtime_env={
                "working_dir": str(work), "py_modules": [str(modules)], "env_vars": {"COLOUR": "red"}
            },
        )  # fmt: skip

        async def follow() -> str:
            return "".join([text async for text in jobs.tail_job_logs(job)])

        text = asyncio.run(follow())
        assert jobs.get_job_status(job) is JobStatus.SUCCEEDED, text
        assert "found neighbour extra data red False gcs://_ray_pkg_" in text
        assert list((tmp_path / "cache of the member").rglob("neighbour.py"))
    finally:
        pair.member.kill()
        pair.head.kill()
