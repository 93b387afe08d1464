"""Records on disk: what was acknowledged is there after SIGKILL, and two heads never have the same folder or epoch."""

from __future__ import annotations

import os
import resource
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from skate.node.registry.sqlite_store import FILE_NAME, SqliteStore, remote_type
from skate.node.registry.store import Change, StoreFullError, StoreTakenError

#: Writes rising numbers under a few keys, and prints each once it is durable; every commit has two keys.
WRITER = """
import sys
from skate.node.registry.sqlite_store import SqliteStore
from skate.node.registry.store import Change
store = SqliteStore(sys.argv[1])
print("epoch", store.open().epoch, flush=True)
number = 0
while True:
    number += 1
    text = str(number).encode()
    store.append([Change(b"last", text), Change(b"key%d" % (number % 7), text), Change(b"twin", text)])
    print(number, flush=True)
"""


def test_the_last_value_of_each_key_is_there_again(tmp_path: Path) -> None:
    store = SqliteStore(str(tmp_path / "state"))
    assert store.open() == (1, {})
    store.append([Change(b"a", b"1"), Change(b"b", b"2"), Change(b"a", b"3")])
    store.append([Change(b"b", None), Change(b"c", b"\0" * 100_000), Change(b"never", None)])
    store.append([Change(b"a", b"4"), Change(b"b", b"5")])
    store.close()
    again = SqliteStore(str(tmp_path / "state"))
    opened = again.open()
    assert opened == (2, {b"a": b"4", b"c": b"\0" * 100_000, b"b": b"5"})
    assert list(opened.records) == [b"a", b"c", b"b"]  # each where it was written first
    again.close()
    again.close()
    assert (tmp_path / "state").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "state" / FILE_NAME).stat().st_mode & 0o777 == 0o600


def test_an_opening_that_writes_nothing_counts_as_an_epoch(tmp_path: Path) -> None:
    for epoch in (1, 2, 3):
        store = SqliteStore(str(tmp_path))
        assert store.open().epoch == epoch
        store.close()


def test_a_folder_has_one_head(tmp_path: Path) -> None:
    store = SqliteStore(str(tmp_path))
    store.open()
    with pytest.raises(StoreTakenError, match=rf"process {os.getpid()}\)"):
        SqliteStore(str(tmp_path)).open()
    store.close()
    other = SqliteStore(str(tmp_path))
    assert other.open().epoch == 2  # the attempt in between has counted nothing
    other.close()


def test_what_was_acknowledged_survives_sigkill(tmp_path: Path) -> None:
    seen = 0
    for epoch in (1, 2, 3):
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE, text=True
        )
        assert writer.stdout is not None
        assert writer.stdout.readline() == f"epoch {epoch}\n"
        for line in writer.stdout:
            seen = int(line)
            if seen == 20 * epoch:
                break
        writer.send_signal(signal.SIGKILL)
        for line in writer.stdout:  # what it has printed before the signal came
            seen = int(line)
        writer.wait()
        writer.stdout.close()
        database = sqlite3.connect(f"file:{tmp_path / FILE_NAME}?mode=ro", uri=True)
        records = dict(database.execute("SELECT key, value FROM records"))
        database.close()
        last = int(records[b"last"])
        assert last in (seen, seen + 1)  # one commit may not have been printed yet
        assert records[b"twin"] == records[b"last"] == records[b"key%d" % (last % 7)]  # a commit is whole


def test_a_full_disk_is_named_and_loses_nothing(tmp_path: Path) -> None:
    store = SqliteStore(str(tmp_path))
    store.open()
    store.append([Change(b"before", b"here")])
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(
        resource.RLIMIT_FSIZE, (300_000, before[1])
    )  # every write beyond fails, as on a full disk
    try:
        with pytest.raises(StoreFullError, match=str(tmp_path)):
            store.append([Change(b"small", b"1"), Change(b"large", b"x" * 1_000_000)])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)
    store.append([Change(b"after", b"too")])
    store.close()
    again = SqliteStore(str(tmp_path))
    assert again.open().records == {b"before": b"here", b"after": b"too"}
    again.close()


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_bytes(b"not a database at all" * 100)
    with pytest.raises(ValueError, match="restore it from a copy"):
        SqliteStore(str(tmp_path)).open()
    (tmp_path / FILE_NAME).unlink()
    store = SqliteStore(str(tmp_path))  # the lock was released
    assert store.open().epoch == 1
    store.close()


def test_tables_of_another_version_are_refused(tmp_path: Path) -> None:
    database = sqlite3.connect(tmp_path / FILE_NAME)
    database.execute("PRAGMA user_version=99")
    database.close()
    with pytest.raises(ValueError, match="version 99"):
        SqliteStore(str(tmp_path)).open()


def test_file_systems_of_a_network_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    device = os.stat(tmp_path).st_dev
    mounts = tmp_path / "mountinfo"
    number = f"{os.major(device)}:{os.minor(device)}"
    for kind, found in (("nfs4", "nfs4"), ("ext4", ""), ("fuse.sshfs", "fuse.sshfs")):
        mounts.write_text(f"36 35 {number} / {tmp_path} rw shared:1 - {kind} server:/state rw\n")
        assert remote_type(str(tmp_path), str(mounts)) == found
    monkeypatch.setattr("skate.node.registry.sqlite_store.remote_type", lambda folder: "nfs4")
    with pytest.raises(ValueError, match="nfs4, which is on another machine"):
        SqliteStore(str(tmp_path)).open()
