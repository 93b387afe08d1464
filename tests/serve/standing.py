"""A standing node, and the `serve` command used with it from a shell."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from tests.conformance.waiting import wait_for
from tests.process.programs import MARK, SOURCE
from tests.process.standing import Node

COMMAND_S = 60.0
TOKEN = "a-token-of-the-tests"


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


def get(port: int, path: str = "/") -> tuple[int, str]:
    """Send a GET request; return the status and the body, or status 0 if nothing listens."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=30) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()
    except OSError:
        return 0, ""


class Site:
    """A standing node, a folder with a program, and two free ports."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.node = Node(folder / "node")
        self.port, self.rest_port = free_port(), free_port()

    @property
    def rest(self) -> str:
        return f"http://127.0.0.1:{self.rest_port}"

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.write_text(text)
        return path

    def serve(self, *words: str, code: int = 0, folder: Path | None = None, **more: str) -> str:
        """Run `serve ...`, which must exit with `code`; return its output and errors."""
        environment = {
            **os.environ,
            "PYTHONPATH": SOURCE,
            "SKATE_SERVE_TOKEN": TOKEN,
            "PYTHONDONTWRITEBYTECODE": "1",
            MARK: self.node.mark,
            **self.node.environment,
            **more,
        }
        done = subprocess.run(
            [sys.executable, "-m", "skate", "serve", *words],
            env=environment,
            capture_output=True,
            text=True,
            timeout=COMMAND_S,
            cwd=folder or self.folder,
            stdin=subprocess.DEVNULL,
        )
        assert done.returncode == code, (
            f"serve {words} ended with {done.returncode}: {done.stdout}{done.stderr}"
        )
        assert "Traceback" not in done.stderr or code == 0, done.stderr
        return done.stdout + done.stderr

    def ask(
        self, method: str = "GET", body: Any = None, token: str = TOKEN, path: str = ""
    ) -> tuple[int, Any]:
        """Send a request to the REST API; return the status and the parsed JSON."""
        request = urllib.request.Request(
            f"{self.rest}/api/serve/applications/" if not path else self.rest + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {token}"},
        )
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.load(error)

    def running(self, app: str) -> dict[str, Any]:
        """Wait until the application and all its replicas are running; return its details."""

        def found() -> Any:
            application = self.ask()[1]["applications"].get(app, {"status": "none", "message": ""})
            assert application["status"] != "DEPLOY_FAILED", application["message"]
            settled = application["status"] == "RUNNING" and all(
                {each["state"] for each in one["replicas"]} == {"RUNNING"}
                for one in application["deployments"].values()
            )
            return application if settled else None

        application: dict[str, Any] = wait_for(found, 40, f"the application {app!r} to run")
        return application

    def pids(self, app: str) -> dict[str, set[int]]:
        """Return the processes of each deployment of a running application."""
        return {
            name: {each["pid"] for each in one["replicas"]}
            for name, one in self.running(app)["deployments"].items()
        }

    def end(self) -> None:
        with contextlib.suppress(Exception):
            self.node.stop()
        self.node.kill()
