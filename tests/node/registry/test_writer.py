"""The thread that writes records: in order, in batches, and with an outcome for each number."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from skate.node.registry.store import Change, Opened, StoreFullError, StoreLostError
from skate.node.registry.writer import RecordWriter
from tests.conformance.waiting import wait_for


class Memory:
    """A store in memory, which a test stops or fills."""

    name = "memory"

    def __init__(self) -> None:
        self.commits: list[list[bytes]] = []
        self.gate = threading.Event()
        self.gate.set()
        self.bytes_max = 10**9  # of one commit
        self.lost = False
        self.attempts = 0
        self.closed = False

    def open(self) -> Opened:
        return Opened(1, {})

    def append(self, changes: Sequence[Change]) -> None:
        self.attempts += 1
        assert self.gate.wait(30)
        if self.lost:
            raise StoreLostError("epoch 3 has begun")
        if sum(1 + len(value or b"") for _, value in changes) > self.bytes_max:
            raise StoreFullError("no space in /state")
        self.commits.append([key for key, _ in changes])

    def close(self) -> None:
        self.closed = True


class Outcomes:
    """The reports of a writer."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, object]] = []

    def stored(self, number: int) -> None:
        self.rows.append(("stored", number))

    def refused(self, number: int, problem: str) -> None:
        self.rows.append(("refused", (number, problem)))

    def lost(self, problem: str) -> None:
        self.rows.append(("lost", problem))


def put(key: bytes, size: int = 1) -> list[Change]:
    return [Change(key, bytes(size))]


def test_what_comes_during_a_commit_goes_into_the_next_one() -> None:
    store, outcomes = Memory(), Outcomes()
    store.gate.clear()
    writer = RecordWriter(store, outcomes)
    writer.append(1, put(b"1"))
    wait_for(lambda: store.attempts == 1, 30, "the first commit")
    for number in range(2, 101):
        writer.append(number, put(b"%d" % number))
    assert outcomes.rows == []
    store.gate.set()
    wait_for(lambda: outcomes.rows == [("stored", 1), ("stored", 100)], 30, "the second commit")
    assert [key for commit in store.commits for key in commit] == [b"%d" % number for number in range(1, 101)]
    writer.close()
    assert store.closed and len(store.commits) == 2


def test_without_space_large_records_are_refused_and_small_ones_stored() -> None:
    store, outcomes = Memory(), Outcomes()
    store.gate.clear()
    store.bytes_max = 100
    writer = RecordWriter(store, outcomes)
    writer.append(1, put(b"first"))
    wait_for(lambda: store.attempts == 1, 30, "the first commit")
    writer.append(2, put(b"small"))
    writer.append(3, put(b"large", 1000))
    writer.append(4, put(b"last"))
    store.gate.set()
    wanted = [("stored", 1), ("refused", (3, "no space in /state")), ("stored", 4)]
    wait_for(lambda: outcomes.rows == wanted, 30, "the outcomes")
    assert store.commits == [[b"first"], [b"small"], [b"last"]]
    writer.close()


def test_changes_without_a_number_are_written_and_not_reported() -> None:
    store, outcomes = Memory(), Outcomes()
    writer = RecordWriter(store, outcomes)
    writer.append(0, put(b"own"))
    wait_for(lambda: bool(store.commits), 30, "the first commit")
    store.bytes_max = 0
    writer.append(0, put(b"other"))
    writer.append(7, put(b"last"))
    wanted = [("refused", (7, "no space in /state")), ("stored", 7)]
    wait_for(lambda: outcomes.rows == wanted, 30, "the outcomes")
    writer.close()
    assert store.commits == [[b"own"]]


def test_a_store_that_another_head_has_is_not_written() -> None:
    store, outcomes = Memory(), Outcomes()
    store.lost = True
    writer = RecordWriter(store, outcomes)
    writer.append(1, put(b"1"))
    wait_for(lambda: store.closed, 30, "the end of the store")
    writer.append(2, put(b"2"))
    writer.close()
    assert outcomes.rows == [("lost", "epoch 3 has begun")] and store.commits == []


def test_closing_writes_what_is_queued() -> None:
    store, outcomes = Memory(), Outcomes()
    store.gate.clear()
    writer = RecordWriter(store, outcomes)
    writer.append(1, put(b"1"))
    wait_for(lambda: store.attempts == 1, 30, "the first commit")
    writer.append(2, put(b"2"))
    store.gate.set()
    writer.close()
    assert outcomes.rows == [("stored", 1), ("stored", 2)] and store.closed
