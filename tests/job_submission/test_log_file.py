"""The log of a job: never larger than its limit, read completely by a reader that keeps up, and honest about losses."""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skate.job_submission.log_file import JobLogReader, JobLogWriter, last_words, read_all

LIMIT = 1 << 13


def drained(reader: JobLogReader) -> str:
    return "".join(iter(reader.read, ""))


@given(
    sizes=st.lists(st.integers(1, 3000), max_size=30), looks=st.lists(st.booleans(), min_size=30, max_size=30)
)
def test_a_reader_that_keeps_up_reads_everything(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], looks: list[bool]
) -> None:
    path = str(tmp_path_factory.mktemp("log") / "job.log")
    writer, reader = JobLogWriter(path, LIMIT), JobLogReader(path)
    said = found = ""
    for number, (size, look) in enumerate(zip(sizes, looks, strict=False)):
        # At most every second piece is unread, so the reader is never two files behind.
        said += chr(65 + number % 26) * size
        writer.write(said[-size:].encode())
        if look or number % 2:
            found += drained(reader)
    found += drained(reader)
    assert re.sub(r"\[skate: .*?\]\n", "", found) == said
    assert sum(file.stat().st_size for file in Path(path).parent.iterdir()) <= LIMIT
    writer.close()
    reader.close()


def test_what_is_given_up_is_said(tmp_path: Path) -> None:
    path = str(tmp_path / "job.log")
    writer = JobLogWriter(path, LIMIT)
    for number in range(30):
        writer.write(f"{number:04}".encode() * 250)
    writer.close()
    text = read_all(path)
    lost = sum(
        int(each)
        for each in re.findall(r"skate: (\d+) bytes of this log are lost: the log had reached", text)
    )
    assert lost and "0029" in text and "0001" not in text
    assert len(re.findall(r"\d{4}", re.sub(r"\[skate.*?\]", "", text))) * 4 <= 30_000 - lost + LIMIT


def test_a_full_disk_blocks_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(tmp_path / "job.log")
    writer = JobLogWriter(path, LIMIT)
    writer.write(b"before\n")

    def full(fd: int, data: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr("skate.job_submission.log_file.os.write", full)
        writer.write(b"lost\n")
    writer.write(b"after\n")
    writer.close()
    assert read_all(path) == "before\n[skate: 5 bytes of this log are lost: No space left on device]\nafter\n"


def test_characters_of_several_bytes_are_not_cut(tmp_path: Path) -> None:
    path = str(tmp_path / "job.log")
    assert read_all(path) == last_words(path) == ""
    writer, reader = JobLogWriter(path, LIMIT), JobLogReader(path)
    writer.write("ä".encode()[:1])
    assert reader.read() == ""
    writer.write("ä".encode()[1:] + b"\xff\n")
    assert reader.read() == "ä\ufffd\n"
    writer.write(b"".join(b"line %d\n" % number for number in range(100)))
    assert last_words(path).splitlines() == [f"line {number}" for number in range(90, 100)]
    writer.close()
    reader.close()
