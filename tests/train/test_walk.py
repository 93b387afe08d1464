"""SIGKILL of a worker, of all workers and of the driver at every phase of a checkpoint: the run continues with nothing lost."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.timeout(120)

PROGRAM = Path(__file__).parent / "walking.py"
#: The phases of a worker's part, and those of the driver's, with the step that the run continues with after each.
UPLOADING = ("before upload", "during upload", "after upload")
COMMITTING = {
    "before manifest": 2,
    "after manifest": 3,
    "before journal": 3,
    "after journal": 3,
    "during deletion": 3,
    "after deletion": 3,
}
SERVER = """
import logging
logging.getLogger("werkzeug").setLevel(logging.ERROR)
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
server.start()
print(server.get_host_and_port()[1], flush=True)
input()
server.stop()
"""


@pytest.fixture(scope="module")
def s3() -> Iterator[str]:
    pytest.importorskip("moto.server", reason="the S3 tests need moto[server]")
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", SERVER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    with process:
        assert process.stdout is not None and process.stdin is not None
        port = next(line for line in process.stdout if line.strip().isdigit())
        yield f"127.0.0.1:{int(port)}"
        process.stdin.close()
        process.wait(10)


def run(place: str, marks: Path, phase: str, victim: str) -> Any:
    """Start the program; return its output, or None if it was killed."""
    done = subprocess.run(
        [sys.executable, str(PROGRAM), place, str(marks), phase, victim],
        capture_output=True,
        text=True,
        timeout=60,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    if done.returncode == -signal.SIGKILL:
        return None
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def walk(place: str, marks: Path, phase: str, victim: str, goes_on_with: int) -> None:
    """Run to the kill, continue, and look at what there is."""
    marks.mkdir()
    found = run(place, marks, phase, victim)
    died = victim in ("driver", "controller")
    assert (found is None) is died, (
        "the program ends if its own process is killed, and else continues by itself"
    )
    if died:
        found = run(place, marks, phase, victim)
    starts = [int(line) for line in (marks / "starts").read_text().split()]
    assert starts == [0, goes_on_with]
    assert found["steps"] == [0, 1, 2, 3, 4], "every step was reported once"
    assert [step for _, step, _ in found["kept"]] == [3, 4]
    for _, step, contents in found["kept"]:
        names = ["more-0", "more-1", "rank-0", "rank-1", "step"]
        assert contents == dict.fromkeys(names, str(step)), "files of both ranks, of this step"
    kept = [name for name, _, _ in found["kept"]]
    reported = [name for event, name in found["events"] if event == "report"]
    deleted = [name for event, name in found["events"] if event == "deleted"]
    assert len(reported) == len(set(reported)) == 5
    assert reported == deleted + kept, "what was reported was deleted in its order, or is there"
    beside = {"journal.jsonl", ".owner"} if os.path.isabs(place) else {"journal"}
    assert set(found["left"]) == {*kept, *beside}, "nothing half is left"


@pytest.mark.parametrize("victim", ["one", "all", "driver"])
@pytest.mark.parametrize("phase", UPLOADING)
def test_a_kill_while_ranks_write(phase: str, victim: str, tmp_path: Path) -> None:
    walk(str(tmp_path / "storage"), tmp_path / "marks", phase, victim, 2)


@pytest.mark.parametrize("phase", COMMITTING)
def test_a_kill_while_the_controller_commits(phase: str, tmp_path: Path) -> None:
    walk(str(tmp_path / "storage"), tmp_path / "marks", phase, "controller", COMMITTING[phase])


@pytest.mark.parametrize(
    ("phase", "victim"),
    [
        ("during upload", "one"),
        ("during upload", "driver"),
        ("after upload", "all"),
        *((phase, "controller") for phase in COMMITTING),
    ],
)
def test_the_same_on_an_object_store(phase: str, victim: str, s3: str, tmp_path: Path) -> None:
    # A server of its own for each would take a second: a folder of its own does as well.
    place = s3
    _empty(place)
    walk(place, tmp_path / "marks", phase, victim, COMMITTING.get(phase, 2))


def _empty(endpoint: str) -> None:
    from http.client import HTTPConnection  # moto's own way to forget everything

    host, _, port = endpoint.partition(":")
    connection = HTTPConnection(host, int(port))
    connection.request("POST", "/moto-api/reset")
    connection.getresponse().read()
    connection.close()
