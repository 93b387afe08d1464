"""The user's own token: where it is found, and `skate get-auth-token`."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from skate.client.session.detached_node import METRICS_TOKEN_NAME
from skate.command import main
from skate.dashboard.access import SUBMIT, tokens_from_environment
from skate.job_submission.remote import RemoteJobs
from skate.util.state import auth_token, rest
from skate.util.state.exception import RayStateApiException


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    for name in ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(auth_token, "_is_private", is_closed)
    return tmp_path


def is_closed(path: Path) -> bool:
    """Return True for a file that only its owner can read, whatever folder of the tests it is in."""
    return not path.stat().st_mode & 0o077


def test_the_verb_makes_a_token_once(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["get-auth-token"]) == 1
    assert "--generate" in capsys.readouterr().err
    assert main(["get-auth-token", "--generate"]) == 0
    token = capsys.readouterr().out
    assert len(token) == 64 and token == token.strip()
    path = home / ".ray" / "auth_token"
    assert path.stat().st_mode & 0o777 == 0o600
    assert main(["get-auth-token", "--generate"]) == 0
    assert capsys.readouterr().out == token
    assert tokens_from_environment()[SUBMIT] == token
    with pytest.raises(FileExistsError):
        auth_token.generate()


def test_the_token_that_reads_is_that_of_the_node(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["get-auth-token", "--scope", "read", "--temp-dir", str(home)]
    assert main(words) == 1 and "--include-dashboard" in capsys.readouterr().err
    (home / METRICS_TOKEN_NAME).write_text("reads-only")
    assert main(words) == 0 and capsys.readouterr().out == "reads-only"


def test_the_environment_comes_first(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    auth_token.generate()
    (home / "other").write_text("from a file\n")
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", str(home / "other"))
    assert auth_token.find() == "from a file"
    monkeypatch.setenv("RAY_AUTH_TOKEN", "said")
    assert auth_token.find() == "said"


def test_a_token_that_others_can_read_is_left_out(home: Path) -> None:
    auth_token.generate()
    auth_token.default_path().chmod(0o644)
    with pytest.warns(UserWarning, match="chmod 600"):
        assert auth_token.find() == ""


def test_a_closed_folder_protects_its_files(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    file = home / "folder" / "token"
    file.parent.mkdir(mode=0o700)
    file.write_text("x")
    file.chmod(0o644)
    assert auth_token._is_private(file)


def test_the_users_own_token_is_not_sent_to_other_machines(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = auth_token.generate()
    assert auth_token.find("127.0.0.1") == auth_token.find() == token
    assert auth_token.find("dashboard.example") == ""
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    assert auth_token.find("dashboard.example") == token


def test_a_redirection_is_an_error_and_does_not_take_the_token_along() -> None:
    seen: list[str] = []

    class Redirects(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append(self.path)
            self.send_response(302)
            self.send_header("Location", f"http://127.0.0.1:{server.server_port}/elsewhere")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    with HTTPServer(("127.0.0.1", 0), Redirects) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}"
        try:
            with pytest.raises(RuntimeError, match="302"):
                RemoteJobs(address, headers={"Authorization": "Bearer secret"})
            with pytest.raises(RayStateApiException, match="302"):
                rest.ask(address, "/api/v0/tasks", 5)
        finally:
            server.shutdown()
    assert len(seen) == 2 and not any("elsewhere" in path for path in seen)
