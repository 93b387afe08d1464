"""Attacks on Ray's dashboard that are known by number, sent as bytes to a running server."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.conformance.waiting import wait_for
from tests.process.standing import Node

JOB = "/api/jobs/"


class Target(NamedTuple):
    """A server that accepts jobs, its token for everything, and a file that an attack would create."""

    port: int
    token: str
    file: Path
    log: Path

    def ask(self, method: str, path: str, *headers: str, host: str = "", body: str = "") -> int:
        """Send a request, with each header as it is; return the status."""
        host = host or f"127.0.0.1:{self.port}"
        lines = [f"{method} {path} HTTP/1.1", f"Host: {host}", *headers, f"Content-Length: {len(body)}"]
        with socket.create_connection(("127.0.0.1", self.port), timeout=20) as sock:
            sock.sendall("\r\n".join([*lines, "Connection: close", "", body]).encode())
            answer = b""
            while data := sock.recv(1 << 16):
                answer += data
        assert b"access-control-allow-origin" not in answer.lower()
        return int(answer.split()[1])

    @property
    def job(self) -> str:
        """The body of a request that runs a command."""
        return json.dumps({"entrypoint": f"touch {self.file}", "submission_id": "attack"})

    @property
    def own(self) -> str:
        """The header of somebody who may do everything."""
        return f"Authorization: Bearer {self.token}"


@pytest.fixture
def target(node: Node, tmp_path: Path) -> Iterator[Target]:
    said = node.start("--include-dashboard", "true", "--dashboard-port", "0", "--jobs")
    found = re.search(r"http://127\.0\.0\.1:(\d+)/#token=(\S+)", said)
    assert found is not None, said
    yield Target(int(found[1]), found[2], tmp_path / "attacked", node.folder / "node.log")
    assert not (tmp_path / "attacked").exists()
    node.stop()
    node.gone()


def test_known_attacks(target: Target) -> None:
    text, plain = "Content-Type: application/json", "Content-Type: text/plain"
    evil = "Origin: http://evil.test"
    # CVE-2023-48022: whoever reaches the port may run commands.
    assert target.ask("POST", JOB, text, body=target.job) == 401
    assert target.ask("POST", JOB, text, "Authorization: Bearer guessed", body=target.job) == 403
    assert target.ask("PUT", "/api/packages/gcs/_ray_pkg_1.zip", body="PK") == 401
    assert target.ask("GET", JOB) == 401
    # CVE-2025-62593: a page whose name was bound to 127.0.0.1 calls itself no browser.
    for host in (f"evil.test:{target.port}", "evil.test", f"127.0.0.1.evil.test:{target.port}"):
        for agent in ("User-Agent: Other", "User-Agent: Mozilla/5.0", "X-Nothing: 1"):
            assert target.ask("POST", JOB, text, agent, target.own, host=host, body=target.job) == 421
            assert target.ask("GET", "/api/version", agent, target.own, host=host) == 421
    simple = (evil, "User-Agent: Other", "Sec-Fetch-Site: cross-site", plain)
    assert target.ask("POST", JOB, *simple, target.own, body=target.job) == 403
    assert target.ask("POST", JOB, plain, target.own, body=target.job) == 415, "a form needs no preflight"
    assert target.ask("POST", JOB, evil, text, target.own, body=target.job) == 403
    # CVE-2026-27482: a method that a list of forbidden ones had forgotten.
    for path in (f"{JOB}attack", "/api/serve/applications/", "/api/v0/tasks"):
        for method in ("DELETE", "PUT", "POST", "PATCH", "OPTIONS"):
            assert target.ask(method, path, evil, target.own) == 403, (method, path)
            assert target.ask(method, path) in (401, 405), (method, path)
    # Ambiguous requests.
    assert target.ask("GET", "/api/version", f"Host: evil.test:{target.port}", target.own) in (400, 421)
    assert target.ask("GET", f"http://evil.test:{target.port}/api/version", target.own) in (400, 421)
    assert target.ask("GET", "/api/version", target.own) == 200
    # A change with the token is in the node's log.
    assert target.ask("DELETE", f"{JOB}attack", text, target.own) == 404
    wait_for(lambda: " submit DELETE /api/jobs/attack 404\n" in target.log.read_text(), what="the line")
