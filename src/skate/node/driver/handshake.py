"""The client side of a node's socket: sends a request and receives the reply, with descriptors."""

from __future__ import annotations

import socket
from typing import Any

import msgpack

from skate.node.driver import address
from skate.protocol import messages as m
from skate.protocol.version import VERSION
from skate.version import __version__

ANSWER_SECONDS = 20.0
READ_BYTES = 1 << 16


def call(
    path: str, answer_s: float = ANSWER_SECONDS, **fields: Any
) -> tuple[socket.socket, dict[str, Any], list[int]]:
    """Send a request to the node at `path`; return the connection, the reply and the descriptors that came with it.

    Raise ConnectionError if there is no node, it refuses, or it has not answered for `answer_s` seconds.
    """
    sock = address.connect(path)
    fds: list[int] = []
    try:
        sock.settimeout(answer_s)
        sock.sendall(msgpack.packb(m.Attach(m.ATTACH, VERSION, {"release": __version__, **fields})))
        unpacker = msgpack.Unpacker(use_list=False, strict_map_key=False)
        while True:
            data, came, _, _ = socket.recv_fds(sock, READ_BYTES, 4)
            fds += came
            if not data:
                raise ConnectionError(address.gone_text(path))
            unpacker.feed(data)
            for answer in unpacker:
                if answer[0] == m.REFUSED:
                    raise ConnectionError(answer[1])
                return sock, answer[1], fds
    except TimeoutError:
        sock.close()
        raise ConnectionError(
            f"the node at {path} has not answered for {answer_s:g} s; it is stopped or very busy: see `skate status`, "
            "end it with `skate stop --force`"
        ) from None
    except BaseException:  # includes KeyboardInterrupt: close the socket in any case
        sock.close()
        raise


def ask(path: str, wants: str, answer_s: float = ANSWER_SECONDS) -> dict[str, Any]:
    """Return the node's reply to one request. Raise ConnectionError if there is none, or no reply in `answer_s` seconds."""
    sock, answer, _ = call(path, answer_s, wants=wants)
    sock.close()
    return answer
