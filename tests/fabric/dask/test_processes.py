"""Other processes: a head that is killed and comes back, a stock client of Dask, and programs without any of this."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

pytest.importorskip("distributed")
pytest.importorskip("cryptography")

from skate.fabric.carrier import NobodyThere
from skate.fabric.dask.connection import CarrierError
from tests.fabric.dask.carriers import OTHER_TOKEN, TOKEN, Carriers, exchange

HEAD = """
import sys, threading
from skate.fabric.dask.carrier import HeadCarrier
from skate.wire.pump import Pump

class Receiver:
    def registered(self, name, address): print("registered", name, flush=True)
    def unregistered(self, name): print("unregistered", name, flush=True)

pump = Pump(threading.RLock(), "head")
head = HeadCarrier(pump, "127.0.0.1", int(sys.argv[1]), token=sys.argv[2])
head.receiver = Receiver()
head.start()
print(head.address, flush=True)
with pump.lock:
    pump.wait(lambda: False)
"""


class Head:
    """A head in a process of its own."""

    def __init__(self, port: int = 0) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", HEAD, str(port), TOKEN], stdout=subprocess.PIPE, text=True
        )
        self.address = self.line()

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def kill(self) -> None:
        if self.process.returncode is None:
            self.process.send_signal(signal.SIGKILL)
            self.process.communicate()


@pytest.fixture
def carriers() -> Iterator[Carriers]:
    carriers = Carriers()
    yield carriers
    carriers.end()


def test_a_killed_head_is_noticed_and_its_successor_found(carriers: Carriers) -> None:
    head = Head()
    try:
        one = carriers.member("one", head.address)
        two = carriers.member("two", head.address)
        assert {head.line(), head.line()} == {"registered one", "registered two"}
        lane = carriers.dialled(one, two)
        began = time.monotonic()
        head.kill()
        carriers.wait_for(lambda: one.receiver.events and two.receiver.events, "the loss of the head")
        assert time.monotonic() - began < 2.0  # 0.03 s on a quiet machine
        lost = ("detached", f"the connection to the head at {head.address} is lost")
        assert one.receiver.events == two.receiver.events == [lost]
        exchange(*lane, 1000)
        head = Head(int(head.address.rpartition(":")[2]))
        assert {head.line(), head.line()} == {"registered one", "registered two"}
        exchange(*carriers.dialled(two, one), 1000)
        one.close()
        assert head.line() == "unregistered one"
    finally:
        head.kill()


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


@pytest.mark.parametrize("end", ["killed", "stopped"])
def test_a_head_is_found_at_each_of_its_addresses(carriers: Carriers, end: str) -> None:
    others = [free_port(), free_port()]
    head = Head()
    heads = [head]
    addresses = [f"tls://127.0.0.1:{others[0]}", head.address, f"127.0.0.1:{others[1]}"]
    try:
        one = carriers.member("one", ",".join(addresses))
        assert head.line() == "registered one"
        assert one.head_address == head.address and one.head_may_move
        if end == "killed":
            head.kill()
            carriers.wait_for(lambda: one.receiver.events, "the loss of the head")
            failure = carriers.failure(one, one.head_address)
            assert isinstance(failure, NobodyThere)  # at none of the three
        else:
            head.process.send_signal(signal.SIGSTOP)
            one.seek_head()
        heads.append(Head(others[1]))
        assert heads[1].line() == "registered one"
        assert one.head_address == heads[1].address
        ends: list[object] = []
        one.dial(addresses[1], "lane", ends.append, ends.append)  # any of them leads to the one that answers
        carriers.wait_for(lambda: ends, "a connection")
        assert isinstance(ends[0], socket.socket), ends
        ends[0].close()
    finally:
        for each in heads:
            each.kill()


def test_with_several_addresses_the_cause_is_told(carriers: Carriers) -> None:
    with pytest.raises(CarrierError, match="nothing listens on port"):
        carriers.member("one", f"127.0.0.1:{free_port()},127.0.0.1:{free_port()}", timeout=0.5)
    head = carriers.head(OTHER_TOKEN)
    with pytest.raises(CarrierError, match="has another token"):
        carriers.member("one", f"127.0.0.1:{free_port()},{head.address}", timeout=5)


def test_a_client_of_dask_sees_the_nodes_but_runs_nothing_on_them(carriers: Carriers) -> None:
    from distributed import Client

    head = carriers.head()
    one = carriers.member("one", head.address)
    with Client(head.address, security=head.security, timeout=10) as client:
        workers = client.scheduler_info()["workers"]
        assert {address: facts["name"] for address, facts in workers.items()} == {one.address: "one"}
        with pytest.raises(ValueError, match="explicitly disallowed"):
            client.run_on_scheduler(os.getpid)


LAZY = """
import sys
import skate

def loaded():
    return {name for name in ("dask", "distributed", "tornado", "cryptography") if name in sys.modules}

assert not loaded(), loaded()
skate.init(num_cpus=1)
assert not loaded(), loaded()
skate.shutdown()
"""


def test_a_session_does_not_import_dask() -> None:
    subprocess.run([sys.executable, "-c", LAZY], check=True, timeout=60)
