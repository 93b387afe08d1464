"""Runs installers: logs their output, waits for their end, and reports failures with their own output."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path

from skate.exceptions import RuntimeEnvSetupError
from skate.runtime_env.deadline import Deadline

_LAST_LINES = 20
_LOOK_EVERY_S = 0.1
_SECRET = re.compile(r"(?<=://)[^/@\s]+(?=@)")
# Runs between the driver and an installer: Linux notifies it when the thread that started it ends, and it
# kills the installer with its build processes, so that none of them outlives a killed driver.
_TIED = """
import ctypes, os, signal, sys
signal.signal(signal.SIGTERM, lambda *_: os.killpg(0, signal.SIGKILL))
ctypes.CDLL(None).prctl(1, signal.SIGTERM)
if os.getppid() != int(sys.argv[1]):
    sys.exit(1)
try:
    pid = os.posix_spawnp(sys.argv[2], sys.argv[2:], os.environ, setsigdef=[signal.SIGTERM])
except OSError as error:
    sys.exit(f"{sys.argv[2]} cannot be started: {error}")
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) & 255)
"""


def run(
    command: Sequence[str], what: str, log: Path, deadline: Deadline, env_vars: Mapping[str, str]
) -> None:
    """Run an installer to its end, its output appended to `log`.

    Args:
        what: the step, for errors: "installing packages with pip".
        env_vars: set on top of this process's environment.

    Raises RuntimeEnvSetupError with the command and the last lines of its output when it fails, and at the
    deadline or a cancellation, in which case it is killed with its child processes.
    """
    shown = redacted(shlex.join(command))
    deadline.check(what)
    with open(log, "ab") as out:
        out.write(f"$ {shown}\n".encode())
        out.flush()
        starts_at = out.tell()
        try:
            process = subprocess.Popen(
                _tied(command),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                env=_environment(env_vars),
                cwd=log.parent,
                start_new_session=True,
            )
        except OSError as error:
            raise RuntimeEnvSetupError(f"{what} failed: {shown} cannot be started: {error}.") from error
        code = _end_of(process, what, deadline)
    if code != 0:
        raise RuntimeEnvSetupError(
            f"{what} failed: {shown} ended with code {code}. Its last lines (all of them are in {log}):\n"
            f"{_last_lines(log, starts_at)}"
        )


def _tied(command: Sequence[str]) -> list[str]:
    if sys.platform != "linux":
        return list(command)
    return [sys.executable, "-I", "-S", "-c", _TIED, str(os.getpid()), *command]


def _end_of(process: subprocess.Popen[bytes], what: str, deadline: Deadline) -> int:
    try:
        while True:
            try:
                return process.wait(timeout=deadline.left_s(_LOOK_EVERY_S))
            except subprocess.TimeoutExpired:
                deadline.check(what)
    finally:
        if process.poll() is None:
            # Its whole session: pip builds packages in separate processes.
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _environment(env_vars: Mapping[str, str]) -> dict[str, str]:
    env = {**os.environ, **env_vars}
    # These would install packages outside of the environment, or prompt for input.
    for name in ("PYTHONHOME", "PIP_TARGET", "PIP_PREFIX", "PIP_REQUIRE_VIRTUALENV", "__PYVENV_LAUNCHER__"):
        env.pop(name, None)
    return {
        **env,
        "PIP_USER": "0",
        "PIP_NO_INPUT": "1",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PYTHONUNBUFFERED": "1",
    }


def _last_lines(log: Path, starts_at: int) -> str:
    with open(log, "rb") as file:
        file.seek(starts_at)
        lines = deque(file, maxlen=_LAST_LINES)
    text = b"".join(lines).decode("utf-8", "replace").rstrip()
    return redacted(text) or "(it wrote nothing)"


def redacted(text: str) -> str:
    """Remove user names and passwords from URLs in a text."""
    return _SECRET.sub("***", text)
