"""The event log of a node in a file, for bug reports: each node writes a file in the folder that SKATE_EVENT_LOG names.

`python -m skate.node.event_log_file FILE` replays a log, and reports how the node ended or which step differed.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

from skate.core.node import NodeCore
from skate.core.replay import EventLog, replay

LENGTH_BYTES = 8


class EventLogFile:
    """Writes all inputs of this node's core to a file."""

    def __init__(self, core: NodeCore, folder: str, node_id: bytes) -> None:
        os.makedirs(folder, exist_ok=True)
        self.path = os.path.join(folder, f"node-{os.getpid()}-{node_id.hex()[:8]}.log")
        # Unbuffered, because the last input before a crash matters most. Private, because it contains arguments of tasks.
        self._fd = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        self._log = EventLog(core, self._write)

    def _write(self, entry: bytes) -> None:
        rest = memoryview(len(entry).to_bytes(LENGTH_BYTES, "little") + entry)
        while rest:
            rest = rest[os.write(self._fd, rest) :]

    def close(self) -> None:
        """Stop recording."""
        self._log.close()
        os.close(self._fd)


def entries(path: str) -> Iterator[bytes]:
    """Read the entries of a log, without an incomplete last one."""
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
