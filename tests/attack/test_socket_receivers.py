"""The sockets over which the processes of Serve pass connections to each other: strangers and malformed messages are dropped."""

from __future__ import annotations

import array
import os
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from skate.serve.ingress import sockets

STRANGER = """
import os, socket, sys
os.setuid(65534)
out = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
for _ in range(5):
    out.sendmsg([b"\\x81\\xa4idle\\xc3"], [(1, 1, (1).to_bytes(4, "little"))], 0, b"\\0" + sys.argv[1].encode())
"""


@pytest.fixture
def box() -> Iterator[sockets.SocketReceiver]:
    made = sockets.SocketReceiver()
    yield made
    made.close()
    for each in sockets._out:
        each.close()
    sockets._out.clear()


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_malformed_messages_hide_nothing_and_leave_no_descriptor(box: sockets.SocketReceiver) -> None:
    one, other = socket.socketpair()
    with one, other, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as out:
        assert sockets.send(box.name, one, b"GET", client=["10.0.0.1", 5])
        assert (taken := box.take()) is not None
        taken[2].close()
        before = descriptors()
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [one.fileno()]))]
        for data in (
            b"",
            b"\xc1",
            b"\x81",
            b"\x01",
            b"\x93\x01\x02\x03",
            b"\x81\xa4head\x01",
            b"\x91" * 2000,
        ):
            out.sendmsg([data], rights, 0, box.name)
        out.sendto(b"\x80", box.name)  # no socket
        assert sockets.send(box.name, one, b"GET /", client=["10.0.0.1", 6])
        found = box.take()
        assert found is not None
        message, head, sock = found
        sock.close()
        assert (message, head) == ({"client": ["10.0.0.1", 6]}, b"GET /")
        assert box.take() is None
        assert descriptors() == before


@pytest.mark.skipif(os.getuid() != 0, reason="only root may become another user")
def test_messages_of_another_user_hide_nothing(box: sockets.SocketReceiver) -> None:
    one, other = socket.socketpair()
    with one, other:
        name = box.name[1:].decode()
        subprocess.run([sys.executable, "-I", "-c", STRANGER, name], check=True, timeout=60)
        assert sockets.send(box.name, one, b"GET /", client=["10.0.0.1", 6])
        found = box.take()
        assert found is not None and found[1] == b"GET /"
        found[2].close()
