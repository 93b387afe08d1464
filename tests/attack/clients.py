"""Clients that cut their requests into pieces, pipeline them, and record each wrong answer."""

from __future__ import annotations

import random
import socket
import threading
import time
from typing import Any


def read_answer(file: Any) -> tuple[int, bytes]:
    """Return the status and the body of the next answer. Raises ConnectionError if the connection ends first."""
    line = file.readline()
    if not line:
        raise ConnectionError("closed without an answer")
    status = int(line.split(b" ", 2)[1])
    length, chunked = 0, False
    while (line := file.readline()) not in (b"\r\n", b""):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            length = int(value)
        chunked |= name.lower() == b"transfer-encoding"
    if not chunked:
        return status, file.read(length)
    body = b""
    while size := int(file.readline(), 16):
        body += file.read(size)
        file.readline()
    file.readline()
    return status, body


class Client(threading.Thread):
    """A thread that sends requests on one connection after another until it is stopped."""

    def __init__(self, port: int, seed: int, paths: dict[str, str], stop: threading.Event) -> None:
        super().__init__(daemon=True)
        self.port = port
        self.random = random.Random(seed)
        self.seed = seed
        self.paths = paths
        self.stop = stop
        self.right = 0
        self.wrong: list[str] = []

    def run(self) -> None:
        number = 0
        while not self.stop.is_set():
            try:
                with socket.create_connection(("127.0.0.1", self.port), 30) as sock:
                    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    file = sock.makefile("rb")
                    for _ in range(self.random.randint(1, 30)):
                        number += 1
                        self.ask(sock, file, number)
                        if self.stop.is_set():
                            break
                    file.close()
            except (OSError, ValueError) as error:
                self.wrong.append(f"{type(error).__name__}: {error}")

    def request(self, ident: str) -> tuple[bytes, bytes]:
        """Return a random request and its expected answer."""
        path, name = self.random.choice(list(self.paths.items()))
        body = b"x" * self.random.choice([0, 0, 0, 10, 5000])
        length = b"Content-Length: %d\r\n" % len(body) if body else b""
        head = f"{'POST' if body else 'GET'} {path}?id={ident} HTTP/1.1\r\nHost: x\r\nUser-Agent: Mozilla/5.0 (X11; a b)\r\n"
        return head.encode() + length + b"\r\n" + body, f"{name}|{ident}|{len(body)}".encode()

    def ask(self, sock: socket.socket, file: Any, number: int) -> None:
        count = self.random.choice([1, 1, 2, 4])
        requests = [self.request(f"{self.seed}-{number}-{each}") for each in range(count)]
        data = b"".join(each for each, _ in requests)
        places = sorted(self.random.randrange(len(data)) for _ in range(self.random.choice([0, 1, 2])))
        for begin, end in zip([0, *places], [*places, len(data)], strict=True):
            sock.sendall(data[begin:end])
            # The pieces must arrive one by one, as from a slow network.
            time.sleep(self.random.choice([0, 0.001, 0.005]))
        for _, expected in requests:
            status, body = read_answer(file)
            if (status, body) == (200, expected):
                self.right += 1
            else:
                self.wrong.append(f"{status} {body!r:.100} for {expected!r}")
                raise ConnectionError("continued with a new connection")


class Clients:
    """Several clients, which run inside a `with` block."""

    def __init__(self, port: int, count: int, paths: dict[str, str]) -> None:
        self.stop = threading.Event()
        self.all = [Client(port, seed, paths, self.stop) for seed in range(count)]

    def __enter__(self) -> Clients:
        for each in self.all:
            each.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop.set()
        for each in self.all:
            each.join(40)

    @property
    def right(self) -> int:
        return sum(each.right for each in self.all)

    @property
    def wrong(self) -> list[str]:
        return [text for each in self.all for text in each.wrong]
