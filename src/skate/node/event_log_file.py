"""The log of a node in a file, for a bug report: SKATE_EVENT_LOG names a folder, in which each node writes a file of its own.

`python -m skate.node.event_log_file FILE` replays one: it says how the node ended, or which step went otherwise.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

from skate.core.node import NodeCore
from skate.core.replay import EventLog, replay

LENGTH_BYTES = 8


class EventLogFile:
    """Writes what the core of this node is given, from now on."""

    def __init__(self, core: NodeCore, folder: str, node_id: bytes) -> None:
        os.makedirs(folder, exist_ok=True)
        self.path = os.path.join(folder, f"node-{os.getpid()}-{node_id.hex()[:8]}.log")
        # Not buffered: of a node that dies the last input is what matters. For its owner alone, as arguments of tasks are in it.
        self._fd = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        self._log = EventLog(core, self._write)

    def _write(self, entry: bytes) -> None:
        rest = memoryview(len(entry).to_bytes(LENGTH_BYTES, "little") + entry)
        while rest:
            rest = rest[os.write(self._fd, rest) :]

    def close(self) -> None:
        """Record no more."""
        self._log.close()
        os.close(self._fd)


def entries(path: str) -> Iterator[bytes]:
    """Read the entries of a log; one that was not written to its end is left out."""
    with open(path, "rb") as file:
        while len(head := file.read(LENGTH_BYTES)) == LENGTH_BYTES:
            size = int.from_bytes(head, "little")
            entry = file.read(size)
            if len(entry) == size:
                yield entry


def main(path: str) -> None:
    """Replay a log and print how the node ended."""
    core = replay(entries(path))
    print(core.snapshot)
    for name, why in core.snapshot.unended():
        print(f"  {name}: {why}")


if __name__ == "__main__":
    main(sys.argv[1])
