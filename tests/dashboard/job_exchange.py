"""One conversation with a server of jobs: the same requests for Skate and for a real Ray, and the shapes of all answers.

`python -m tests.dashboard.job_exchange URL` records those of the Ray at that address into ray_job_shapes.json: only names and
types, no values.
"""

from __future__ import annotations

import json
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from tests.conformance.waiting import wait_for

SHAPES = Path(__file__).parent / "ray_job_shapes.json"
JOB = {"entrypoint": "echo hello", "metadata": {"a": "b"}, "runtime_env": {"env_vars": {"A": "b"}}}
PACKAGE = "/api/packages/gcs/_ray_pkg_0123456789abcdef.zip"
WAIT_S = 90.0


def keys(value: Any, depth: int = 2) -> Any:
    """Return the names in an object, each with the type of its value."""
    if isinstance(value, dict) and depth:
        return {key: keys(each, depth - 1) for key, each in sorted(value.items())}
    if isinstance(value, list):
        return [keys(each, depth) for each in value[:1]]
    return type(value).__name__


class Talk:
    """The requests to one server, and the shapes of its answers.

    Args:
        url: the address of the server.
        headers: sent with each request.
    """

    def __init__(self, url: str, headers: dict[str, str]) -> None:
        self._url = url
        self._headers = headers
        self.shapes: dict[str, Any] = {}

    def ask(self, what: str, method: str, path: str, sent: Any = None) -> Any:
        """Send a request, and enter the shape of its answer under a name."""
        status, kind, body = self._answer(method, path, sent)
        answer = json.loads(body) if kind == "application/json" else None
        self.shapes[what] = {"status": status, "type": kind, "keys": keys(answer)}
        return answer

    def _answer(self, method: str, path: str, sent: Any) -> tuple[int, str, bytes]:
        data, headers = None, dict(self._headers)
        if isinstance(sent, bytes):
            data, headers["Content-Type"] = sent, "application/octet-stream"
        elif sent is not None:
            data, headers["Content-Type"] = json.dumps(sent).encode(), "application/json"
        request = urllib.request.Request(self._url + path, data, headers, method=method)
        try:
            answer = urllib.request.urlopen(request, timeout=60)
        except urllib.error.HTTPError as error:
            answer = error
        with answer:
            return answer.status, answer.headers.get_content_type(), answer.read()

    def until(self, job: str, *wanted: str) -> None:
        """Wait for a status of a job."""

        def status() -> str:
            found: str = json.loads(self._answer("GET", f"/api/jobs/{job}", None)[2])["status"]
            return found

        wait_for(lambda: status() in wanted, WAIT_S, f"{job} to be {wanted}")


def converse(talk: Talk) -> dict[str, Any]:
    """Submit, look at, stop and delete jobs, with the mistakes that clients make; return the shapes of all answers."""
    ask = talk.ask
    ask("submit", "POST", "/api/jobs/", {**JOB, "submission_id": "one"})
    ask("submit again", "POST", "/api/jobs/", {**JOB, "submission_id": "one"})
    ask("submit without a command", "POST", "/api/jobs/", {"submission_id": "none"})
    ask("submit with an unknown field", "POST", "/api/jobs/", {**JOB, "colour": "red"})
    talk.until("one", "SUCCEEDED", "FAILED")
    ask("a job", "GET", "/api/jobs/one")
    ask("its output", "GET", "/api/jobs/one/logs")
    ask("all jobs", "GET", "/api/jobs/")
    ask("stop one that has ended", "POST", "/api/jobs/one/stop")
    for what, method, end in (
        ("no job", "GET", ""), ("no output", "GET", "/logs"), ("stop none", "POST", "/stop"), ("delete none", "DELETE", ""),
    ):  # fmt: skip
        ask(what, method, f"/api/jobs/none{end}")
    ask("submit a long one", "POST", "/api/jobs/", {"entrypoint": "sleep 1000", "submission_id": "two"})
    talk.until("two", "RUNNING")
    ask("delete one that runs", "DELETE", "/api/jobs/two")
    ask("stop", "POST", "/api/jobs/two/stop")
    talk.until("two", "STOPPED")
    ask("a stopped job", "GET", "/api/jobs/two")
    ask("submit one that fails", "POST", "/api/jobs/", {"entrypoint": "exit 3", "submission_id": "three"})
    talk.until("three", "FAILED")
    ask("a failed job", "GET", "/api/jobs/three")
    ask(
        "rows of jobs",
        "GET",
        "/api/v0/jobs?detail=1&filter_keys=submission_id&filter_predicates=%3D&filter_values=three",
    )
    ask("delete", "DELETE", "/api/jobs/one")
    ask("no package", "GET", PACKAGE)
    ask("put a package", "PUT", PACKAGE, b"PK\x05\x06" + b"\0" * 18)
    ask("a package", "GET", PACKAGE)
    ask("applications", "GET", "/api/serve/applications/")
    return talk.shapes


if __name__ == "__main__":
    SHAPES.write_text(json.dumps(converse(Talk(sys.argv[1], {})), indent=1, sort_keys=True) + "\n")
