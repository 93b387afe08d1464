"""Packages with their own code for Ray's jobs, torchx and dagster-ray, submit to Skate with `import ray` meaning Skate."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.process.programs import SOURCE
from tests.ray_clients.conftest import TOKEN
from tests.ray_clients.ray_programs import ROOT

#: An interpreter that has both packages and what Skate requires; the variable names another one.
PYTHON = Path(os.environ.get("SKATE_JOB_PROGRAMS_PYTHON", ROOT / ".venv-jobs" / "bin" / "python"))
pytestmark = [
    pytest.mark.skipif(
        not PYTHON.exists(), reason=f"no interpreter with torchx at {PYTHON}; `make ray-clients` builds one"
    ),
    pytest.mark.ray_clients,
]

TORCHX = """
import sys, os
import skate.compat
skate.compat.install()
from torchx.schedulers.ray_scheduler import create_scheduler, has_ray
from torchx.specs import AppDef, Resource, Role
from torchx.schedulers.api import AppState

assert has_ray()
from ray.job_submission import JobSubmissionClient

url, image = sys.argv[1:]
scheduler = create_scheduler("session", ray_client=JobSubmissionClient(url))
role = Role(
    name="trainer", image=image, entrypoint="python", args=["work.py", "${replica_id}"], num_replicas=2,
    resource=Resource(cpu=1, gpu=0, memMB=0), env={"COLOUR": "red"},
)
address = url.partition("://")[2]
app = scheduler.schedule(scheduler.submit_dryrun(AppDef("app", [role]), {"dashboard_address": address}))
import time
while scheduler.describe(app).state in (AppState.PENDING, AppState.RUNNING, AppState.SUBMITTED):
    time.sleep(0.1)
print("state", scheduler.describe(app).state.name)
print("listed", app in [each.app_id for each in scheduler.list()])
print("".join(scheduler.log_iter(app, "trainer")))
"""

DAGSTER = """
import sys
import skate.compat
skate.compat.install()
import dagster as dg
from dagster_ray import PipesRayJobClient

url, folder = sys.argv[1:]

@dg.asset
def remote(context: dg.AssetExecutionContext, pipes: PipesRayJobClient):
    return pipes.run(
        context=context,
        submit_job_params={
            "entrypoint": f"{sys.executable} work.py dagster",
            "runtime_env": {"working_dir": folder},
        },
    ).get_materialize_result()

client = PipesRayJobClient(address=url)
done = dg.materialize([remote], resources={"pipes": client})
print("success", done.success)
"""
WORK = """
import os, ray, sys
print("works", ray.__name__, sys.argv[1], os.environ.get("COLOUR"))
if "DAGSTER_PIPES_CONTEXT" in os.environ:
    from dagster_pipes import open_dagster_pipes
    with open_dagster_pipes() as pipes:
        pipes.log.info("from the job")
        pipes.report_asset_materialization(metadata={"rows": 3})
"""


def run(text: str, url: str, folder: Path, home: Path) -> str:
    """Run a program; return its output."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("RAY_", "SKATE_"))}
    env = {**kept, "PYTHONPATH": SOURCE, "RAY_AUTH_TOKEN": TOKEN, "DAGSTER_HOME": str(home)}
    done = subprocess.run(
        [str(PYTHON), "-c", text, url, str(folder)],
        env=env, cwd=home, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=100,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """Return a folder with the program of a job."""
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "work.py").write_text(WORK)
    return folder


def test_torchx_schedules_an_app(url: str, work: Path, tmp_path: Path) -> None:
    printed = run(TORCHX, url, work, tmp_path)
    assert "state SUCCEEDED" in printed and "listed True" in printed


def test_dagster_runs_an_asset_as_a_job(url: str, work: Path, tmp_path: Path) -> None:
    printed = run(DAGSTER, url, work, tmp_path)
    assert "success True" in printed and "works skate dagster" in printed
    assert "from the job" in printed, "a message of the job to dagster"
