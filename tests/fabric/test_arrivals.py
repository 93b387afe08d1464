"""Nodes pass on a value while they receive it: in order of rank, piece by piece, and never without end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from skate.fabric import bulk
from skate.fabric.arrivals import Arrival, Arrivals, Visit
from skate.fabric.bulk import CHUNK_BYTES, CHUNK_BYTES_MIN, chunk_bytes
from tests.fabric.clusters import MeshCluster, Node

SIZE = 8 << 20
CHUNK = chunk_bytes(SIZE)
VALUE = bytes(range(256)) * (SIZE // 256)

# -- the table


def read(arrivals: Arrivals, at: int, visit: Visit, size: int = 10) -> list[int | None]:
    answers: list[int | None] = []
    arrivals.read(b"key", at, size, visit, answers.append)
    return answers


def test_a_reader_waits_for_bytes_on_their_way() -> None:
    arrivals, visit = Arrivals(), Visit(2)
    arrival = arrivals.begin(b"key", 1000, 30, 1)
    first, last = read(arrivals, 0, visit), read(arrivals, 20, visit)
    arrival.progressed(9)
    assert (first, last) == ([], [])
    arrival.progressed(10)
    assert (first, last) == ([1000], [])
    assert read(arrivals, 0, visit) == [1000]
    assert [wait.at for wait in arrivals.end(arrival, True)] == [20]
    assert not arrivals.by_key
    assert Arrivals.may_continue(visit, 1000) and not Arrivals.may_continue(visit, 2000)


@pytest.mark.parametrize("rank", [0, 1, 2])
def test_a_node_waits_only_for_a_read_of_a_lower_rank(rank: int) -> None:
    arrivals = Arrivals()
    arrivals.begin(b"key", 0, 30, 2)
    assert read(arrivals, 0, Visit(rank)) == [None]


def test_what_is_not_on_its_way_is_not_waited_for() -> None:
    arrivals = Arrivals()
    arrivals.begin(b"key", 0, 30, 1)
    assert read(arrivals, 25, Visit(2)) == [None]
    assert read(arrivals, 0, Visit(2), size=31) == [None]
    answers: list[int | None] = []
    arrivals.read(b"other", 0, 10, Visit(2), answers.append)
    assert answers == [None]


def test_nobody_mixes_the_bytes_of_two_reads() -> None:
    """Both may be of attempts of a task, which need not make the same bytes."""
    arrivals, visit = Arrivals(), Visit(2)
    first = arrivals.begin(b"key", 0, 30, 1)
    first.progressed(10)
    assert read(arrivals, 0, visit) == [0]
    arrivals.end(first, False)
    assert not Arrivals.may_continue(visit, 0)
    second = arrivals.begin(b"key", 0, 30, 1)
    second.progressed(20)
    assert read(arrivals, 10, visit) == [None]
    assert read(arrivals, 10, Visit(2)) == [None], "a reader that continues has begun elsewhere"
    begun_complete = Visit(2)
    assert Arrivals.may_continue(begun_complete, 0)
    assert read(arrivals, 0, begun_complete) == [None]


def test_sizes_of_chunks() -> None:
    assert chunk_bytes(1) == CHUNK_BYTES_MIN
    assert chunk_bytes(64 << 20) == 1 << 20
    assert chunk_bytes(1 << 40) == CHUNK_BYTES


# -- between nodes


class Passing:
    """A node that reads a value of another one, and passes it on."""

    def __init__(self, node: Node, source: Node, rank: int) -> None:
        self.node = node
        self.memory = bytearray(SIZE)
        self.arrivals = Arrivals()
        self.done: list[bool] = []
        self.arrival: Arrival = self.arrivals.begin(b"key", 0, SIZE, rank)
        node.handler.read = self.read  # type: ignore[method-assign]
        space = memoryview(self.memory)
        node.fabric.fetch(node.id_of(source), b"key", SIZE, self.write, self.end, lambda: space, self.arrival)

    def write(self, at: int, piece: Any) -> None:
        self.memory[at : at + len(piece)] = piece

    def end(self, success: bool) -> None:
        if success:
            self.node.handler.values[b"key"] = self.memory  # type: ignore[assignment]
        for wait in self.arrivals.end(self.arrival, success):
            wait.answer(wait.at if success else None)
        self.done.append(success)

    def read(self, key: bytes, at: int, size: int, answer: Callable[[Any], None], visit: Visit) -> None:
        def answer_with(offset: int | None) -> None:
            answer(None if offset is None else memoryview(self.memory)[offset : offset + size])

        if key in self.node.handler.values and Arrivals.may_continue(visit, 0):
            answer_with(at)
        else:
            self.arrivals.read(key, at, size, visit, answer_with)


class Gate:
    """Holds the chunks of a source back from an offset on, until it is opened."""

    def __init__(self, node: Node, at: int) -> None:
        self.late: list[Callable[[], None]] = []
        self.at = at
        read = node.handler.read

        def gated(key: bytes, at: int, size: int, answer: Callable[[Any], None], visit: Any) -> None:
            if at < self.at:
                read(key, at, size, answer, visit)
            else:
                self.late.append(lambda: read(key, at, size, answer, visit))

        node.handler.read = gated  # type: ignore[method-assign]

    def open(self) -> None:
        self.at = SIZE + 1
        for call in self.late:
            call()


@pytest.fixture
def mesh() -> Iterator[MeshCluster]:
    found = MeshCluster()
    found.start(5)
    found.nodes[1].handler.values[b"key"] = VALUE
    yield found
    found.close()


def chain(mesh: MeshCluster) -> list[Passing]:
    _, source, *readers = mesh.nodes
    passing = []
    for rank, node in enumerate(readers, 1):
        passing.append(Passing(node, source, rank))
        source = node
    return passing


def test_a_chain_passes_a_value_on_before_anyone_has_all_of_it(mesh: MeshCluster) -> None:
    gate = Gate(mesh.nodes[1], SIZE // 2)
    readers = chain(mesh)
    mesh.until(lambda: readers[-1].arrival.got > SIZE // 4)
    assert not any(each.done for each in readers)
    gate.open()
    mesh.until(lambda: all(each.done for each in readers))
    assert all(each.done == [True] and each.memory == VALUE for each in readers)
    assert len({purpose for _, purpose, *_ in mesh.engine.pairs if purpose == "bulk"}) == 1


def test_a_link_of_a_chain_that_dies_ends_the_reads_behind_it(mesh: MeshCluster) -> None:
    gate = Gate(mesh.nodes[1], SIZE // 2)
    first, second, third = chain(mesh)
    mesh.until(lambda: third.arrival.got > 0)
    mesh.kill(second.node)
    mesh.until(lambda: bool(third.done))
    assert third.done == [False]
    gate.open()
    mesh.until(lambda: bool(first.done))
    assert first.done == [True] and first.memory == VALUE


def test_a_link_of_a_chain_whose_read_fails_ends_those_behind_it(mesh: MeshCluster) -> None:
    gate = Gate(mesh.nodes[1], SIZE // 2)
    readers = chain(mesh)
    mesh.until(lambda: readers[-1].arrival.got > 0)
    mesh.nodes[1].handler.values.clear()
    gate.open()
    mesh.until(lambda: all(each.done for each in readers))
    assert [each.done for each in readers] == [[False]] * 3


def test_a_reader_loses_its_patience_with_a_source_that_gets_nothing(
    mesh: MeshCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "READ_SECONDS", 0.2)
    gate = Gate(mesh.nodes[1], SIZE // 2)
    first, second, third = chain(mesh)
    mesh.until(lambda: bool(second.done and third.done))
    assert (second.done, third.done, first.done) == ([False], [False], [])
    gate.open()
    mesh.until(lambda: bool(first.done))
    assert first.done == [True]
