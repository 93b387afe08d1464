"""A program for a machine that echoes what it gets over TCP and UDP, and asks others on command.

It answers each line on stdin by one on stdout: "udp ADDRESS" and "connect ADDRESS", "tcp ADDRESS" over the connection that
`connect` has made, "flood ADDRESS BYTES", and "count ADDRESS N" for the number of N datagrams that come back.
"""

from __future__ import annotations

import contextlib
import socket
import socketserver
import sys
import threading
import time

PORT = 5000
ANSWER_S = 0.3


class OverTcp(socketserver.BaseRequestHandler):
    """Send back all that comes."""

    def handle(self) -> None:
        while data := self.request.recv(1 << 16):
            self.request.sendall(data)


class OverUdp(socketserver.BaseRequestHandler):
    """Send back each datagram."""

    def handle(self) -> None:
        data, sock = self.request
        sock.sendto(data, self.client_address)


class Asker:
    """The commands; each returns what is printed."""

    def __init__(self) -> None:
        self.connections: dict[str, socket.socket] = {}

    def udp(self, address: str) -> str:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.settimeout(ANSWER_S)
            begin = time.perf_counter()
            sock.sendto(b"?", (address, PORT))
            sock.recv(10)
            return f"answer {time.perf_counter() - begin:.4f}"

    def count(self, address: str, number: str) -> str:
        found = 0
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock, contextlib.suppress(TimeoutError):
            sock.settimeout(ANSWER_S)
            for _ in range(int(number)):
                sock.sendto(b"?", (address, PORT))
            while found < int(number):
                sock.recv(10)
                found += 1
        return f"counted {found}"

    def connect(self, address: str) -> str:
        self.connections[address] = socket.create_connection((address, PORT), timeout=ANSWER_S)
        return "connected"

    def tcp(self, address: str) -> str:
        self.connections[address].sendall(b"?")
        return f"answer {self.connections[address].recv(10)!r}"

    def late(self, address: str) -> str:
        """Wait longer for the answer to an earlier question."""
        self.connections[address].settimeout(10.0)
        answer = self.connections[address].recv(10)
        self.connections[address].settimeout(ANSWER_S)
        return f"answer {answer!r}"

    def flood(self, address: str, size: str) -> str:
        """Send many bytes and wait until all are back."""
        data = bytes(int(size))
        with socket.create_connection((address, PORT), timeout=20.0) as sock:
            begin = time.perf_counter()
            sender = threading.Thread(target=sock.sendall, args=(data,))
            sender.start()
            left = len(data)
            while left:
                left -= len(sock.recv(1 << 16))
            sender.join()
        return f"took {time.perf_counter() - begin:.3f}"


def main() -> None:
    socketserver.ThreadingTCPServer.daemon_threads = True
    for kind, handler in ((socketserver.ThreadingTCPServer, OverTcp), (socketserver.UDPServer, OverUdp)):
        server = kind(("0.0.0.0", PORT), handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
    asker = Asker()
    print("listening", flush=True)
    for line in sys.stdin:
        word, *arguments = line.split()
        try:
            result = getattr(asker, word)(*arguments)
        except (TimeoutError, OSError) as error:
            result = "silence" if isinstance(error, TimeoutError) else f"error {error}"
        print(result, flush=True)


if __name__ == "__main__":
    main()
