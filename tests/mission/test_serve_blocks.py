"""The code blocks of the mission's documents that concern Serve, run as written, with a stand-in for vLLM."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


def test_t_5_5_a_pipeline_of_deployments() -> None:
    """000: two replicas of a model with a GPU each, behind a pipeline that answers over HTTP."""
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(HERE / "stand_ins")]),
    }
    environment.pop("CUDA_VISIBLE_DEVICES", None)
    words = [
        HERE / "serve_stage.py",
        HERE / "blocks" / "000_rag_pipeline.py",
        HERE / "then" / "000_rag_check.py",
    ]
    done = subprocess.run(
        [sys.executable, "-m", "skate", "run", *map(str, words)],
        capture_output=True,
        text=True,
        timeout=90,
        env=environment,
        check=False,
    )
    assert done.returncode == 0, f"it ended with status {done.returncode}:\n{done.stdout}\n{done.stderr}"
    assert "the pipeline answered 40 questions" in done.stdout
