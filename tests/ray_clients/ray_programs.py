"""Ray's command line and SDK in an environment of their own, which `make ray-clients` builds, as separate processes."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
#: The interpreter that has Ray; the variable names another one.
PYTHON = Path(os.environ.get("SKATE_RAY_PYTHON", ROOT / ".venv-ray" / "bin" / "python"))
COMMAND_S = 60.0
WITHOUT = pytest.mark.skipif(
    not PYTHON.exists(), reason=f"no interpreter with Ray at {PYTHON}; `make ray-clients` builds one"
)
#: What no program of Ray may inherit from the test: it would import Skate's sources, or find another session.
FOREIGN = (
    "PYTHONPATH", "RAY_ADDRESS", "RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "SKATE_ADDRESS", "SKATE_COMPAT", "SKATE_TMPDIR",
)  # fmt: skip
RAY = "from ray.scripts.scripts import main; main()"
SERVE = "from ray.serve.scripts import cli; cli()"


def environment(**more: str) -> dict[str, str]:
    """Return the variables of a program of Ray."""
    kept = {name: value for name, value in os.environ.items() if name not in FOREIGN}
    return {**kept, "RAY_USAGE_STATS_ENABLED": "0", "NO_COLOR": "1", "COLUMNS": "400", **more}


def python(
    text: str, *arguments: str, folder: Path, variables: Mapping[str, str], check: bool = True
) -> subprocess.CompletedProcess[str]:
    """Run a program with the interpreter that has Ray, in a folder without sources of Skate."""
    done = subprocess.run(
        [str(PYTHON), "-c", text, *arguments],
        env=environment(**variables), cwd=folder, capture_output=True, text=True, timeout=COMMAND_S,
    )  # fmt: skip
    assert not check or done.returncode == 0, f"{arguments} failed: {done.stdout}{done.stderr}"
    return done


class Client:
    """A person who has installed Ray, and talks to the server at an address.

    Args: folder: where the programs start; it has no sources of Skate.
    """

    def __init__(self, url: str, token: str, folder: Path) -> None:
        self.url = url
        self.folder = folder
        self.variables = (
            {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": token} if token else {"RAY_AUTH_MODE": "disabled"}
        )

    def ray(self, *words: str, check: bool = True, address: bool = True) -> subprocess.CompletedProcess[str]:
        """Run a command of `ray`."""
        end = words.index("--") if "--" in words else len(words)
        given = (*words[:end], *(("--address", self.url) if address else ()), *words[end:])
        return python(RAY, *given, folder=self.folder, variables=self.variables, check=check)

    def serve(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a command of `serve`."""
        return python(SERVE, *words, "--address", self.url, folder=self.folder, variables=self.variables)

    def sdk(self, text: str, *arguments: str) -> Any:
        """Run a program that has `client`, a JobSubmissionClient, and `url`; return what it assigns to `found`."""
        text = (
            "import json, sys\nfrom ray.job_submission import JobSubmissionClient\nurl = sys.argv[1]\n"
            f"client = JobSubmissionClient(url)\n{text}\nprint('\\n' + json.dumps(found))"
        )
        done = python(text, self.url, *arguments, folder=self.folder, variables=self.variables)
        return json.loads(done.stdout.splitlines()[-1])
