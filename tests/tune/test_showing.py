"""The display of a search in a terminal, in a notebook and in a file; and the page on Tune, whose programs run."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PROGRAM = """
import skate as ray
from skate import tune

def train(config):
    for step in range(2):
        tune.report({"loss": config["x"] + step})

tune.Tuner(
    train,
    param_space={"x": tune.grid_search([1, 2])},
    tune_config=tune.TuneConfig(metric="loss", mode="min"),
    run_config=tune.RunConfig(name="shown", storage_path=STORAGE),
).fit()
"""


def program(folder: Path) -> list[str]:
    path = folder / "program.py"
    path.write_text(f"STORAGE = {str(folder)!r}\n{PROGRAM}")
    return [sys.executable, str(path)]


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT / "src"), **more}


def test_a_terminal_gets_a_table(tmp_path: Path) -> None:
    pytest.importorskip("rich")
    reading, writing = pty.openpty()
    shape = environment(TERM="xterm", COLUMNS="120", LINES="40")
    running = subprocess.Popen(program(tmp_path), stdin=writing, stdout=writing, stderr=writing, env=shape)
    os.close(writing)
    seen, deadline = b"", time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            found = os.read(reading, 4096)
        except OSError:  # the other end is closed
            break
        if not found:
            break
        seen += found
    os.close(reading)
    assert running.wait(timeout=30) == 0, seen.decode()
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", seen.decode())
    assert text.count("TERMINATED") >= 2
    assert "loss" in text
    assert "\x1b[" in seen.decode(), "the table is drawn in its place"


def test_a_file_gets_nothing(tmp_path: Path) -> None:
    done = subprocess.run(
        program(tmp_path), capture_output=True, text=True, timeout=60, env=environment(), check=True
    )
    assert (done.stdout, done.stderr) == ("", "")


def test_a_notebook_gets_one_table_that_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    import types

    from skate.tune import progress_reporter as reporters
    from skate.tune.experiment.trial import Trial
    from skate.tune.reporter import selection

    shown: list[tuple[str, str]] = []

    class Handle:
        def update(self, what: Any) -> None:
            shown.append(("update", what))

    def display(what: Any, display_id: bool = False) -> Handle:
        shown.append(("display", what))
        return Handle()

    shell = type("ZMQInteractiveShell", (), {})()
    ipython = types.ModuleType("IPython")
    ipython.get_ipython = lambda: shell  # type: ignore[attr-defined]
    module = types.ModuleType("IPython.display")
    module.HTML, module.display = str, display  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", module)
    reporter = selection._default(None)
    assert isinstance(reporter, reporters.JupyterNotebookReporter)
    trial = Trial("train", trial_id="1")
    trial.update_last_result({"loss": 0.5, "training_iteration": 1})
    reporter.setup(start_time=time.time(), total_samples=1, metric="loss", mode="min")
    reporter.report([trial], False)
    reporter.report([trial], True)
    assert [kind for kind, _ in shown] == ["display", "update"]
    assert "train_1" in shown[0][1]


def blocks() -> list[str]:
    page = (ROOT / "docs" / "tune.md").read_text()
    return re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("code", blocks(), ids=lambda code: code.strip().splitlines()[-1][:50])
def test_the_programs_of_the_page_run(code: str, tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_text(code)
    shape = environment(RAY_STORAGE=str(tmp_path))
    done = subprocess.run(
        [sys.executable, str(path)], capture_output=True, text=True, timeout=90, env=shape, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip(), "each prints what it has found"
    assert len(list(tmp_path.glob("*/tuner.pkl"))) == 1
