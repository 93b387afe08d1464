"""Large values over connections of their own: bounded, resumed after a break, and never wrong."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from skate.fabric import transfer
from skate.fabric.bulk import REQUEST, chunk_bytes
from tests.fabric.clusters import MeshCluster, Node, TLSCluster

SIZE = 20 << 20 | 17
CHUNK_BYTES = chunk_bytes(SIZE)


@pytest.fixture(params=[MeshCluster, TLSCluster])
def mesh(request: pytest.FixtureRequest) -> Iterator[MeshCluster]:
    found: MeshCluster = request.param()
    found.start(3)
    yield found
    found.close()


class Fetched:
    """A value that a node fetches into memory."""

    def __init__(self, to: Node, source: Node, key: bytes, size: int) -> None:
        self.memory = bytearray(size)
        self.pieces = 0
        self.done: list[bool] = []
        to.fabric.fetch(
            to.id_of(source), key, size, self.write, self.done.append, lambda: memoryview(self.memory)
        )
        to.fabric.flush()

    def write(self, at: int, piece: Any) -> None:
        self.pieces += 1
        self.memory[at : at + len(piece)] = piece


def value(seed: int, size: int = SIZE) -> bytes:
    return (bytes((seed + at) % 256 for at in range(256)) * (size // 256 + 1))[:size]


class Hook:
    """Calls a function before the chunk at an offset is lent."""

    def __init__(self, node: Node, at: int, call: Callable[[], object]) -> None:
        read = node.handler.read

        def hooked(key: bytes, offset: int, size: int, answer: Callable[[Any], None], visit: Any) -> None:
            if offset == at and not self.called:
                self.called = True
                call()
            read(key, offset, size, answer, visit)

        self.called = False
        node.handler.read = hooked  # type: ignore[method-assign]


def test_a_value_goes_into_memory_over_its_own_connection(mesh: MeshCluster) -> None:
    _, one, other = mesh.nodes
    one.handler.values[b"key"] = value(1)
    fetched = Fetched(other, one, b"key", SIZE)
    mesh.until(lambda: bool(fetched.done))
    assert fetched.done == [True] and bytes(fetched.memory) == value(1)
    assert not fetched.pieces
    assert [purpose for _, purpose, *_ in mesh.engine.pairs].count("bulk") == 1


def test_a_transfer_that_has_ended_lets_go_of_the_memory(mesh: MeshCluster) -> None:
    _, one, other = mesh.nodes
    one.handler.values[b"key"] = value(5)

    def is_free() -> bool:
        try:
            fetched.memory.clear()
        except BufferError:
            return False
        return True

    gc.disable()  # an arena that is closed now must not wait for the next collection
    try:
        fetched = Fetched(other, one, b"key", SIZE)
        mesh.until(lambda: bool(fetched.done))
        mesh.until(is_free)
    finally:
        gc.enable()


def test_a_transfer_continues_at_its_offset_after_a_break(mesh: MeshCluster) -> None:
    _, one, other = mesh.nodes
    one.handler.values[b"key"] = value(2)
    asked: list[int] = []
    Hook(one, 3 * CHUNK_BYTES, lambda: mesh.engine.cut(one.name, other.name, "bulk"))
    read = one.handler.read

    def noted(key: bytes, at: int, size: int, answer: Callable[[Any], None], visit: Any) -> None:
        asked.append(at)
        read(key, at, size, answer, visit)

    one.handler.read = noted  # type: ignore[method-assign]
    fetched = Fetched(other, one, b"key", SIZE)
    mesh.until(lambda: bool(fetched.done))
    assert fetched.done == [True] and bytes(fetched.memory) == value(2)
    assert asked.count(0) == 1, "the first chunk was right"
    assert not fetched.pieces
    assert [purpose for _, purpose, *_ in mesh.engine.pairs].count("bulk") == 2


def test_a_value_that_moves_is_not_taken_for_whole(mesh: MeshCluster) -> None:
    """Memory that was given away while a chunk was sent makes the chunk invalid."""
    _, one, other = mesh.nodes
    one.handler.values[b"key"] = value(3)

    def move() -> None:
        one.handler.values[b"key"] = bytes(SIZE)

    Hook(one, 2 * CHUNK_BYTES, move)
    fetched = Fetched(other, one, b"key", SIZE)
    mesh.until(lambda: bool(fetched.done))
    assert fetched.done == [False]


def test_a_value_that_is_freed_ends_its_transfer(mesh: MeshCluster) -> None:
    _, one, other = mesh.nodes
    one.handler.values[b"key"] = value(4)
    Hook(one, SIZE - 1, one.handler.values.clear)
    fetched = Fetched(other, one, b"key", SIZE)
    mesh.until(lambda: bool(fetched.done))
    assert fetched.done == [False]


def test_a_source_that_dies_ends_its_transfers(mesh: MeshCluster) -> None:
    _, one, other = mesh.nodes
    one.handler.values[b"key"] = value(5)
    Hook(one, 2 * CHUNK_BYTES, lambda: mesh.kill(one))
    fetched = [Fetched(other, one, b"key", SIZE) for _ in range(5)]
    mesh.until(lambda: all(each.done for each in fetched))
    assert [each.done for each in fetched] == [[False]] * 5
    assert other.fabric._transfers._running == set()


def test_without_a_connection_a_value_takes_the_lane(
    mesh: MeshCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, one, other = mesh.nodes
    one.handler.values[b"key"] = value(6)
    dial = other.fabric.carrier.dial

    def refusing(address: str, purpose: Any, opened: Any, failed: Any) -> None:
        if purpose == "bulk":
            mesh.engine.later(lambda: failed("no way"))
        else:
            dial(address, purpose, opened, failed)

    other.fabric.carrier.dial = refusing
    fetched = Fetched(other, one, b"key", SIZE)
    mesh.until(lambda: bool(fetched.done))
    assert fetched.done == [True] and bytes(fetched.memory) == value(6)
    assert fetched.pieces


def test_transfers_are_bounded(mesh: MeshCluster) -> None:
    head, one, other = mesh.nodes
    third = mesh.add()
    mesh.until(lambda: third.number in other.fabric.ids)
    most: list[int] = []
    for node in (head, one, third):
        for number in range(4):
            one_value = node.handler.values[b"%d" % number] = value(number)
            assert len(one_value) == SIZE
        read = node.handler.read

        def noted(*arguments: Any, read: Any = read) -> None:
            running = other.fabric._transfers._running
            most.append(len(running))
            assert all(sum(each.source == one.source for each in running) <= 2 for one in running)
            read(*arguments)

        node.handler.read = noted  # type: ignore[method-assign]
    fetched = [
        Fetched(other, node, b"%d" % number, SIZE) for node in (head, one, third) for number in range(4)
    ]
    mesh.until(lambda: all(each.done for each in fetched))
    assert all(each.done == [True] for each in fetched)
    assert [bytes(each.memory) == value(at % 4) for at, each in enumerate(fetched)] == [True] * 12
    assert max(most) == transfer.TRANSFERS_MAX


def test_messages_pass_while_a_value_moves(mesh: MeshCluster) -> None:
    _, one, other = mesh.nodes
    one.handler.values[b"key"] = value(7)
    Hook(one, 2 * CHUNK_BYTES, lambda: one.send(other, 99, "in between"))
    fetched = Fetched(other, one, b"key", SIZE)
    mesh.until(lambda: bool(fetched.done))
    mesh.until(lambda: other.got(one) == [(99, "in between")])
    assert fetched.done == [True]


def test_a_node_that_closes_in_the_middle_leaves_no_threads(mesh: MeshCluster) -> None:
    _, one, other = mesh.nodes
    one.handler.read = lambda key, at, size, answer, visit=None: None  # type: ignore[method-assign]
    for _ in range(3):
        Fetched(other, one, b"key", SIZE)
    mesh.until(lambda: len(one.fabric._transfers._senders) == 2)
    for node in (other, one):
        mesh.kill(node)
    assert not [thread for thread in threading.enumerate() if thread.name == "skate-bulk"]


@pytest.mark.parametrize(
    ("at", "size"), [(0, 0), (SIZE, 1), (SIZE - 9, 10), (1 << 63, 1 << 63), (SIZE + 1, 0)]
)
def test_a_caller_that_asks_for_what_is_not_there_gets_nothing(mesh: MeshCluster, at: int, size: int) -> None:
    _, one, _ = mesh.nodes
    one.handler.values[b"key"] = value(8)
    ours, theirs = mesh.engine.connect()
    one.fabric.accepted("bulk", theirs)
    ours.settimeout(5)
    ours.sendall(REQUEST.pack(3, at, size, 0) + b"key")
    mesh.until(lambda: not one.fabric._transfers._senders)
    data = b""
    while piece := ours.recv(1 << 20):
        data += piece
    assert data[-1:] == b"\x00"
    ours.close()
