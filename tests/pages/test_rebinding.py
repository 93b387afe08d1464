"""Pages of other people in a real browser, on a machine with a server that accepts jobs: nothing of theirs runs, nothing is read.

The browser knows evil.test. Its server first sends a page, and then passes all bytes on to the server of Skate at the same port,
as a name does whose address is changed to 127.0.0.1 (DNS rebinding, CVE-2025-62593).
"""

from __future__ import annotations

import json
import os
import socket
import socketserver
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.options import Options

from skate.job_submission import JobSubmissionClient
from tests.pages import browser
from tests.process.programs import MARK, SOURCE
from tests.process.standing import Node

TOKEN = "the-token-for-everything"
PAGE = b"<!doctype html><title>evil</title><p>Prizes!"


class Evil(socketserver.ThreadingTCPServer):
    """The server of evil.test at 127.0.0.2; `rebound` makes it the server at 127.0.0.1."""

    allow_reuse_address = True
    daemon_threads = True
    rebound = False
    passed_on = 0


class Handler(socketserver.BaseRequestHandler):
    """Answers one connection."""

    def handle(self) -> None:
        server: Any = self.server
        if not server.rebound:
            self.request.recv(1 << 16)
            head = f"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {len(PAGE)}\r\nConnection: close\r\n\r\n"
            self.request.sendall(head.encode() + PAGE)
            return
        server.passed_on += 1
        with socket.create_connection(("127.0.0.1", server.server_address[1])) as real:
            back = threading.Thread(target=copy, args=(real, self.request))
            back.start()
            copy(self.request, real)
            back.join()


def copy(source: socket.socket, target: socket.socket) -> None:
    """Pass bytes on until one side ends."""
    try:
        while data := source.recv(1 << 16):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        return


class Victim(NamedTuple):
    """A node with a server that accepts jobs, the server of evil.test, and a file that an attack would make."""

    node: Node
    port: int
    evil: Evil
    file: Path
    has_hole: bool

    @property
    def job(self) -> str:
        """The body of a request that would run a command."""
        return json.dumps({"entrypoint": f"touch {self.file}"})


@pytest.fixture(params=["as it is", "with evil.test as an allowed host"])
def victim(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Victim]:
    """Start all of it; the second time with a hole in the guard, which shows that the attacks work."""
    browser.required()
    node = Node(tmp_path / "node")
    node.start(cpus=1)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    flags = ["--allowed-host", f"evil.test:{port}"] if "allowed" in request.param else []
    env = {**os.environ, **node.environment, MARK: node.mark, "PYTHONPATH": SOURCE, "RAY_AUTH_TOKEN": TOKEN}
    command = [sys.executable, "-m", "skate.dashboard", "--json", "--jobs", "--port", str(port), *flags]
    with subprocess.Popen(
        command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        json.loads(server.stdout.readline())
        with Evil(("127.0.0.2", port), Handler) as evil:
            thread = threading.Thread(target=evil.serve_forever, daemon=True)
            thread.start()
            yield Victim(node, port, evil, tmp_path / "attacked", bool(flags))
            evil.shutdown()
            thread.join()
        server.kill()
    node.kill()


@pytest.fixture
def driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[webdriver.Chrome]:
    """Start a browser that finds evil.test at 127.0.0.2."""
    browser.required()
    plain = Options.add_argument

    def with_names(options: Options, word: str) -> None:
        plain(options, word)
        if word.startswith("--user-data-dir"):
            plain(options, "--host-resolver-rules=MAP evil.test 127.0.0.2")

    monkeypatch.setattr(Options, "add_argument", with_names)
    with browser.chromium(tmp_path / "profile") as made:
        made.set_script_timeout(40)
        yield made


#: What a page can try. The token is more than it could know: the host alone has to be enough to refuse.
ATTACKS = """
const [token, job, port, done] = arguments;
const found = {};
const as = (name, asked) => asked.then(
  answer => { found[name] = answer.status || answer.type; }, () => { found[name] = "blocked"; });
const own = {"Authorization": "Bearer " + token};
const json = {"Content-Type": "application/json"};
const until = (target, good, bad) => new Promise(end => {
  target.addEventListener(good, () => end({status: good}));
  for (const name of bad) target.addEventListener(name, () => end({status: "refused"}));
});
const post = (url, headers, more) => fetch(url, {method: "POST", headers, body: job, ...more});
(async () => {
  await as("read", fetch("/api/version"));
  await as("read with the token", fetch("/api/version", {headers: own}));
  await as("submit", post("/api/jobs/", json));
  await as("submit as another browser", post("/api/jobs/", {...json, "User-Agent": "curl/8"}));
  await as("submit as text", post("/api/jobs/", {"Content-Type": "text/plain"}));
  await as("delete", fetch("/api/jobs/x", {method: "DELETE", headers: {...json, ...own}}));
  await as("put", fetch("/api/packages/gcs/x.zip", {method: "PUT", body: job, headers: own}));
  await as("stream", until(new WebSocket(`ws://${location.host}/api/jobs/x/logs/tail`), "open", ["error", "close"]));
  await as("events", until(new EventSource("/api/version"), "open", ["error"]));
  const there = `http://127.0.0.1:${port}`;
  await as("over there", post(there + "/api/jobs/", {"Content-Type": "text/plain"}, {mode: "no-cors"}));
  await as("over there, with a preflight", post(there + "/api/jobs/", {...json, ...own}));
  await as("submit with the token", post("/api/jobs/", {...json, ...own}));
  const form = document.createElement("form"), frame = document.createElement("iframe");
  frame.name = form.target = "frame"; form.method = "post"; form.action = there + "/api/jobs/"; form.enctype = "text/plain";
  const field = document.createElement("input"); field.name = job.slice(0, -1) + ', "x": "'; field.value = '"}';
  form.append(field); document.body.append(form, frame);
  const loaded = until(frame, "load", ["error"]); form.submit(); await loaded;
  done(found);
})();
"""


def test_pages_of_others_reach_nothing(victim: Victim, driver: webdriver.Chrome) -> None:
    driver.get(f"http://evil.test:{victim.port}/")
    assert driver.title == "evil"
    victim.evil.rebound = True
    found = driver.execute_async_script(ATTACKS, TOKEN, victim.job, victim.port)
    assert victim.evil.passed_on, "the name leads to Skate's server now"
    os.environ["RAY_AUTH_TOKEN"] = TOKEN
    try:
        jobs = JobSubmissionClient(f"http://127.0.0.1:{victim.port}").list_jobs()
    finally:
        del os.environ["RAY_AUTH_TOKEN"]
    if victim.has_hole:  # a page that knows the token gets through; others do not
        assert found["read with the token"] == 200
        assert found["submit with the token"] == 200 and len(jobs) == 1
        assert (found["read"], found["submit"], found["submit as text"]) == (401, 401, 401)
        return
    same_host = (
        "read",
        "read with the token",
        "submit",
        "submit as another browser",
        "submit as text",
        "delete",
        "put",
    )
    assert {name: found[name] for name in (*same_host, "submit with the token")} == dict.fromkeys(
        (*same_host, "submit with the token"), 421
    )
    assert (found["stream"], found["events"]) == ("refused", "refused")
    assert found["over there"] in ("opaque", "blocked") and found["over there, with a preflight"] == "blocked"
    assert jobs == [] and not victim.file.exists()
