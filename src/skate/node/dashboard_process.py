"""The process of the dashboard beside a node: started, and for a standing node started again when it dies."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from skate.node.driver import address

#: How long the process may take to end before it is killed.
END_SECONDS = 5.0
#: Pauses before the process is started again: the first, and the longest one; each is twice as long as that before it.
PAUSE_SECONDS, PAUSE_SECONDS_MAX = 1.0, 60.0
#: The first word of lines about changes, all of which are in the node's log.
AUDIT = "audit:"
#: The last other lines of its error output that the node's log shows.
SHOWN_LINES = 20

#: The URL of a dashboard, its tokens, its pid; or the error with which it has ended.
Facts = dict[str, Any]


class DashboardPlace(NamedTuple):
    """Where a dashboard listens."""

    host: str = "127.0.0.1"
    #: None for the usual port, or a free one if that is taken.
    port: int | None = None
    behind_proxy: bool = False
    accepts_jobs: bool = False
    #: A port of its own for the metrics, 0 for any free one; None for no such port.
    metrics_port: int | None = None
    #: Serve nothing but metrics, only on that port.
    metrics_only: bool = False
    #: Files with the certificate and with its key; without them, it serves plain HTTP.
    tls_cert: str | None = None
    tls_key: str | None = None
    #: Further names, with ports, by which clients reach it.
    allowed_hosts: tuple[str, ...] = ()


def spawn(node: str, place: DashboardPlace, errors: int | None = None) -> subprocess.Popen[bytes]:
    """Start the process for the node at an address. It ends with the node, and when its standard input is closed."""
    command = [sys.executable, "-m", "skate.dashboard", "--json", "--address", node, "--host", place.host]
    if place.port is not None:
        command += ["--port", str(place.port)]
    if place.behind_proxy:
        command.append("--plain-http-behind-a-proxy")
    if place.accepts_jobs:
        command.append("--jobs")
    if place.metrics_port is not None:
        command += ["--metrics-export-port", str(place.metrics_port)]
    if place.metrics_only:
        command.append("--metrics-only")
    for option, file in (("--tls-cert", place.tls_cert), ("--tls-key", place.tls_key)):
        if file is not None:
            command += [option, file]
    for name in place.allowed_hosts:
        command += ["--allowed-host", name]
    # Ctrl-C in a terminal is for the program.
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, start_new_session=True
    )


def facts_of(process: subprocess.Popen[bytes]) -> Facts | None:
    """Wait until the process listens; return its facts, or None if it has ended."""
    assert process.stdout is not None
    line = process.stdout.readline()
    found: Facts | None = json.loads(line) if line else None
    return found


def end(process: subprocess.Popen[bytes]) -> None:
    """End the process."""
    with process:
        assert process.stdin is not None
        with contextlib.suppress(OSError):
            process.stdin.close()
        try:
            process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()


class Dashboard:
    """The dashboard of a standing node. Its facts are in a file of the node's folder while it runs.

    Args:
        place: where it listens.
        log: writes a text to the node's log.
        report: called with the facts of the first process, or with its error.
    """

    def __init__(
        self,
        place: DashboardPlace,
        log: Callable[[str], object],
        report: Callable[[Facts], object] = lambda facts: None,
    ) -> None:
        self._place = place
        self._log = log
        self._report = report
        self._ended = threading.Event()
        self._process: subprocess.Popen[bytes] | None = None
        self._guard = threading.Lock()
        self._thread: threading.Thread | None = None

    def start(self, path: str) -> None:
        """Start the process for the node with a socket, in a thread that keeps it running."""
        self._thread = threading.Thread(target=self._keep, args=(path,), name="skate-dashboard", daemon=True)
        self._thread.start()

    def _keep(self, path: str) -> None:
        folder = os.path.dirname(path)
        file = os.path.join(folder, address.DASHBOARD_NAME)
        pause = PAUSE_SECONDS
        while True:
            with self._guard:
                if self._ended.is_set():
                    return
                process = self._process = spawn(address.to_address(path), self._place, subprocess.PIPE)
            facts = facts_of(process)
            if facts is not None:
                pause = PAUSE_SECONDS
                # The next one is to be found where this one was.
                where = facts["metrics_url"] if "metrics_url" in facts else facts["url"]
                if "url" in facts:
                    self._place = self._place._replace(port=port_of(facts["url"]))
                if "metrics_url" in facts:
                    self._place = self._place._replace(metrics_port=port_of(where))
                scheme, _, host = where.partition("://")
                labels = {"job": "ray", **({"__scheme__": scheme} if scheme == "https" else {})}
                target = {"labels": labels, "targets": [host]}
                _write(os.path.join(folder, address.DISCOVERY_NAME), json.dumps([target]))
                _write(os.path.join(folder, address.METRICS_TOKEN_NAME), facts["read_token"])
                _write(file, json.dumps(facts))
                self._report_once(facts)
            assert process.stderr is not None
            last_lines = self._copy(process.stderr)
            status = process.wait()
            with contextlib.suppress(FileNotFoundError):
                os.unlink(file)
            if self._ended.is_set():
                return
            self._log(f"the dashboard has ended with status {status}: {''.join(last_lines)}\n")
            if facts is None and self._report is not _nobody:
                # The first one has not started, and the next one would not either.
                error = {
                    "error": last_lines[-1].strip() if last_lines else f"it has ended with status {status}"
                }
                _write(file, json.dumps(error))
                self._report_once(error)
                return
            if self._ended.wait(pause):
                return
            pause = min(2 * pause, PAUSE_SECONDS_MAX)

    def _copy(self, stream: Iterable[bytes]) -> list[str]:
        """Copy lines about changes to the node's log until the end; return the last other ones."""
        last_lines: deque[str] = deque(maxlen=SHOWN_LINES)
        for line in stream:
            text = line.decode(errors="replace")
            if text.startswith(AUDIT):
                self._log(f"dashboard {text}")
            else:
                last_lines.append(text)
        return list(last_lines)

    def _report_once(self, facts: Facts) -> None:
        report, self._report = self._report, _nobody
        report(facts)

    def end(self) -> None:
        """End the process and the thread."""
        self._ended.set()
        with self._guard:
            process = self._process
        if process is not None:
            end(process)
        if self._thread is not None:
            self._thread.join(END_SECONDS)


def port_of(url: str) -> int:
    """Return the port of a URL that has one."""
    return int(url.rpartition(":")[2])


def _nobody(facts: Facts) -> None:
    """Take the facts of a later process."""


def _write(path: str, text: str) -> None:
    fd = os.open(f"{path}.new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with open(fd, "w") as file:
        file.write(text)
    os.replace(f"{path}.new", path)


def recorded(folder: str) -> Facts | None:
    """Return the facts about the dashboard of a folder's node; None if there is none."""
    try:
        with open(os.path.join(folder, address.DASHBOARD_NAME)) as file:
            found: Facts = json.load(file)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return found
