"""The machines of the cluster tests share nothing, and each fault of their network does what it says; plain sockets only."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cluster import sockets
from tests.cluster.namespaces import ROOT, Machine, Network, Program
from tests.conformance.waiting import wait_for

Networks = Callable[..., Network]


class Peer:
    """A machine that echoes, and that asks others."""

    def __init__(self, machine: Machine) -> None:
        self.address = machine.address
        self.program = machine.start(sys.executable, "-m", sockets.__name__)
        self.read = 1
        self.program.wait_for_output("^listening$")

    def ask(self, what: str, *arguments: object) -> str:
        """Send a command; return the answer."""
        self.program.write_line(" ".join(map(str, (what, *arguments))))
        wait_for(lambda: self.program.out.count("\n") > self.read, 30, f"the answer to {what}")
        self.read += 1
        return self.program.out.splitlines()[self.read - 1]

    def reaches(self, other: Peer) -> bool:
        """True if a question over UDP is answered."""
        reply = self.ask("udp", other.address)
        assert reply == "silence" or reply.startswith("answer"), reply
        return reply != "silence"


def peers(network: Network) -> list[Peer]:
    return [Peer(machine) for machine in network.machines]


def words_of(program: Program) -> list[str]:
    return program.ok().split()


def test_machines_have_their_own_names_files_and_processes(network: Networks) -> None:
    one, two = network(2).machines
    who = "import os, socket; print(socket.gethostname(), os.getpid() < 9)"
    assert words_of(one.python(who)) == ["machine1", "True"]
    assert words_of(two.python(who)) == ["machine2", "True"]
    one.path("file").touch()
    look = """
        import os, socket
        sock = socket.socket(socket.AF_UNIX)
        sock.bind("\\0name")
        print(os.path.exists("/tmp/file"), flush=True)
        input()
    """
    first, second = one.python(look), two.python(look)
    # Both have the abstract address at the same time.
    assert (first.wait_for_output("True|False"), second.wait_for_output("True|False")) == ("True", "False")
    assert len(one.processes()) == len(two.processes()) == 1
    assert words_of(two.python("import socket; print(socket.gethostbyname('machine1'))")) == [one.address]
    for program in (first, second):
        program.write_line("")
        program.ok()


def test_a_cut_is_silent_and_heals(network: Networks) -> None:
    made = network(3)
    one, two, three = peers(made)
    assert one.ask("connect", two.address) == "connected"
    assert one.ask("tcp", two.address) == "answer b'?'"
    made.cut(made.machines[1])
    assert one.ask("tcp", two.address) == "silence", "a cut must not end connections"
    assert not three.reaches(two)
    assert one.reaches(three)
    made.heal(made.machines[1])
    assert one.ask("late", two.address) == "answer b'?'", "what was sent meanwhile must still arrive"
    assert three.reaches(two)


def test_one_direction_of_a_pair_can_be_silent(network: Networks) -> None:
    made = network(3)
    first, second, _ = made.machines
    one, two, three = peers(made)
    listen = """
        import socket, sys
        sock = socket.socket(type=socket.SOCK_DGRAM)
        sock.bind(("", 6000))
        sock.settimeout(float(sys.argv[1]))
        print("on", flush=True)
        print(sock.recv(9).decode())
    """
    send = "import socket, sys; socket.socket(type=socket.SOCK_DGRAM).sendto(b'it', (sys.argv[1], 6000))"
    made.silence(first, second)
    back, forth = first.python(listen, "10"), second.python(listen, "0.5")
    for program in (back, forth):
        program.wait_for_output("^on$")
    first.python(send, second.address).ok()
    second.python(send, first.address).ok()
    assert back.ok().split() == ["on", "it"]
    assert forth.end() == 1 and "timed out" in forth.err
    assert one.reaches(three) and two.reaches(three) and not one.reaches(two)
    made.unsilence(first, second)
    assert one.reaches(two)


def test_a_cable_can_be_slow(network: Networks) -> None:
    made = network(2)
    one, two = peers(made)
    quick = float(one.ask("flood", two.address, 500_000).split()[1])
    made.slow(made.machines[1], "8mbit")
    slow = float(one.ask("flood", two.address, 500_000).split()[1])
    made.slow(made.machines[1], "")
    again = float(one.ask("flood", two.address, 500_000).split()[1])
    # Half a million bytes are 4 million bits.
    assert slow > 0.35 and slow > 2 * max(quick, again), (quick, slow, again)


def test_frames_can_be_late_and_lost(network: Networks) -> None:
    made = network(3, taps=True)
    one, two, three = peers(made)
    assert all(peer.reaches(other) for peer in (one, two, three) for other in (one, two, three))
    made.delay(0.03)
    assert float(one.ask("udp", two.address).split()[1]) >= 0.06
    made.delay(0.0)
    made.lose(0.5)
    found = int(one.ask("count", two.address, 200).split()[1])
    # A question and its answer both have to arrive: one in four.
    assert 20 <= found <= 90
    made.lose(0.0)
    assert one.ask("count", three.address, 200) == "counted 200"


def alive(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def test_a_killed_test_leaves_no_machine(network: Networks) -> None:
    text = (
        "from tests.cluster.namespaces import Network\n"
        "network = Network(2)\n"
        "for machine in network.machines:\n"
        "    machine.start('setsid', 'sh', '-c', 'echo here; sleep 1000 & sleep 1001').wait_for_output('here')\n"
        "found = [(each.pid, each.holder.pid, *each.processes()) for each in network.opened]\n"
        "print(*(pid for pids in found for pid in pids), flush=True)\n"
        "input()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", text], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as test:
        assert test.stdout is not None
        pids = [int(word) for word in test.stdout.readline().split()]
        assert len(pids) >= 3 * 2 + 2 * 2 and all(map(alive, pids))
        os.kill(test.pid, signal.SIGKILL)
    wait_for(lambda: not any(map(alive, pids)), 10, "the end of the machines")


def test_a_failed_test_leaves_no_machine(network: Networks) -> None:
    pids: list[int] = []
    with pytest.raises(ZeroDivisionError), Network(1) as made:
        made.machines[0].start("sleep", "1000")
        pids += [made.machines[0].pid, made.bridge.pid]
        raise ZeroDivisionError
    assert pids and not any(map(alive, pids))
