"""The main job, as `make demo` runs it, with little text and few steps: what it prints and what it leaves behind."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

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


@pytest.fixture(scope="module")
def said(folder: Path) -> str:
    """What the job prints."""
    words = [
        "--files",
        "25",
        "--steps",
        "40",
        "--batch-size",
        "4",
        "--folder",
        str(folder),
        "--port",
        str(a_free_port()),
    ]
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / "main_job"), *words],
        capture_output=True,
        text=True,
        timeout=280,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "COLUMNS": "160"},
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Traceback" not in done.stderr, done.stderr
    return done.stdout


def test_each_stage_is_told_of_in_the_table(said: str) -> None:
    table = said[said.index("From text to an answering model") :]
    assert re.search(r"Data .* documents of [\d.]+ MB, [\d,]+ tokens", table)
    assert re.search(r"Train .* 2 workers, 40 steps, loss [\d.]+ to [\d.]+", table)
    assert re.search(r"Serve .* first token after \d+ ms, \d+ tokens/s", table)


def test_the_model_learns(said: str) -> None:
    found = re.search(r"loss ([\d.]+) to ([\d.]+)", said)
    assert found is not None
    assert float(found[2]) < float(found[1]) - 0.3


def test_the_model_answers_in_pieces(said: str) -> None:
    question = "What does Python's reference say about while?"
    answer = said[said.index(question) + len(question) : said.index("From text to an answering model")]
    assert len(answer.strip()) > 20


def test_what_is_left_behind(said: str, folder: Path) -> None:
    assert (folder / "loss.png").read_bytes().startswith(b"\x89PNG")
    assert list((folder / "text").glob("*.parquet")) and list((folder / "tokens").glob("*.parquet"))
    checkpoints = list((folder / "runs" / "documentation-gpt").glob("checkpoint_*"))
    assert checkpoints and (checkpoints[0] / "model.safetensors").exists()
