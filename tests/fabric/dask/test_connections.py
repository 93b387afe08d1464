"""Connections of a mesh made by Dask: they join, carry bytes both ways, and leave nothing behind."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from collections.abc import Iterator

import pytest

pytest.importorskip("distributed")
pytest.importorskip("cryptography")

from distributed.comm import Comm

from skate.fabric.dask.carrier import HeadCarrier, MemberCarrier
from skate.fabric.dask.connection import CarrierError, connect, listeners
from skate.fabric.dask.sockets import accept, request
from tests.conformance.waiting import wait_for
from tests.fabric.dask.carriers import OTHER_TOKEN, TOKEN, Carriers, exchange, is_encrypted

LARGE = 20 << 20  # more than the window of a forwarded connection and any buffer of the kernel


@pytest.fixture
def carriers() -> Iterator[Carriers]:
    before = set(threading.enumerate())
    carriers = Carriers()
    try:
        yield carriers
    finally:
        carriers.end()
    left = set(threading.enumerate()) - before
    assert [each.name for each in left if each.name.startswith("skate-")] == []


@pytest.mark.parametrize("forwarded", [False, True], ids=["socket", "forwarded"])
@pytest.mark.parametrize("token", [None, TOKEN], ids=["tcp", "tls"])
def test_bytes_flow_both_ways_on_lanes_and_bulk(
    carriers: Carriers, token: str | None, forwarded: bool
) -> None:
    head = carriers.head(token, forwarded=forwarded)
    one = carriers.member("one", head.address, token, forwarded=forwarded)
    two = carriers.member("two", head.head_address, token, forwarded=forwarded)
    carriers.wait_for(lambda: len(head.members()) == 2, "two members")
    assert head.members() == {"one": one.address, "two": two.address}
    assert one.address.startswith("tls://127.0.0.1:" if token else "tcp://127.0.0.1:")
    for source, target in ((one, head), (head, two), (one, two), (two, one)):
        dialling, accepted = carriers.dialled(source, target)
        exchange(dialling, accepted, 10)
        for end in (dialling, accepted):
            assert is_encrypted(end) == bool(token and not forwarded)
            assert (end.family == socket.AF_UNIX) == forwarded
    exchange(*carriers.dialled(one, two, "bulk"), LARGE)
    dialling, accepted = carriers.dialled(two, one, "bulk")
    dialling.sendall(b"last words")
    dialling.close()
    assert accepted.recv(100) == b"last words"
    assert accepted.recv(100) == b"", "the end of one side is the end of the other"


def test_a_forwarded_connection_keeps_little_in_memory(carriers: Carriers) -> None:
    head = carriers.head(None, forwarded=True)
    one = carriers.member("one", head.address, None, forwarded=True)
    dialling, accepted = carriers.dialled(one, head, "bulk")
    dialling.settimeout(0.5)
    sent = 0
    with pytest.raises(TimeoutError):
        while sent < 100 << 20:
            sent += dialling.send(bytes(1 << 20))
    assert sent < 20 << 20
    got = 0
    while got < sent:
        got += len(accepted.recv(1 << 20))


def test_the_first_byte_may_come_from_either_side(carriers: Carriers) -> None:
    head = carriers.head()
    one = carriers.member("one", head.address)
    for _ in range(10):
        dialling, accepted = carriers.dialled(one, head)
        accepted.sendall(b"head first")
        assert dialling.recv(100) == b"head first"
        dialling.sendall(b"then me")
        assert accepted.recv(100) == b"then me"


def test_leaving_is_told_and_the_name_is_free_again(carriers: Carriers) -> None:
    head = carriers.head()
    one = carriers.member("one", head.address)
    with pytest.raises(CarrierError, match="has a node of the name one already"):
        carriers.member("one", head.address)
    one.close()
    carriers.wait_for(lambda: ("unregistered", "one") in head.receiver.events, "the end of one")
    assert head.members() == {}
    again = carriers.member("one", head.address)
    carriers.wait_for(lambda: head.members() == {"one": again.address}, "its return")
    assert one.receiver.events == [], "who leaves is not told that it is detached"


def own_ports() -> set[int]:
    """The ports on which this process listens for TCP."""
    inodes = set()
    for name in os.listdir("/proc/self/fd"):
        try:
            inodes.add(os.readlink(f"/proc/self/fd/{name}"))
        except OSError:
            continue
    return {
        port for port, sockets in listeners().items() if any(f"socket:[{each}]" in inodes for each in sockets)
    }


def test_nothing_listens_but_what_was_asked_for(carriers: Carriers) -> None:
    before = own_ports()
    head = carriers.head()
    one = carriers.member("one", head.address)
    asked = {int(each.address.rpartition(":")[2]) for each in (head, one)}
    assert own_ports() - before == asked
    with open("/proc/net/tcp") as file:
        places = [line.split()[1] for line in file.readlines()[1:] if line.split()[3] == "0A"]
    mine = [place for place in places if int(place.rpartition(":")[2], 16) in asked]
    assert {place.partition(":")[0] for place in mine} == {"0100007F"}, "on 127.0.0.1 alone"
    head.close()
    one.close()
    assert own_ports() == before


def test_a_member_is_detached_and_returns_under_the_same_address(carriers: Carriers) -> None:
    head = carriers.head()
    port = int(head.address.rpartition(":")[2])
    one = carriers.member("one", head.address)
    two = carriers.member("two", head.address)
    address = one.address
    dialling, accepted = carriers.dialled(one, two)
    head.close()
    carriers.wait_for(lambda: one.receiver.events and two.receiver.events, "the loss of the head")
    assert one.receiver.events == [("detached", "the head has ended its engine")]
    exchange(dialling, accepted, 1000)
    # While the member makes a new worker, nothing listens for a moment.
    wait_for(
        lambda: isinstance(dialled(carriers, one, two), socket.socket), what="a connection without a head"
    )
    back = carriers.head(port=port)
    carriers.wait_for(lambda: len(back.members()) == 2, "both members")
    assert back.members()["one"] == address == one.address
    exchange(dialling, accepted, 1000)


def dialled(carriers: Carriers, source: object, target: object) -> object:
    """Dial once; return the socket, or the reason of the failure."""
    ends: list[object] = []
    source.dial(target.address, "lane", ends.append, ends.append)  # type: ignore[attr-defined]
    with carriers.pump.lock:
        carriers.pump.wait(lambda: bool(ends), 10)
    if isinstance(ends[0], socket.socket):
        carriers.sockets.append(ends[0])
    return ends[0]


def test_a_forked_child_holds_no_connection(carriers: Carriers) -> None:
    before = sum(map(is_tcp, os.listdir("/proc/self/fd")))
    head = carriers.head()
    one = carriers.member("one", head.address)
    port = int(head.address.rpartition(":")[2])
    idle = nobody_reads(head, one)
    asked, answer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            for carrier in (head, one):
                carrier.forked()
            os.write(answer, b"%d" % sum(map(is_tcp, os.listdir("/proc/self/fd"))))
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    os.close(answer)
    with open(asked, "rb") as file:
        assert file.read() == b"%d" % before
    assert not idle.closed()
    exchange(*carriers.dialled(one, head), 1000)
    head.close()
    wait_for(lambda: port not in own_ports(), what="the port to be free")
    carriers.head(port=port)


def nobody_reads(head: HeadCarrier, one: MemberCarrier) -> Comm:
    """Open a connection whose bytes have arrived and wait for a reader, so that the loop does not watch it."""

    async def opened() -> Comm:
        comm = await connect(head.address, one._arguments)
        await comm.write({"op": "identity"})
        stream = comm.stream
        while not stream._read_buffer_size:
            await asyncio.sleep(0)
        return comm

    assert one._engine is not None
    return one._engine.run(opened())


def is_tcp(fd: str) -> bool:
    try:
        inode = os.readlink(f"/proc/self/fd/{fd}")
    except OSError:  # the descriptor that lists the folder
        return False
    with open("/proc/self/net/tcp") as file:
        return any(inode == f"socket:[{line.split()[9]}]" for line in file.readlines()[1:])


def test_calls_that_wait_in_the_mailbox_end_with_the_carrier(carriers: Carriers) -> None:
    """A socket that nobody has taken is closed, and no callback comes afterwards."""
    head = carriers.head()
    one = carriers.member("one", head.address)
    ends: list[object] = []
    with carriers.pump.lock:  # nobody turns the pump
        one.dial(head.address, "lane", ends.append, ends.append)
        wait_for(lambda: one._mailbox._calls and head._mailbox._calls, what="both ends")
        one.close()
        head.close()
    with carriers.pump.lock:
        carriers.pump.wait(lambda: False, 0.05)
    assert ends == []
    assert head.receiver.accepts == []
    one.dial(head.address, "lane", ends.append, ends.append)
    assert ends == []


class TestRefusals:
    def test_another_token(self, carriers: Carriers) -> None:
        head = carriers.head()
        one = carriers.member("one", head.address)
        with pytest.raises(CarrierError, match=f"{head.address} has another token"):
            carriers.member("two", head.address, OTHER_TOKEN)
        other = carriers.head(OTHER_TOKEN)
        assert "has another token" in carriers.failure(other, one.address)
        assert len(head.members()) <= 1

    def test_no_token(self, carriers: Carriers) -> None:
        head = carriers.head()
        with pytest.raises(
            CarrierError, match="closed the connection during the handshake: it requires a token"
        ):
            carriers.member("two", head.address, None, timeout=1)

    def test_a_head_without_a_token(self, carriers: Carriers) -> None:
        head = carriers.head(None)
        with pytest.raises(CarrierError, match="does not encrypt"):
            carriers.member("two", head.address, timeout=1)

    def test_nobody_listens(self, carriers: Carriers) -> None:
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            port = unused.getsockname()[1]
            with pytest.raises(CarrierError, match=f"refuses the connection: nothing listens on port {port}"):
                carriers.member("two", f"127.0.0.1:{port}", timeout=0.6)
            head = carriers.head()
            assert "refuses the connection" in carriers.failure(head, f"tls://127.0.0.1:{port}")

    def test_no_answer(self, carriers: Carriers) -> None:
        text = "no answer .*firewall drops what is sent to TCP port"
        with socket.create_server(("127.0.0.1", 0), backlog=0) as deaf:
            place = deaf.getsockname()
            # The queue is full: what else arrives is dropped.
            with socket.create_connection(place), pytest.raises(CarrierError, match=f"{text} {place[1]}"):
                carriers.member("two", f"127.0.0.1:{place[1]}", timeout=0.6)

    def test_an_unknown_name(self, carriers: Carriers) -> None:
        with pytest.raises(CarrierError, match="the name of tls://nowhere.invalid:6379 is unknown"):
            carriers.member("two", "nowhere.invalid:6379", host="127.0.0.1", timeout=0.6)
        with pytest.raises(CarrierError, match="the name of tls://nowhere.invalid:6379 is unknown"):
            carriers.member("two", "nowhere.invalid:6379", timeout=0.6)

    def test_the_port_is_taken(self, carriers: Carriers) -> None:
        head = carriers.head()
        port = int(head.address.rpartition(":")[2])
        with pytest.raises(
            CarrierError, match=rf"port {port} of 127.0.0.1 is in use by process {os.getpid()} \(.*py"
        ):
            carriers.head(port=port)
        with pytest.raises(CarrierError, match=rf"port {port} of 127.0.0.1 is in use by process"):
            carriers.member("one", head.address, port=port, host="127.0.0.1")

    def test_an_old_dask(self, carriers: Carriers, monkeypatch: pytest.MonkeyPatch) -> None:
        head = carriers.head()
        monkeypatch.setattr("skate.fabric.dask.OLDEST", (9999, 1))
        with pytest.raises(CarrierError, match=r"Dask.distributed [\d.]+ is too old: .* is required"):
            carriers.member("one", head.address)
        monkeypatch.setattr("skate.fabric.dask.carrier.too_old", lambda version: False)
        with pytest.raises(CarrierError, match=r"refuses this node: .*it has Dask.distributed [\d.]+, but"):
            carriers.member("one", head.address)

    def test_plain_connections_stay_on_this_machine(self, carriers: Carriers) -> None:
        with pytest.raises(ValueError, match="the cluster needs a token"):
            carriers.head(None, host="0.0.0.0")


@pytest.mark.parametrize("address", ["inproc://", "ws://127.0.0.1:0"])
def test_transports_without_a_socket_are_forwarded(address: str) -> None:
    from distributed.comm import listen

    async def run() -> tuple[socket.socket, socket.socket]:
        accepted: list[socket.socket] = []
        tasks = []

        async def serve(comm: Comm) -> None:
            asked = await comm.read()
            assert asked.pop("op") == "skate-bulk"
            assert asked.pop("reply") is False
            tasks.append(asyncio.ensure_future(accept(comm, **asked, accepted=accepted.append)))

        async with listen(address, serve) as listener:
            sock = await request(await connect(listener.contact_address, {}), "bulk")
            while not accepted:
                await asyncio.sleep(0)
            for end in (sock, accepted[0]):
                end.settimeout(20)
            await asyncio.to_thread(exchange, sock, accepted[0], LARGE)
            sock.close()
            await asyncio.wait(tasks)
            assert accepted[0].recv(1) == b""
            accepted[0].close()
        return sock, accepted[0]

    for end in asyncio.run(run()):
        assert end.fileno() == -1
