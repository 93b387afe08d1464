"""Programs under system limits: in a shell that sets them, as a separate user, with a separate disk."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.process.programs import PATHS, prepared

#: Limits of processes apply to all processes of a user. They do not apply to root, so tests use another user.
OTHER_USER = 54_000
PRIVILEGES = "+dac_override,+dac_read_search"
RUN_S = 90


def run_under(folder: Path, text: str, *before: str, shell: str = "", **environment: str) -> str:
    """Run a program successfully, after shell commands and behind wrappers; return its output, including errors."""
    path = folder / "program.py"
    path.write_text(prepared(text))
    command = [*before, "/bin/bash", "-c", f'{shell or "true"}; exec "$@"', "bash", sys.executable, str(path)]
    done = subprocess.run(
        command,
        env={**os.environ, "PYTHONPATH": PATHS, **environment},
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=RUN_S,
    )
    assert done.returncode == 0, f"it ended with {done.returncode}:\n{done.stdout[-6000:]}"
    return done.stdout


def as_another_user(folder: Path) -> list[str]:
    """Return the prefix for a command run as another user without processes; skips where that is impossible."""
    setpriv = shutil.which("setpriv")
    user = OTHER_USER + os.getpid() % 10_000
    command = [
        setpriv or "", f"--reuid={user}", f"--regid={user}", "--clear-groups",
        f"--inh-caps={PRIVILEGES}", f"--ambient-caps={PRIVILEGES}",
    ]  # fmt: skip
    if setpriv is None or os.getuid() or subprocess.run([*command, "true"], capture_output=True).returncode:
        pytest.skip("only root can start a program as a user without other processes (setpriv)")
    folder.chmod(0o777)
    return command


def small_disk(folder: Path, size: str) -> list[str]:
    """Return the prefix for a command that sees a disk of this size in a folder; skips where none can be mounted."""
    folder.mkdir(exist_ok=True)
    unshare = shutil.which("unshare")
    command = [
        unshare or "", *(() if os.getuid() == 0 else ("-Ur",)), "-m", "sh", "-c",
        f'mount -t tmpfs -o size={size} none {folder} && exec "$@"', "sh",
    ]  # fmt: skip
    if unshare is None or subprocess.run([*command, "true"], capture_output=True).returncode:
        pytest.skip("only where a small disk can be mounted (unshare -m)")
    return command
