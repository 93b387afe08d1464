"""A standing node under malformed messages: the sender loses its connection, all others continue."""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable
from typing import Any

import msgpack

from skate.protocol import messages as m
from skate.protocol.version import VERSION
from tests.attack.test_messages import OTHERS, RECORDS, message_of
from tests.conformance.waiting import wait_for
from tests.process.programs import Program
from tests.process.standing import Node
from tests.process.test_standalone import JOIN

ANSWER_S = 30.0
VICTIM = """
    @ray.remote
    def double(x):
        return 2 * x

    kept = ray.put("kept")
    for line in iter(sys.stdin.readline, ""):
        print(ray.get(double.remote(int(line))), ray.get(kept), flush=True)
"""


def greeting(**changed: Any) -> dict[str, Any]:
    """Return the fields of a driver's first message, with changes."""
    fields = {
        "sys_path": [], "stdlib": "", "environ": {}, "cwd": "/", "preload": [], "main": None,
        "namespace": "attack", "python": [sys.executable], "command": "attack", "log_to_driver": False,
    }  # fmt: skip
    return {**fields, **changed}


class Stranger:
    """A bare connection to a node."""

    def __init__(self, node: Node) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(ANSWER_S)
        self.sock.connect(node.path)
        self._unpacker = msgpack.Unpacker(use_list=False, strict_map_key=False)

    def send(self, *message: Any) -> None:
        self.sock.sendall(msgpack.packb(message))

    def answers(self) -> list[tuple[Any, ...]]:
        """Read until the node closes the connection."""
        found: list[tuple[Any, ...]] = []
        while data := self.sock.recv(1 << 16):
            self._unpacker.feed(data)
            found += self._unpacker
        self.sock.close()
        return found

    def welcome(self) -> None:
        """Join as a driver."""
        self.send(m.ATTACH, VERSION, greeting())
        data, fds, _, _ = socket.recv_fds(self.sock, 1 << 16, 4)
        for fd in fds:
            socket.close(fd)
        self._unpacker.feed(data)
        assert next(iter(self._unpacker))[0] == m.WELCOME


def victim(node: Node, program: Callable[..., Program]) -> Program:
    """Start a program on the node that must not be affected."""
    node.start(cpus=1)
    started = program(JOIN + VICTIM, **node.environment)
    check(started)
    return started


def check(victim: Program) -> None:
    number = len(victim.lines) + 1
    victim.write_line(str(number))
    victim.wait_for_output(f"{2 * number} kept")


def test_first_words_of_other_shapes_are_refused_one_by_one(
    node: Node, program: Callable[..., Program]
) -> None:
    started = victim(node, program)
    words = [
        (m.ATTACH,),
        (m.ATTACH, VERSION, {}),
        (m.ATTACH, VERSION),
        (m.ATTACH, 5),
        (m.SUBMIT, b""),
        (m.READY, 1, 1),
    ]
    words += [(m.ATTACH, VERSION, greeting(**{name: 1.5})) for name in greeting()]
    words += [(m.ATTACH, VERSION, greeting(python=[])), (m.ATTACH, VERSION, greeting(environ={"A": 1}))]
    for each in words:
        stranger = Stranger(node)
        stranger.send(*each)
        answers = stranger.answers()
        assert [answer[0] for answer in answers] == [m.REFUSED], (each, answers)
    for raw in (b"\xc1", b"\x93", b"A" * 4096, b"\xdd\xff\xff\xff\xff", bytes(100)):
        stranger = Stranger(node)
        stranger.sock.sendall(raw)
        stranger.sock.shutdown(socket.SHUT_WR)
        assert all(answer[0] == m.REFUSED for answer in stranger.answers())
    check(started)


def test_each_malformed_message_ends_the_session_of_its_sender_only(
    node: Node, program: Callable[..., Program]
) -> None:
    started = victim(node, program)
    # Each attempt starts a process for the stranger's workers; tests/attack/test_messages.py tries every field.
    for number, tag in enumerate((*RECORDS, m.RESULT, m.EXECUTE, m.SHOWN, m.LEAVE, 99, -5)):
        good = message_of(tag) if tag in RECORDS else (tag, None)
        wrong = ((tag, *([None] * len(good[1:]))), (*good[:-1], OTHERS[-1]), (*good, 1))[number % 3]
        stranger = Stranger(node)
        stranger.welcome()
        stranger.send(*wrong)
        last = stranger.answers()[-1]
        assert last[0] == m.LEFT and "sent an invalid message" in last[1], (wrong, last)
    check(started)
    wait_for(lambda: len(node.status()["drivers"]) == 1, ANSWER_S, "the end of the strangers' sessions")
    assert "sent an invalid message" in (node.folder / "node.log").read_text()
