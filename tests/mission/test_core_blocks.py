"""Every code block of the mission's documents that concerns Core, run as written.

The blocks lie in ``blocks/`` as the documents print them (indentation restored where the text lost it, line
numbers removed). What they need from outside is in ``stand_ins/``; ``stage.py`` runs one, and ``then/`` holds
code that continues in the block's own namespace to check what it left there. The blocks for Data are in
`test_data_blocks.py`; those for Train and Serve come with these libraries.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


def perform(block: str, then: str, *, record: Path | None = None) -> str:
    """Run a block and what checks it under ``skate run``; returns what it printed."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(HERE / "stand_ins")]),
        "STAND_IN_RECORD": str(record),
    }
    # An outer run may have been given devices or a token of its own; the blocks start from none.
    for name in ("CUDA_VISIBLE_DEVICES", "HF_TOKEN"):
        environment.pop(name, None)
    words = [
        "-m",
        "skate",
        "run",
        str(HERE / "stage.py"),
        str(HERE / "blocks" / block),
        str(HERE / "then" / then),
    ]
    done = subprocess.run(
        [sys.executable, *words], capture_output=True, text=True, timeout=90, env=environment, check=False
    )
    assert done.returncode == 0, f"{block} ended with status {done.returncode}:\n{done.stdout}\n{done.stderr}"
    return done.stdout


def test_t_5_1_compute_embeddings(tmp_path: Path) -> None:
    """000: four tasks of one GPU each on a node of two."""
    pytest.importorskip("numpy", reason="the stand-in model computes with numpy")
    record = tmp_path / "record"
    output = perform("000_compute_embeddings.py", "000_check.py", record=record)
    assert "Computed embeddings for 42 texts" in output
    assert "embeddings are those computed in this process" in output
    calls = [json.loads(line) for line in record.read_text().splitlines()]
    in_tasks = [call for call in calls if call["model"] != "any"]
    assert sorted(call["texts"] for call in in_tasks) == [10, 10, 11, 11]
    assert {call["devices"] for call in in_tasks} <= {"0", "1"}, "each task sees the one GPU it was given"
    assert {call["model"] for call in in_tasks} == {"sentence-transformers/all-MiniLM-L6-v2"}


def test_environment_variables_reach_workers() -> None:
    """003, "Environment variables not reaching workers"."""
    assert "worker sees ('hf_xxx', '0,1')" in perform("003_env_vars.py", "003_check.py")


def test_placement_group_conflicts() -> None:
    """003, "Placement group conflicts": a nested task leaves its parent's group with the option given."""
    assert "outside the group" in perform("003_placement_group_none.py", "003_placement_group_check.py")


def test_policy_and_simulator() -> None:
    """004: tasks that start tasks and an actor, and a module global that all of them captured."""
    assert "trained 8 policies" in perform("004_policy_simulator.py", "004_check.py")


def test_no_block_lies_here_unrun() -> None:
    text = "".join(each.read_text() for each in HERE.glob("test_*.py"))
    unrun = [
        path.name
        for folder in ("blocks", "then")
        for path in (HERE / folder).glob("*.py")
        if path.name not in text
    ]
    assert not unrun, f"add a test that performs {unrun}, or remove the file"
