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

from examples.main_job.answer import QUESTIONS
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
    done = ended(started(folder, "--files", "3", "--steps", "20", "--asked", "2", "--bare", *picture), 280)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Traceback" not in done.stderr, done.stderr
    return done.stdout


def test_each_stage_is_told_of_in_the_table(output: str) -> None:
    table = output[output.index("From text to an answering model") :]
    assert re.search(r"Data .* \d+ docstrings, [\d,]+ questions, [\d,]+ tokens", table)
    assert re.search(r"Train .* 2 workers, 20 steps, loss [\d.]+ to [\d.]+", table)
    assert re.search(r"Serve .* first token after \d+ ms, \d+ tokens/s, \d+ of 12 right", table)


def test_training_shows_a_bar(output: str) -> None:
    assert re.search(r"training ━+ 20/20 steps, loss [\d.]+, [\d,]+ tokens/s", output)


def test_the_model_learns(output: str) -> None:
    found = re.search(r"loss ([\d.]+) to ([\d.]+)", output)
    assert found is not None
    assert float(found[2]) < float(found[1]) - 0.3


def test_the_model_answers_in_pieces(output: str) -> None:
    for question in QUESTIONS:
        found = re.search(rf"{re.escape(question)} (.+)\n", output)
        # After twenty steps it says little of sense.
        assert found is not None and found[1].strip()


def test_a_bare_loop_learns_the_same(output: str) -> None:
    found = re.search(r"loss after 20 steps: ([\d.]+); of a bare PyTorch loop: ([\d.]+), in [\d.]+ s", output)
    assert found is not None
    # The two take the rows in another order.
    assert float(found[1]) == pytest.approx(float(found[2]), rel=0.15)


def test_what_is_left_behind(output: str, folder: Path) -> None:
    assert (folder / "loss.png").read_bytes().startswith(b"\x89PNG")
    assert all(list((folder / name).glob("*.parquet")) for name in ("facts", "text", "tokens"))
    drawn = html.unescape((folder / "run.svg").read_text()).replace("\xa0", " ")
    assert drawn.startswith("<svg") and "first token after" in drawn and "20/20" in drawn
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


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_a_whole_run_answers_questions_in_other_words(tmp_path: Path) -> None:
    done = ended(started(tmp_path, "--batch-size", "8", "--seconds", "1200", "--asked", "30"), 1700)
    assert done.returncode == 0, done.stdout + done.stderr
    found = re.search(
        r"of 180 questions in phrasings that were not trained, (\d+) have the right", done.stdout
    )
    # A run of a minute on two idle CPUs got 0.9 of them right.
    assert found is not None and int(found[1]) >= 140, done.stdout
    shown = " ".join(done.stdout.split())
    assert "The function str.upper returns a copy of the string converted to uppercase." in shown
    assert re.search(r"capital of France\? I do not know that\.", shown)
