"""The node of one driver on a machine that has no node of the driver's cluster: it has no CPUs, and ends with its driver."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import IO, Any

import msgpack

from skate.node import standalone
from skate.node.network import Network
from skate.node.settings import Settings


def main() -> None:
    """Run the node. The request comes from stdin; the address of the node, or an error, goes to stdout."""
    with os.fdopen(0, "rb", closefd=False) as file:
        given: dict[str, Any] = msgpack.unpackb(file.read(), strict_map_key=False)
    answer = os.fdopen(os.dup(1), "wb")
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    os.close(null)
    place = standalone.Place(given["folder"])
    try:
        run(given, place, answer)
    except Exception as error:  # the driver gets any error of the start; there is nobody else to tell
        if answer.closed:
            raise
        expected = isinstance(error, ConnectionError | ValueError)
        answer.write(b"-" + f"{'' if expected else f'{type(error).__name__}: '}{error}".encode())
        answer.close()
        place.leave()
        sys.exit(1)
    finally:
        with contextlib.suppress(OSError):  # the driver may have removed it
            os.rmdir(given["folder"])


def run(given: dict[str, Any], place: standalone.Place, answer: IO[bytes]) -> None:
    """Run the node until its driver or its cluster ends."""

    def ready(found: standalone.Address) -> None:
        answer.write(b"+" + os.fsencode(found.path))
        answer.close()

    settings = Settings.unpacked(given["settings"])
    standalone.run(settings, place, ready, Network(**given["network"]), driver=given["driver"])


if __name__ == "__main__":
    main()
