"""The floor under a call between nodes: bytes that pass through the same processes, by the same kinds of sockets, and no more.

    python -m benchmarks.cluster.hops [--calls 2000] [--rounds 5]

A call of an actor on another node wakes six processes in turn: the caller's node, the other node, the actor, the other node, the
caller's node, the caller. Here four processes pass 200 bytes along in blocking calls, over Unix sockets and one connection on
loopback between the two that stand for nodes.
"""

from __future__ import annotations

import argparse
import os
import secrets
import socket
import ssl
import statistics
import sys
import time
from collections.abc import Callable

from benchmarks.cluster.bare import FRAME_BYTES
from skate.fabric.dask.credentials import Credentials

HOPS = 6


def receive(sock: socket.socket) -> bytes:
    """Return a frame; end this process if the other end has closed."""
    data = sock.recv(FRAME_BYTES)
    while len(data) < FRAME_BYTES:
        more = sock.recv(FRAME_BYTES - len(data))
        if not more:
            os._exit(0)
        data += more
    return data


def in_child(work: Callable[[], None]) -> None:
    """Fork, and do something in the child until a socket ends."""
    if os.fork() == 0:
        try:
            work()
        finally:
            os._exit(1)


def pass_on(left: socket.socket, right: socket.socket) -> None:
    """Pass frames to the right, and the answers to the left."""
    while True:
        right.sendall(receive(left))
        left.sendall(receive(right))


def echo(sock: socket.socket) -> None:
    while True:
        sock.sendall(receive(sock))


def chain(context: dict[str, ssl.SSLContext] | None) -> socket.socket:
    """Start the three other processes; return the caller's end."""
    listener = socket.create_server(("127.0.0.1", 0))
    address = listener.getsockname()
    end, from_caller = socket.socketpair()
    to_callee, from_node = socket.socketpair()

    def connection(sock: socket.socket, is_server: bool) -> socket.socket:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if context is None:
            return sock
        return context["server" if is_server else "client"].wrap_socket(sock, server_side=is_server)

    def other_node() -> None:
        end.close(), from_caller.close(), from_node.close()
        pass_on(connection(listener.accept()[0], True), to_callee)

    def own_node() -> None:
        end.close(), to_callee.close(), from_node.close()
        pass_on(from_caller, connection(socket.create_connection(address), False))

    def callee() -> None:
        end.close(), from_caller.close(), to_callee.close()
        echo(from_node)

    for work in (other_node, own_node, callee):
        in_child(work)
    for sock in (listener, from_caller, to_callee, from_node):
        sock.close()
    return end


def call_us(end: socket.socket, calls: int) -> float:
    """Return the median microseconds of a frame through all processes and back."""
    frame, times = bytes(FRAME_BYTES), []
    for _ in range(calls):
        begin = time.perf_counter()
        end.sendall(frame)
        receive(end)
        times.append(time.perf_counter() - begin)
    return statistics.median(times) * 1e6


def contexts() -> dict[str, ssl.SSLContext]:
    """Return contexts as nodes use them."""
    security = Credentials(secrets.token_hex(32)).security
    return {
        "server": security.get_listen_args("worker")["ssl_context"],
        "client": security.get_connection_args("worker")["ssl_context"],
    }


def main() -> None:
    """Print the medians."""
    parser = argparse.ArgumentParser(description="Measure the floor under a call between nodes.")
    parser.add_argument("--calls", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    ends = {"TCP": chain(None), "TLS": chain(contexts())}
    found: dict[str, list[float]] = {name: [] for name in ends}
    for end in ends.values():
        call_us(end, given.calls // 10)
    for _ in range(given.rounds):
        for name, end in ends.items():
            found[name].append(call_us(end, given.calls))
    for name, each in found.items():
        print(f"{HOPS} hops, {name} between the nodes, us {statistics.median(each):8.1f}", file=sys.stdout)


if __name__ == "__main__":
    main()
