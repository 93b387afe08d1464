"""Every CPython that Skate promises to run on, where this machine has it, runs the examples.

Each has an environment of its own with the required packages alone.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROMISED = ("3.10", "3.11", "3.12", "3.13")
EXAMPLES = ("actors.py", "generators.py", "resources.py", "search.py")


def interpreter(version: str) -> str | None:
    """A working interpreter of this version: on the PATH, or among pyenv's."""
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    candidates = [shutil.which(f"python{version}"), *sorted(root.glob(f"versions/{version}.*/bin/python3"))]
    for candidate in candidates:
        # pyenv's shims lie on the PATH for versions that are not selected, and fail when called.
        if (
            candidate
            and subprocess.run([candidate, "-c", ""], capture_output=True, check=False).returncode == 0
        ):
            return str(candidate)
    return None


@pytest.fixture(scope="module", params=PROMISED)
def python(request: pytest.FixtureRequest) -> str:
    """The interpreter of an environment with Skate and its required packages, built once per checkout."""
    version = request.param
    if sys.version_info[:2] == tuple(map(int, version.split("."))):
        pytest.skip(f"the rest of the suite runs on {version} already")
    base = interpreter(version)
    if base is None:
        pytest.skip(f"no Python {version} on this machine")
    environment = f".venv-{version}"
    done = subprocess.run(
        ["make", f"PYTHON={base}", f"VENV={environment}", f"{environment}/.core"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, f"cannot set up {environment}:\n{done.stdout}\n{done.stderr}"
    return str(ROOT / environment / "bin" / "python")


# Setting an environment up counts against the first of its tests.
@pytest.mark.timeout(700)
@pytest.mark.parametrize("example", EXAMPLES)
def test_the_examples_run(python: str, example: str) -> None:
    done = subprocess.run(
        [python, "-W", "error", str(ROOT / "examples" / example)],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, f"{example}:\n{done.stdout}\n{done.stderr}"
    assert done.stderr == ""
