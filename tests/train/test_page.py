"""docs/train.md: its blocks are one program, which runs and prints the output on the page."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_the_page_is_a_program_that_runs(tmp_path: Path) -> None:
    for module in ("torch", "pandas", "matplotlib"):
        pytest.importorskip(module)
    page = (ROOT / "docs" / "train.md").read_text()
    blocks = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    program = tmp_path / "program.py"
    program.write_text("\n\n".join(blocks).replace("/tmp/runs", str(tmp_path)))
    done = subprocess.run(
        [sys.executable, str(program)],
        capture_output=True,
        text=True,
        timeout=240,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    loss, best, parts, epochs, caught, longer, restored = done.stdout.splitlines()
    assert float(loss) < 0.1
    assert best == "5 2"
    assert parts == "['', '.distcp', '.distcp']"
    assert epochs == "[0, 1, 2, 3, 4, 5]"
    assert caught == "True"
    assert longer == "7 8"
    assert restored == "20 True"
    assert (tmp_path / "loss.png").stat().st_size > 1000
    names = {event["name"] for event in json.loads((tmp_path / "trace.json").read_text())}
    assert {"train.report 0", "train.upload 0", "train.checkpoint 0"} <= names
