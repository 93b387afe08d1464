"""Downloads of URIs."""

from __future__ import annotations

import io
import sys
import types
import urllib.request
from pathlib import Path

import pytest

from skate.exceptions import RuntimeEnvSetupError
from skate.runtime_env.deadline import Deadline
from skate.runtime_env.remote import fetch, file_path, shown_uri

FOREVER = Deadline(None)


def test_a_file(tmp_path: Path) -> None:
    (tmp_path / "a b.zip").write_text("x")
    fetch(f"file://{tmp_path}/a%20b.zip", tmp_path / "out", FOREVER)
    assert (tmp_path / "out").read_text() == "x"
    with pytest.raises(RuntimeEnvSetupError, match=r"gone\.zip cannot be fetched: FileNotFoundError"):
        fetch(f"file://{tmp_path}/gone.zip", tmp_path / "out", FOREVER)


def test_https_without_any_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    requested: list[str] = []

    def urlopen(uri: str, timeout: float) -> io.BytesIO:
        requested.append(uri)
        return io.BytesIO(b"x" * 3_000_000)

    monkeypatch.setattr(urllib.request, "urlopen", urlopen)
    fetch("https://host/a.zip?signature=s", tmp_path / "out", FOREVER)
    assert requested == ["https://host/a.zip?signature=s"]
    assert (tmp_path / "out").stat().st_size == 3_000_000


def test_other_file_systems_go_through_fsspec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = types.SimpleNamespace(open=lambda: io.BytesIO(b"remote"))
    stand_in = types.SimpleNamespace(open=lambda uri, mode: opened)
    monkeypatch.setitem(sys.modules, "fsspec", stand_in)
    fetch("s3://bucket/a.zip", tmp_path / "out", FOREVER)
    assert (tmp_path / "out").read_bytes() == b"remote"


def test_without_fsspec_the_error_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(
        RuntimeEnvSetupError, match=r"s3://bucket/a\.zip.*needs the package fsspec.*pip install"
    ):
        fetch("s3://bucket/a.zip", tmp_path / "out", FOREVER)


def test_the_time_limit_holds(tmp_path: Path) -> None:
    (tmp_path / "a.zip").write_text("x")
    with pytest.raises(RuntimeEnvSetupError, match="cut off while fetching"):
        fetch(f"file://{tmp_path}/a.zip", tmp_path / "out", Deadline(0))


def test_secrets_are_not_shown() -> None:
    assert shown_uri("https://me:pw@host:1/a.zip?sig=1#x") == "https://host:1/a.zip?..."
    assert shown_uri("s3://bucket/a.zip") == "s3://bucket/a.zip"


def test_paths_of_file_uris() -> None:
    assert [file_path(uri) for uri in ("file:///a/b", "file://localhost/a", "local:///x%20y")] == [
        *("/a/b", "/a", "/x y"),
    ]
