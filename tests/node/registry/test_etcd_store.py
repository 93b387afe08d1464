"""Records in a real etcd; skipped where Debian's package etcd-server is not installed."""

from __future__ import annotations

import base64
import json
import shutil
import signal
import socket
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from skate.node.registry.etcd_store import EtcdStore
from skate.node.registry.store import Change, StoreLostError, StoreTakenError
from tests.conformance.waiting import wait_for

#: Opens a store, and waits for its end.
HOLDER = """
import sys
from skate.node.registry.etcd_store import EtcdStore
from skate.node.registry.store import Change
store = EtcdStore(sys.argv[1], 2)
store.open()
store.append([Change(b"of the holder", b"1")])
print("open", flush=True)
sys.stdin.read()
"""


#: Opens a store, writes on request, and says when it has lost it.
STOPPED = """
import sys
from skate.node.registry.etcd_store import EtcdStore
from skate.node.registry.store import Change
store = EtcdStore(sys.argv[1], 1)
say = lambda text: print(f"{text}{chr(10)}", end="", flush=True)  # in one piece, from two threads
store.on_lost = say
store.open()
print("open", flush=True)
for line in sys.stdin:
    try:
        store.append([Change(b"key", b"value")])
        say("written")
    except ConnectionError as error:
        say(error)
"""


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Run etcd; return its address."""
    if shutil.which("etcd") is None:
        pytest.skip("etcd not found; `apt-get install etcd-server` installs it on Debian")
    folder: Path = tmp_path_factory.mktemp("etcd")
    client, peer = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
    flags = ["--listen-client-urls", client, "--advertise-client-urls", client, "--listen-peer-urls", peer]
    flags += ["--initial-advertise-peer-urls", peer, "--initial-cluster", f"default={peer}"]
    with open(folder / "log", "wb") as log:
        process = subprocess.Popen(
            ["etcd", "--data-dir", str(folder / "data"), *flags], stdout=log, stderr=log
        )

    def is_up() -> bool:
        try:
            with urllib.request.urlopen(f"{client}/health", timeout=5) as answer:
                return b"true" in answer.read()
        except OSError:
            return False

    try:
        wait_for(is_up, 60, "etcd")
        yield client.removeprefix("http://")
    finally:
        process.kill()
        process.wait()


def test_the_last_value_of_each_key_is_there_again(server: str) -> None:
    store = EtcdStore(f"etcd://{server}/values")
    assert store.open() == (1, {})
    store.append([Change(b"z", b"1"), Change(b"z", b"2")])
    store.append([Change(b"a\xff/", b"\0" * 700_000), Change(b"b", b"x" * 700_000)])  # two transactions
    store.append([Change(b"k%d" % number, b"") for number in range(250)])
    store.append([Change(b"k%d" % number, None) for number in range(249)])
    store.close()
    again = EtcdStore(f"etcd://{server}/values")
    epoch, records = again.open()
    again.close()
    again.close()
    assert epoch == 2
    assert records == {b"z": b"2", b"a\xff/": b"\0" * 700_000, b"b": b"x" * 700_000, b"k249": b""}
    assert list(records) == [b"z", b"a\xff/", b"b", b"k249"]
    other = EtcdStore(f"etcd://{server}/other")
    assert other.open() == (1, {})
    other.close()


def test_a_head_follows_a_dead_one_when_its_lease_is_over(server: str) -> None:
    url = f"etcd://{server}/leases"
    command = [sys.executable, "-c", HOLDER, url]
    holder = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert holder.stdin is not None and holder.stdout is not None
    try:
        assert holder.stdout.readline() == "open\n"
        with pytest.raises(StoreTakenError, match=f"process {holder.pid} on"):
            EtcdStore(url, 1).open()
    finally:
        holder.send_signal(signal.SIGKILL)
        holder.wait()
        holder.stdin.close()
        holder.stdout.close()
    store = EtcdStore(url, 3)
    assert store.open() == (2, {b"of the holder": b"1"})
    store.close()


def test_a_head_that_has_lost_its_place_writes_nothing(server: str) -> None:
    url = f"etcd://{server}/places"
    old = EtcdStore(url, 1)
    old.open()
    old._ended.set()  # as if it were stopped: its lease is not renewed
    new = EtcdStore(url, 5)
    assert new.open().epoch == 2
    new.append([Change(b"key", b"new")])
    with pytest.raises(StoreLostError, match="another head"):
        old.append([Change(b"key", b"old")])
    old.close()
    new.append([Change(b"other", b"new")])  # the end of the old one has not taken its place away
    new.close()
    last = EtcdStore(url)
    assert last.open().records == {b"key": b"new", b"other": b"new"}
    last.close()


def test_a_head_that_was_stopped_takes_its_place_back_unless_another_has_begun(server: str) -> None:
    url = f"etcd://{server}/stopped"
    command = [sys.executable, "-c", STOPPED, url]
    holder = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert holder.stdin is not None and holder.stdout is not None
    try:
        assert holder.stdout.readline() == "open\n"
        for answer in ("written", "another head has taken over"):
            holder.send_signal(signal.SIGSTOP)
            wait_for(lambda: not _has_head(server, "stopped"), 20, "the end of its lease")
            if answer != "written":
                other = EtcdStore(url, 2)
                assert other.open().epoch == 2
            holder.send_signal(signal.SIGCONT)
            if answer == "written":
                wait_for(lambda: _has_head(server, "stopped"), 20, "its return")
            holder.stdin.write("write\n")
            holder.stdin.flush()
            assert answer in holder.stdout.readline()
        assert "another head has taken over" in holder.stdout.readline()  # it was told
        other.append([Change(b"of the other", b"1")])
        other.close()
    finally:
        holder.kill()
        holder.communicate()


def _has_head(server: str, cluster: str) -> bool:
    key = base64.b64encode(f"skate/{cluster}/head".encode()).decode()
    with urllib.request.urlopen(f"http://{server}/v3/kv/range", json.dumps({"key": key}).encode()) as answer:
        return "kvs" in json.load(answer)


def test_a_head_ends_before_its_lease_if_etcd_is_not_reached(
    server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = EtcdStore(f"etcd://{server}/silent", 2)
    told: list[str] = []
    store.on_lost = told.append
    store.open()
    call = store._call

    def fails(path: str, *given: object) -> object:
        if path == "lease/keepalive" and not told:
            raise ConnectionError("no answer")
        return call(path, *given)  # type: ignore[arg-type]

    monkeypatch.setattr(store, "_call", fails)
    wait_for(lambda: told, 20, "the news")
    assert "was not reached for" in told[0]
    store.close()


def test_who_waits_for_its_turn_keeps_its_own_lease(server: str) -> None:
    url = f"etcd://{server}/turns"
    first = EtcdStore(url, 3)
    first.open()
    end = threading.Timer(2.5, first.close)
    end.start()
    second = EtcdStore(url, 2)
    assert second.open().epoch == 2  # after more time than its lease
    second.append([Change(b"key", b"value")])
    second.close()
    end.join()


def test_addresses_and_servers_that_are_none() -> None:
    for url in ("etcd://host:2379", "etcd://host/cluster", "http://host:2379/cluster"):
        with pytest.raises(ValueError, match="etcd://HOST:2379/CLUSTER"):
            EtcdStore(url)
    with pytest.raises(ConnectionError, match="cannot be reached"):
        EtcdStore(f"etcd://127.0.0.1:{free_port()}/cluster").open()
