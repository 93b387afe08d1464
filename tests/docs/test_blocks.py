"""Every Python block of the documents runs, and prints what the page says; commands in console blocks exist."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.test_main_job import a_free_port

ROOT = Path(__file__).parents[2]
PROGRAM = Path(__file__).with_name("page_program.py")
# These have tests of their own, which look at what the blocks leave behind.
ELSEWHERE = {"README.md", "docs/train.md", "docs/tune.md"}
PAGES = [
    path
    for folder in (".", "docs", "docs/how-to", "benchmarks")
    for path in sorted((ROOT / folder).glob("*.md"))
    if path.relative_to(ROOT).as_posix() not in ELSEWHERE and "```python\n" in path.read_text()
]
COMMANDS = {"cd", "curl", "kill", "pip", "pipx", "py-spy", "python", "docker", "git", "export", "source", "podman"}


def page_name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_the_blocks_of_a_page_are_a_program_that_runs(page: Path, tmp_path: Path) -> None:
    replaced = [f"8000={a_free_port()}", f"/tmp/runs={tmp_path / 'runs'}"]
    done = subprocess.run(
        [sys.executable, str(PROGRAM), str(page), *replaced],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=110,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "SKATE_WAIT_NOTE_SECONDS": "60"},
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-6000:]
    assert done.stdout.startswith("ran ")
