"""The mesh when connections break, nodes stop, and strangers call. The clock is the test's own."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgpack
import pytest

from skate.fabric.carrier import LANE
from skate.fabric.connection import HELLO, REFUSED, WRITE
from skate.fabric.directory import DEAD
from skate.fabric.lane import QUEUE_BYTES_MAX, WINDOW_BYTES
from skate.fabric.local import RefusedError
from skate.fabric.mesh import RECEIPT_WRITES
from skate.fabric.order import FRAMES_MAX, LEFT
from skate.protocol.version import VERSION
from tests.fabric.clusters import Node, info_of
from tests.fabric.manual_mesh import STEP, WORD, Manual, talk


@pytest.fixture
def mesh() -> Iterator[Manual]:
    found = Manual()
    yield found
    found.close()


@pytest.mark.parametrize("pair", [(0, 1), (1, 2)])
def test_a_broken_connection_is_made_again(mesh: Manual, pair: tuple[int, int]) -> None:
    mesh.start(3)
    one, other = (mesh.nodes[number] for number in pair)
    talk(mesh, one, other)
    for round_ in range(5):
        for number in range(100):
            one.send(other, WORD, number, bytes(2000))
            other.send(one, WORD, number, bytes(2000))
            if number == 10 * round_:
                assert mesh.engine.cut(one.name, other.name)
            if number % 30 == 0:
                mesh.pump.wait(lambda: False, 0)
    mesh.until(lambda: len(one.got(other)) == len(other.got(one)) == 520)
    for source, to in ((one, other), (other, one)):
        numbers = [message[1] for message in to.got(source)]
        assert numbers == [*range(20), *(5 * list(range(100)))]
    assert all(not mesh.left(node, each) for node in mesh.nodes for each in mesh.nodes)


def test_what_the_first_of_two_messages_causes_is_written_before_the_second(mesh: Manual) -> None:
    mesh.start(3)
    _, one, other = mesh.nodes
    talk(mesh, one, other)

    def written(count: int) -> list[int]:
        """Send so many messages together; return after how many of them the other node was to write."""
        other.handler.events.clear()
        other.handler.writes.clear()
        for number in range(count):
            one.fabric.send(one.id_of(other), (WORD, number))
        one.fabric.flush()
        mesh.until(lambda: len(other.got(one)) == count)
        return other.handler.writes

    assert written(1) == [1]
    assert written(2) == [1]
    assert written(3) == []  # they give one large write


def test_one_connection_stays_when_both_dial(mesh: Manual) -> None:
    mesh.start(3)
    _, one, other = mesh.nodes
    one.send(other, WORD, 1)
    other.send(one, WORD, 1)
    mesh.until(lambda: bool(one.got(other) and other.got(one)))
    mesh.turn()
    open_ = [
        ours for pair, _, ours, _ in mesh.engine.pairs if pair == {one.name, other.name} if ours.fileno() >= 0
    ]
    assert len(open_) == 1
    assert (other.name, one.fabric.carrier.address) in mesh.engine.dials
    talk(mesh, one, other)


def test_lanes_are_made_when_they_are_needed(mesh: Manual) -> None:
    mesh.start(4)
    _, one, other, third = mesh.nodes
    mesh.advance(3)
    talk(mesh, one, other)
    assert third.number not in one.fabric.lanes
    assert {pair for pair, *_ in mesh.engine.pairs if third.name in pair} == {
        frozenset((mesh.nodes[0].name, third.name))
    }


def test_receipts_empty_the_windows(mesh: Manual) -> None:
    mesh.start(3)
    _, one, other = mesh.nodes
    talk(mesh, one, other)
    mesh.advance(1)
    for source, to in ((one, other), (other, one)):
        assert source.fabric.order.backlog(to.number) == 0
        assert source.fabric.lanes[to.number].flight_bytes == 0


def test_a_node_that_stops_is_declared_dead(mesh: Manual) -> None:
    mesh.start(4)
    head, one, other, third = mesh.nodes
    talk(mesh, one, third)
    mesh.freeze(third)
    mesh.advance(4)
    assert not mesh.left(head, third)
    mesh.advance(4)
    for node in (head, one, other):
        assert "was not heard" in mesh.left(node, third), node.handler.events
    assert head.fabric.directory.members[third.number].state == DEAD
    talk(mesh, one, other)
    assert third.name not in mesh.ends
    third.fabric.tick()  # it continues, and sees the time first
    assert "cut off" in third.fabric.reason


def test_a_node_that_was_declared_dead_is_refused(mesh: Manual) -> None:
    mesh.start(3)
    head, one, other = mesh.nodes
    mesh.freeze(other)
    mesh.advance(8)
    assert mesh.left(one, other)
    lane = other.fabric.lanes[0]
    lane.connection.close()
    other.fabric._broken(lane.connection, lane)
    mesh.until(lambda: other.name in mesh.ends)
    assert "declared dead" in other.fabric.reason


def test_a_node_that_is_cut_off_ends_before_it_counts_as_dead(mesh: Manual) -> None:
    mesh.start(4)
    head, one, other, third = mesh.nodes
    for each in (head, one, other):
        mesh.engine.block(third.name, each.name)
    while not mesh.left(head, third):
        mesh.advance(STEP)
        assert mesh.now < 110
        assert third.name in mesh.ends or not mesh.left(head, third)
    assert "cut off" in third.fabric.reason
    talk(mesh, one, other)


def test_the_end_of_a_process_is_believed_at_once(mesh: Manual) -> None:
    mesh.start(3)
    head, one, other = mesh.nodes
    mesh.kill(other)
    mesh.turn()
    assert "has died" in mesh.left(head, other)
    assert "has died" in mesh.left(one, other)


def test_an_expected_end_has_its_own_reason(mesh: Manual) -> None:
    mesh.start(3)
    head, one, other = mesh.nodes
    head.fabric.reasons[other.number] = "was removed"
    mesh.kill(other)
    mesh.turn()
    assert mesh.left(one, other) == "was removed"


def test_members_end_with_their_head(mesh: Manual) -> None:
    mesh.start(3)
    mesh.kill(mesh.nodes[0])
    mesh.until(lambda: len(mesh.ends) == 2)
    assert "lost the head" in mesh.nodes[1].fabric.reason


def test_a_node_joins_and_hears_of_all_before_their_messages(mesh: Manual) -> None:
    mesh.start(3)
    for node in mesh.nodes:
        node.handler.events.clear()
    new = mesh.add()
    for node in mesh.nodes[:3]:
        node.handler.on_message = lambda *_: None
    new.send(mesh.nodes[1], WORD, "from the newcomer")  # its lane is quicker than the news of the head
    mesh.until(lambda: bool(mesh.nodes[1].got(new)))
    kinds = [each[0] for each in mesh.nodes[1].handler.events]
    assert kinds == ["joined", "message"]


# -- relays


def test_a_full_window_waits_for_receipts(mesh: Manual) -> None:
    mesh.start(3)
    _, one, other = mesh.nodes
    talk(mesh, one, other)
    mesh.engine.block(one.name, other.name)
    mesh.turn()
    for number in range(20):
        one.send(other, WORD, number, bytes(1 << 20))
    lane = one.fabric.lanes[other.number]
    assert lane.queued_bytes > 20 << 20
    mesh.engine.blocked.clear()
    mesh.advance(STEP * 3)
    assert lane.flight_bytes <= WINDOW_BYTES + (2 << 20)
    mesh.until(lambda: len(other.got(one)) == 40)
    mesh.advance(1)
    assert (lane.queued_bytes, lane.flight_bytes) == (0, 0)


@pytest.mark.parametrize("size", [10, 3 << 20])
def test_receipts_keep_up_with_a_stream_in_one_direction(mesh: Manual, size: int) -> None:
    mesh.start(3)
    _, one, other = mesh.nodes
    for node in mesh.nodes:
        node.fabric._timer.close()
    for number in range(20):
        one.send(other, WORD, number, bytes(size))
        if number % 5 == 0:
            mesh.turn()
    mesh.until(lambda: len(other.got(one)) == 20)
    for number in range(100):
        one.send(other, WORD, number)
        mesh.turn()
    assert one.fabric.order.backlog(other.number) <= RECEIPT_WRITES


# -- strangers


def stranger(mesh: Manual, node: Node) -> socket.socket:
    ours, theirs = socket.socketpair()
    node.fabric.accepted(LANE, theirs)
    ours.setblocking(False)
    return ours


def answer(mesh: Manual, sock: socket.socket) -> tuple[Any, ...] | None:
    """Return the frame that was answered before the end of the connection, if there was one."""
    data = b""
    mesh.turn()
    while True:
        try:
            piece = sock.recv(1 << 16)
        except BlockingIOError:
            raise AssertionError("the connection is still open") from None
        if not piece:
            sock.close()
            return msgpack.unpackb(data, use_list=False) if data else None
        data += piece


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x00" * 100,
        b"\xc6\x00\x10\x00\x00" + bytes(70_000),
        msgpack.packb((HELLO,)),
        msgpack.packb((HELLO, VERSION, b"x", "1", 0, 0, 0, 0, None)),
        msgpack.packb((HELLO, VERSION, b"x", 0, 0, 0, 0, 0, "info")),
        msgpack.packb((HELLO, VERSION, b"x", 0, 0, 0, 0, -5, {})),
        msgpack.packb((7, 1)),
        msgpack.packb([{}, {}]),
    ],
)
def test_garbage_ends_its_own_connection(mesh: Manual, data: bytes) -> None:
    mesh.start(2)
    for node in mesh.nodes:
        sock = stranger(mesh, node)
        sock.sendall(data)
        answer(mesh, sock)
        assert not node.fabric._strangers
    talk(mesh, *mesh.nodes)


def test_a_greeting_of_another_version_is_refused(mesh: Manual) -> None:
    mesh.start(2)
    sock = stranger(mesh, mesh.nodes[0])
    sock.sendall(msgpack.packb((HELLO, VERSION + 1, b"x", 0, 0, 0, 0, 0, info_of("x"), "more")))
    given = answer(mesh, sock)
    assert given is not None and given[0] == REFUSED and f"version {VERSION + 1}" in given[1]


def test_a_slow_greeting_has_a_deadline(mesh: Manual) -> None:
    mesh.start(2)
    sock = stranger(mesh, mesh.nodes[0])
    sock.sendall(msgpack.packb((HELLO, VERSION, b"x", 0, 0, 0, 0, 0, {}))[:10])
    mesh.advance(4)
    with pytest.raises(AssertionError, match="still open"):
        answer(mesh, sock)
    mesh.advance(2)
    given = answer(mesh, sock)
    assert given is not None and "in time" in given[1]


def test_a_greeting_for_another_node_is_refused(mesh: Manual) -> None:
    mesh.start(3)
    sock = stranger(mesh, mesh.nodes[1])
    sock.sendall(msgpack.packb((HELLO, VERSION, b"x", 2, 7, 1, 9, 0, None)))
    given = answer(mesh, sock)
    assert given is not None and "not 7" in given[1]


def test_a_node_that_is_not_registered_is_not_admitted(mesh: Manual) -> None:
    mesh.start(2)
    sock = stranger(mesh, mesh.nodes[0])
    sock.sendall(msgpack.packb((HELLO, VERSION, b"x", 0, 0, 0, 0, 0, info_of("x"))))
    mesh.advance(4)
    assert len(mesh.nodes[0].fabric.ids) == 1
    mesh.advance(2)
    given = answer(mesh, sock)
    assert given is not None and "registered" in given[1]
    assert len(mesh.nodes[0].fabric.ids) == 1


def test_a_greeting_before_the_registration_waits_for_it(mesh: Manual) -> None:
    mesh.start(1)
    node = mesh.node()
    address = mesh.nodes[0].fabric.carrier.registered.pop(node.name)
    threading.Timer(0.05, lambda: mesh.engine.later(register)).start()

    def register() -> None:
        mesh.nodes[0].fabric.carrier.registered[node.name] = address
        mesh.nodes[0].fabric.registered(node.name, address)

    mesh.turn()
    assert node.fabric.greet(5.0) == {"color": "blue"}
    node.fabric.begin()
    mesh.nodes.append(node)
    talk(mesh, *mesh.nodes)


def test_a_node_whose_registration_is_late_tries_again(mesh: Manual) -> None:
    mesh.start(1)
    head, node = mesh.nodes[0].fabric, mesh.node()
    address = head.carrier.registered.pop(node.name)

    def refuse() -> None:
        """Let the head's patience run out, and only then learn of the registration."""
        if not head._early:
            mesh.engine.later(refuse)
            return
        mesh.now += 6
        head.tick()
        assert not head._early
        head.carrier.registered[node.name] = address

    mesh.engine.later(refuse)
    assert node.fabric.greet(5.0) == {"color": "blue"}
    node.fabric.begin()
    mesh.nodes.append(node)
    talk(mesh, *mesh.nodes)


def test_a_node_of_another_version_is_told_why(mesh: Manual, monkeypatch: pytest.MonkeyPatch) -> None:
    mesh.start(1)
    node = mesh.node()
    mesh.nodes.append(node)
    monkeypatch.setattr("skate.fabric.lanes.VERSION", VERSION + 1)
    with pytest.raises(RefusedError, match=f"version {VERSION + 1}"):
        node.fabric.greet(5.0)


def test_a_head_that_cannot_be_reached_is_named(mesh: Manual) -> None:
    mesh.start(1)
    node = mesh.node()
    mesh.nodes.append(node)
    mesh.engine.block(node.name, mesh.nodes[0].name)
    with pytest.raises(ConnectionError, match="cannot be reached"):
        node.fabric.greet(0.3)
    assert len(mesh.engine.dials) >= 2


def test_a_fabric_that_is_closed_has_no_descriptors_and_threads() -> None:
    def descriptors() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    before = descriptors(), threading.active_count()
    mesh = Manual()
    mesh.start(3)
    talk(mesh, *mesh.nodes[1:])
    sock = stranger(mesh, mesh.nodes[0])
    mesh.close()
    sock.close()
    assert (descriptors(), threading.active_count()) == before


def test_a_forked_child_closes_its_copies(mesh: Manual) -> None:
    mesh.start(3)
    talk(mesh, *mesh.nodes[1:])
    child = os.fork()
    if not child:
        code = 1
        try:
            for node in mesh.nodes:
                node.fabric.forked()
            code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    talk(mesh, *mesh.nodes[1:])


def test_a_member_that_does_not_read_congests_its_own_lane_only(mesh: Manual) -> None:
    mesh.start(4)
    _, one, slow, other = mesh.nodes
    talk(mesh, one, slow)
    talk(mesh, one, other)
    stopped = [each.channel.fd for each in slow.fabric._connections()]
    for fd in stopped:
        mesh.pump.pause(fd, True, False)
    sent = 0
    while one.id_of(slow) not in one.fabric.congested:
        one.send(slow, WORD, sent, bytes(1 << 20))
        sent += 1
        mesh.pump.wait(lambda: False, 0)
    lane = one.fabric.lanes[slow.number]
    assert QUEUE_BYTES_MAX < lane.queued_bytes < QUEUE_BYTES_MAX + (4 << 20)
    assert lane.flight_bytes <= WINDOW_BYTES + (2 << 20)
    talk(mesh, one, other)
    assert one.fabric.congested == {one.id_of(slow)}
    assert ("writable", slow.number) not in one.handler.events
    before = len(slow.got(one))
    for fd in stopped:
        mesh.pump.pause(fd, False, False)
    mesh.until(lambda: len(slow.got(one)) == 20 + sent)
    assert before < 20 + sent
    assert one.handler.events.count(("writable", slow.number)) == 1
    assert not one.fabric.congested


def test_a_long_queue_becomes_several_writes(mesh: Manual) -> None:
    mesh.start(3)
    _, one, other = mesh.nodes
    for number in range(2 * FRAMES_MAX + 1):
        one.fabric.send(one.id_of(other), (WORD, number))
    one.fabric.flush()
    assert one.fabric.order.backlog(other.number) == 3
    mesh.until(lambda: len(other.got(one)) == 2 * FRAMES_MAX + 1)
    assert [message[1] for message in other.got(one)] == list(range(2 * FRAMES_MAX + 1))


def test_many_that_end_at_once_are_told_together(mesh: Manual) -> None:
    mesh.start(7)
    head, one, *others = mesh.nodes
    talk(mesh, one, others[0])
    mesh.advance(1)
    ended = others[1:]
    reads: list[list[int]] = []
    take = one.fabric._take

    def count(connection: Any, lane: Any, frames: Any) -> None:
        reads.append([len(frame[-1]) for frame in frames if frame[0] == WRITE and frame[2] == LEFT])
        take(connection, lane, frames)

    one.fabric._take = count
    for node in ended:
        mesh.kill(node)
    mesh.turn()
    assert "has died" in mesh.left(head, ended[0]) and "has died" in mesh.left(one, ended[0]), "at once"
    mesh.advance(1)
    for node in (head, one, others[0]):
        assert all("has died" in mesh.left(node, each) for each in ended), node.handler.events
    assert [each for each in reads if each] == [[1], [len(ended) - 1]]
    talk(mesh, one, others[0])
