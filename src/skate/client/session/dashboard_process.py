"""The process of the dashboard beside a session, for `init(include_dashboard=True)`."""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
from typing import Any

from skate.client.session import session

#: How long the process may take to end before it is killed.
END_SECONDS = 5.0

_running: subprocess.Popen[bytes] | None = None


def start(context: session.RayContext, host: str, port: int | None) -> None:
    """Start the process, and enter its URL into the context. No-op if it runs already.

    Raises:
        RuntimeError: it could not start. The session has been shut down.
    """
    global _running
    process = session.current()
    if _running is not None or not process.is_driver:
        return
    address = session.address_of_node()
    if not address:
        warnings.warn("local mode has no node, and so no dashboard", UserWarning, stacklevel=3)
        return
    command = [sys.executable, "-m", "skate.dashboard", "--json", "--address", address, "--host", host]
    if port is not None:
        command += ["--port", str(port)]
    # Ctrl-C in a terminal is for the program; this process ends when its standard input does.
    _running = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    )
    if end not in session.endings:
        session.endings.append(end)
    facts = _first_line(_running)
    if facts is None:
        status = _running.wait()
        session.shutdown()
        raise RuntimeError(f"the dashboard has ended with status {status}; its error is above")
    context.dashboard_url = facts["url"].partition("://")[2]
    context.address_info["webui_url"] = context.dashboard_url
    print(f"The dashboard is at {facts['url']}/#token={facts['token']}", file=sys.stderr)


def end() -> None:
    """End the process, if there is one."""
    global _running
    process, _running = _running, None
    if process is None:
        return
    with process:
        assert process.stdin is not None
        process.stdin.close()
        try:
            process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()


def _first_line(process: subprocess.Popen[bytes]) -> dict[str, Any] | None:
    assert process.stdout is not None
    line = process.stdout.readline()
    facts: dict[str, Any] | None = json.loads(line) if line else None
    return facts
