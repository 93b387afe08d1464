"""Every code block of the mission's documents that concerns Data, run as written, also those that Ray 2.60 refuses.

`data_stage.py` puts local files in the place of buckets; see `test_core_blocks.py` for the rest.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]

pytest.importorskip("pyarrow", reason="Data stands on Arrow")


def perform(block: str, then: str) -> str:
    """Run a block and what checks it under ``skate run``; returns what it printed."""
    paths = [str(HERE / "data_stage.py"), str(HERE / "blocks" / block), str(HERE / "then" / then)]
    done = subprocess.run(
        [sys.executable, "-m", "skate", "run", *paths],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(HERE / "stand_ins")])},
        check=False,
    )
    assert done.returncode == 0, f"{block} ended with status {done.returncode}:\n{done.stdout}\n{done.stderr}"
    return done.stdout


def test_t_5_4_streaming_pipeline() -> None:
    """000: a two-dimensional array set as a column of a frame, and a text column left in batches of tensors."""
    pytest.importorskip("torch", reason="the block iterates over tensors")
    output = perform("000_streaming_pipeline.py", "000_streaming_check.py")
    assert "torch.Size([8, 512])" in output
    assert "all rows arrived with their tokens" in output


def test_streaming_preprocessing() -> None:
    """003: text and labels in the batches of a train function's loop, ten epochs."""
    pytest.importorskip("torch", reason="the block iterates over tensors")
    assert "ten epochs of 150 rows" in perform("003_streaming_preprocessing.py", "003_streaming_check.py")


def test_datasets_from_items() -> None:
    """004: rows of another library as items."""
    assert "datasets of both parts" in perform("004_datasets_from_items.py", "004_datasets_check.py")
