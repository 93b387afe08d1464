"""The main job, as `make demo` runs it, with little text and few steps: what it prints and what it leaves behind."""

from __future__ import annotations

import html
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.conformance.waiting import wait_for

ROOT = Path(__file__).parents[1]
pytestmark = pytest.mark.timeout(300)


def a_free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the job leaves what it makes."""
    return tmp_path_factory.mktemp("job")


def started(folder: Path, *more: str) -> subprocess.Popen[str]:
    """The job, running in a process group of its own; `more` goes to its command line."""
    words = ["--batch-size", "4", "--folder", str(folder), "--port", str(a_free_port()), *more]
    return subprocess.Popen(
        [sys.executable, "-u", str(ROOT / "examples" / "main_job"), *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "COLUMNS": "160"},
        start_new_session=True,
    )


class Ended(NamedTuple):
    """How a process has ended, and what it printed."""

    returncode: int
    stdout: str
    stderr: str


def ended(job: subprocess.Popen[str], seconds: float) -> Ended:
    """Wait for it; all of its group is killed if it takes longer."""
    try:
        printed, complained = job.communicate(timeout=seconds)
    except BaseException:
        os.killpg(job.pid, signal.SIGKILL)
        job.communicate()
        raise
    return Ended(job.returncode, printed, complained)


@pytest.fixture(scope="module")
def output(folder: Path) -> str:
    """The output of the job."""
    picture = ["--record", str(folder / "run.svg")]
    done = ended(started(folder, "--files", "25", "--steps", "40", *picture), 280)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Traceback" not in done.stderr, done.stderr
    return done.stdout


def test_each_stage_is_told_of_in_the_table(output: str) -> None:
    table = output[output.index("From text to an answering model") :]
    assert re.search(r"Data .* documents of [\d.]+ MB, [\d,]+ tokens", table)
    assert re.search(r"Train .* 2 workers, 40 steps, loss [\d.]+ to [\d.]+", table)
    assert re.search(r"Serve .* first token after \d+ ms, \d+ tokens/s", table)


def test_training_shows_a_bar(output: str) -> None:
    assert re.search(r"training ━+ 40/40 steps, loss [\d.]+, [\d,]+ tokens/s", output)


def test_the_model_learns(output: str) -> None:
    found = re.search(r"loss ([\d.]+) to ([\d.]+)", output)
    assert found is not None
    assert float(found[2]) < float(found[1]) - 0.3


def test_the_model_answers_in_pieces(output: str) -> None:
    question = "What does Python's reference say about while?"
    answer = output[output.index(question) + len(question) : output.index("From text to an answering model")]
    # After forty steps it says little of sense, and much of that is white space.
    assert len(answer) > 20 and answer.strip()


def test_what_is_left_behind(output: str, folder: Path) -> None:
    assert (folder / "loss.png").read_bytes().startswith(b"\x89PNG")
    assert list((folder / "text").glob("*.parquet")) and list((folder / "tokens").glob("*.parquet"))
    drawn = html.unescape((folder / "run.svg").read_text()).replace("\xa0", " ")
    assert drawn.startswith("<svg") and "first token after" in drawn and "40/40" in drawn
    assert "http" not in drawn.replace("http://www.w3.org/2000/svg", "").replace(
        "https://www.textualize.io", ""
    )
    checkpoints = list((folder / "runs" / "documentation-gpt").glob("checkpoint_*"))
    assert checkpoints and (checkpoints[0] / "model.safetensors").exists()


@pytest.mark.parametrize("stage", ["Data", "Train"])
def test_ctrl_c_ends_it_at_once_and_whole(stage: str, tmp_path: Path) -> None:
    # That no process is left is what every test here is held to.
    job = started(tmp_path, "--files", "4", "--steps", "100000")
    assert job.stdout is not None
    try:
        while stage not in (line := job.stdout.readline()):
            assert line, f"it ended before it came to {stage}"
        # What a stage prepares in its first moments is left as cleanly as what it does for long.
        os.killpg(job.pid, signal.SIGINT)
    except BaseException:
        os.killpg(job.pid, signal.SIGKILL)
        raise
    finally:
        done = ended(job, 60)
    assert done.returncode == 130, done.stdout + done.stderr
    assert done.stdout.endswith("ended by Ctrl-C\n")
    assert "Traceback" not in done.stderr, done.stderr


def test_ctrl_c_while_libraries_are_imported(tmp_path: Path) -> None:
    job = started(tmp_path)
    try:
        # The first of them that is compiled code; torch comes seconds later.
        wait_for(lambda: "pydantic_core" in Path(f"/proc/{job.pid}/maps").read_text())
    finally:
        os.killpg(job.pid, signal.SIGINT)
        done = ended(job, 60)
    assert (done.returncode, done.stdout, done.stderr) == (130, "\nended by Ctrl-C\n", "")
