"""Plain sockets between two machines: a server on one, and the figures that a client on the other prints.

python -m benchmarks.cluster.bare serve [CERTIFICATE]
python -m benchmarks.cluster.bare ask ADDRESS [CERTIFICATE]
"""

from __future__ import annotations

import json
import socket
import ssl
import statistics
import struct
import sys
import threading
import time

PORT, TLS_PORT = 5100, 5101
FRAME_BYTES = 200
#: What is sent at once, so that a client sees one transfer.
TRANSFER_BYTES = 1_000_000_000
ROUND_TRIPS = 300
BATCHES = 9
TRANSFERS = 3


def receive(sock: socket.socket, view: memoryview) -> None:
    """Fill a buffer. Raises ConnectionError if the connection ends before."""
    while view:
        count = sock.recv_into(view)
        if not count:
            raise ConnectionError("closed")
        view = view[count:]


def answer(sock: socket.socket) -> None:
    """Answer each question: frames come back, a wish for many bytes is granted."""
    frame = bytearray(FRAME_BYTES)
    large: bytes | None = None
    with sock:
        try:
            while True:
                receive(sock, memoryview(frame))
                (wanted,) = struct.unpack_from("<Q", frame)
                if not wanted:
                    sock.sendall(frame)
                    continue
                if large is None:
                    large = bytes(range(256)) * (wanted // 256)
                sock.sendall(large)
        except ConnectionError:
            return


def serve(certificate: str | None) -> None:
    """Serve plain connections, and with a certificate TLS as well, until stdin ends."""

    def accept(listener: socket.socket, context: ssl.SSLContext | None) -> None:
        while True:
            sock, _ = listener.accept()
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if context is not None:
                sock = context.wrap_socket(sock, server_side=True)
            threading.Thread(target=answer, args=(sock,), daemon=True).start()

    threading.Thread(target=accept, args=(socket.create_server(("", PORT)), None), daemon=True).start()
    if certificate:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        listener = socket.create_server(("", TLS_PORT))
        threading.Thread(target=accept, args=(listener, context), daemon=True).start()
    print("listening", flush=True)
    sys.stdin.read()


def connect(address: str, certificate: str | None) -> socket.socket:
    """Open a connection, by TLS if there is a certificate."""
    sock = socket.create_connection((address, TLS_PORT if certificate else PORT))
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if not certificate:
        return sock
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.load_verify_locations(certificate)
    return context.wrap_socket(sock)


def round_trip_us(sock: socket.socket) -> float:
    """Return the median microseconds of a frame there and back."""
    frame, back = bytes(FRAME_BYTES), memoryview(bytearray(FRAME_BYTES))
    times = []
    for _ in range(BATCHES):
        begin = time.perf_counter()
        for _ in range(ROUND_TRIPS):
            sock.sendall(frame)
            receive(sock, back)
        times.append((time.perf_counter() - begin) / ROUND_TRIPS)
    return statistics.median(times) * 1e6


def transfer_gb_per_s(sock: socket.socket) -> float:
    """Return the best rate of a gigabyte into memory that was written before."""
    into = bytearray(TRANSFER_BYTES // 256 * 256)
    ask = struct.pack("<Q", len(into)).ljust(FRAME_BYTES, b"\0")
    rates = []
    for _ in range(1 + TRANSFERS):
        begin = time.perf_counter()
        sock.sendall(ask)
        receive(sock, memoryview(into))
        rates.append(len(into) / (time.perf_counter() - begin) / 1e9)
    return max(rates[1:])


def ask(address: str, certificate: str | None) -> dict[str, float]:
    """Return the figures of plain sockets, and of TLS if there is a certificate."""
    found = {}
    for name, used in (("", None), ("_tls", certificate)):
        if name and not used:
            continue
        with connect(address, used) as sock:
            found[f"round_trip{name}"] = round_trip_us(sock)
            found[f"transfer{name}"] = transfer_gb_per_s(sock)
    return found


def main() -> None:
    role, *rest = sys.argv[1:]
    if role == "serve":
        serve(rest[0] if rest else None)
    else:
        figures = ask(rest[0], rest[1] if rest[1:] else None)
        print(json.dumps({"figures": figures, "notes": {}}), flush=True)


if __name__ == "__main__":
    main()
