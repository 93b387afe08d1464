"""The folder of a node's log files: one budget, ended streams go first."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from skate.node.output import log_folder
from skate.node.output.log_folder import LogFolder


def names(folder: LogFolder) -> list[str]:
    return [entry.name for entry in log_folder.entries(folder.path)]


def test_lines_of_a_stream_are_in_its_file(tmp_path: Path) -> None:
    folder = LogFolder(str(tmp_path / "logs"))
    one, other = folder.open("worker-a-01-7.out"), folder.open("serve/replica.log")
    one.write(b"first\n")
    other.write(b"there\n")
    one.write(b"second\n")
    assert names(folder) == ["serve/replica.log", "worker-a-01-7.out"]
    assert log_folder.read(folder.path, "worker-a-01-7.out", 0, 100) == b"first\nsecond\n"
    assert log_folder.read(folder.path, "worker-a-01-7.out", 6, 3) == b"sec"
    assert log_folder.read(folder.path, "worker-a-01-7.out", -7, 100) == b"second\n"
    assert log_folder.read(folder.path, "serve/replica.log", 100, 10) == b""
    assert (tmp_path / "logs").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "logs" / "serve" / "replica.log").stat().st_mode & 0o777 == 0o600


def test_the_oldest_ended_streams_go_first(tmp_path: Path) -> None:
    folder = LogFolder(str(tmp_path), budget_bytes=800)
    streams = [folder.open(f"{number}.out") for number in range(8)]
    for stream in streams:
        stream.write(b"x" * 99 + b"\n")
    for number in (3, 1):
        streams[number].close()
    assert len(names(folder)) == 8
    folder.open("new.out").write(b"y" * 50)
    assert names(folder) == ["0.out", "1.out", "2.out", "4.out", "5.out", "6.out", "7.out", "new.out"]
    folder.open("newer.out").write(b"y" * 90)
    assert "1.out" not in names(folder)
    streams[3].write(b"too late")
    assert "3.out" not in names(folder)


def test_a_long_stream_continues_in_a_new_file(tmp_path: Path) -> None:
    folder = LogFolder(str(tmp_path), budget_bytes=8000)
    stream = folder.open("long.err")
    for number in range(1000):
        stream.write(b"%05d\n" % number)
    whole = log_folder.read(folder.path, "long.err.1", 0, 9999) + log_folder.read(
        folder.path, "long.err", 0, 9999
    )
    lines = [int(line) for line in whole.splitlines()]
    assert lines == list(range(lines[0], 1000)) and 1000 < len(whole) <= 2000
    assert len(names(folder)) == 2


def test_open_streams_stay_within_the_budget(tmp_path: Path) -> None:
    folder = LogFolder(str(tmp_path), budget_bytes=1000)
    streams = [folder.open(f"{number}.out") for number in range(30)]
    for _ in range(20):
        for stream in streams:
            stream.write(b"z" * 49 + b"\n")
            assert sum(entry.size_bytes for entry in log_folder.entries(folder.path)) <= 1000


def test_files_of_an_earlier_node_count_as_ended(tmp_path: Path) -> None:
    earlier = LogFolder(str(tmp_path))
    earlier.open("old.out").write(b"o" * 900)
    with pytest.raises(ValueError, match="another node writes its logs"):
        LogFolder(str(tmp_path))
    earlier.close()
    folder = LogFolder(str(tmp_path), budget_bytes=1000)
    stream = folder.open("new.out")
    stream.write(b"n" * 90)
    assert names(folder) == ["new.out", "old.out"]
    stream.write(b"n" * 30)
    assert names(folder) == ["new.out"]


@pytest.mark.parametrize("name", ["", "../x", "/etc/passwd", "a/../../x", "a//b", "a\0b"])
def test_a_name_cannot_leave_the_folder(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="not the name"):
        LogFolder(str(tmp_path)).open(name)
    with pytest.raises(ValueError, match="not the name"):
        log_folder.read(str(tmp_path), name, 0, 1)


def test_a_full_disk_is_counted_in_whole_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = LogFolder(str(tmp_path))
    stream, other = folder.open("worker-a-01-7.out"), folder.open("worker-b-01-8.out")
    really = os.write
    room = 20

    def write_what_fits(fd: int, data: bytes) -> int:
        nonlocal room
        if not room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written = really(fd, bytes(data)[:room])
        room -= written
        return written

    with monkeypatch.context() as patch:
        patch.setattr("skate.node.output.log_folder.os.write", write_what_fits)
        stream.write(b"123456789\n" * 2)
        stream.write(b"lost\n")
        other.write(b"gone\n")
        room = 14
        stream.write(b"lost too\n")  # the line about that needs more room
    stream.write(b"after\n")
    assert log_folder.read(folder.path, stream.name, 0, 1000) == (
        b"123456789\n123456789\n[skate: 14 bytes of this log are lost: No space left on device]\nafter\n"
    )
    other.close()
    assert b"5 bytes of this log are lost" in log_folder.read(folder.path, other.name, 0, 1000)
    sizes = {entry.name: entry.size_bytes for entry in log_folder.entries(folder.path)}
    assert stream.size_bytes == sizes[stream.name] and sum(sizes.values()) == folder._total
