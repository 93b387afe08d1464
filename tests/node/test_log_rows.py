"""Log files as other processes read them: names, pieces while a file grows and rotates, and nothing outside of the folder."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from skate.client.state import worker_output
from skate.node.output import log_rows
from skate.node.output.log_folder import LogFolder
from skate.util.state.exception import RayStateApiException
from skate.util.state.log_files import FileReader, group_of, stream_of
from skate.util.state.logs import list_logs

NAME = "worker-0a-01-7.out"


@pytest.fixture
def reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], FileReader]:
    """Return readers of NAME, which ask `folder` directly."""

    def ask(where: dict[str, Any], timeout: float) -> list[dict[str, Any]]:
        node = {"node_id": "aa", "node_ip": "127.0.0.1"}
        found = [{**node, **row} for row in log_rows.rows(folders[0], where)] if "file" in where else []
        return [*found, {**node, "pid": 8, "stream": "out"}] if where in ({}, {"stream": "out"}) else found

    folders = [LogFolder(str(tmp_path / "logs"), budget_bytes=8000)]
    monkeypatch.setattr(worker_output, "_ask", ask)
    monkeypatch.setattr(log_rows, "PIECE_BYTES", 100)
    monkeypatch.setattr("skate.util.state.log_files.PIECE_BYTES", 100)
    made = lambda: FileReader((None, None), NAME, 1.0)  # noqa: E731
    made.folder = folders[0]  # type: ignore[attr-defined]
    return made


def numbered(first: int, last: int) -> str:
    return "".join(f"line {number:04d}\n" for number in range(first, last))


def test_the_last_lines_and_those_that_follow(reader: Any) -> None:
    stream = reader.folder.open(NAME)
    stream.write(numbered(0, 70).encode())
    for tail in (0, 1, 9, 10, 11, 35, 70, 100):
        assert reader().first(tail) == numbered(max(0, 70 - tail), 70), tail
    assert reader().first(-1) == numbered(0, 70)
    one = reader()
    one.first(1)
    assert one.more() == ""
    stream.write(numbered(70, 100).encode())
    stream.close()
    texts = []
    while (text := one.more()) is not None:
        texts.append(text)
    assert "".join(texts) == numbered(70, 100) and len(texts) > 2
    assert all(text.endswith("\n") for text in texts)


def test_a_reader_follows_into_the_next_file(reader: Any) -> None:
    stream = reader.folder.open(NAME)
    stream.write(numbered(0, 50).encode())
    slow = reader()
    assert slow.first(1) == numbered(49, 50)
    stream.write(numbered(50, 90).encode())
    assert not os.path.exists(f"{reader.folder.path}/{NAME}.1")
    stream.write(numbered(90, 120).encode())  # more than an eighth of the budget: a new file
    assert os.path.exists(f"{reader.folder.path}/{NAME}.1")
    texts = [slow.more() for _ in range(20)]
    assert "".join(text or "" for text in texts) == numbered(50, 120)
    # Two rotations between two looks: what was removed is not passed over in silence.
    for first in (120, 220, 320):
        stream.write(numbered(first, first + 90).encode())
    text = slow.more()
    assert text is not None and text.startswith("[lines are missing")
    stream.close()


def test_nothing_outside_of_the_folder_is_read(reader: Any, tmp_path: Path) -> None:
    (tmp_path / "secret.out").write_text("secret")
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "secret.out").write_text("secret")
    logs = tmp_path / "logs"
    (logs / "link.out").symlink_to(tmp_path / "secret.out")
    (logs / "folder").symlink_to(tmp_path / "deep")
    (logs / "itself").symlink_to("itself")
    os.mkfifo(logs / "pipe.out")
    for name in (
        "../secret.out", "link.out", "folder/secret.out", "pipe.out", "itself", ".", "..", "/", "", "a\0b",
        "logs/../../secret.out", str(tmp_path / "secret.out"), "./link.out", "x" * 5000, "folder",
    ):  # fmt: skip
        found = log_rows.rows(reader.folder, {"file": name, "at": "0"}) if name else ()
        assert found == (), name
    for at, turn in (("x", "0"), ("0", "x"), ("9" * 30, "0")):
        reader.folder.open(NAME).write(b"text\n")
        assert log_rows.rows(reader.folder, {"file": NAME, "at": at, "turn": turn}) == ()


def test_files_are_listed_under_rays_groups(reader: Any) -> None:
    worker = "worker-" + "0" * 56 + "-01000000-8.out"
    for name in (worker, worker.replace(".out", ".err"), "serve/replica.log"):
        reader.folder.open(name).write(b"x\n")
    assert list_logs() == {
        "internal": ["serve/replica.log"],
        "worker_err": [worker.replace(".out", ".err")],
        "worker_out": [worker],  # and not the same stream again from memory
    }
    assert list_logs(glob_filter="serve/*") == {"internal": ["serve/replica.log"]}
    assert (group_of(worker + ".1"), stream_of(worker + ".1")) == ("worker_out", (8, "out"))
    assert stream_of("serve/replica.log") is None


def test_a_file_that_is_removed(reader: Any) -> None:
    with pytest.raises(RayStateApiException, match="list_logs"):
        reader().first(3)
    reader.folder.open(NAME).write(b"x\n")
    one = reader()
    assert one.first(-1) == "x\n"
    os.unlink(f"{reader.folder.path}/{NAME}")
    assert one.more() is None
