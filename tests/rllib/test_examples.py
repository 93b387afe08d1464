"""The examples of RLlib run and print what they promise; `make test-long` runs them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "last"),
    [
        ("cartpole", "saved to"),
        ("own_module", "mean return"),
        ("search", "return without exploration"),
        ("serve_policy", "the untrained policy held the pole"),
    ],
)
def test_an_example_runs(name: str, last: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", str(ROOT / "examples" / "rllib" / f"{name}.py")],
        capture_output=True,
        text=True,
        timeout=200,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].startswith(last)
