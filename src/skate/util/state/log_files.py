"""Readers of the log files that nodes keep where `--log-dir` asks for them: their names, the end of one, and what follows."""

from __future__ import annotations

import re
from typing import Any

from skate.client.state import worker_output
from skate.util.state.exception import RayStateApiException

Node = tuple[str | None, str | None]
#: What is read at once, while the beginning of the last lines is searched.
PIECE_BYTES = 1 << 18
_OF_WORKER = re.compile(r"worker-[0-9a-f]+-[0-9a-f]+-(\d+)\.(out|err)(?:\.1)?")


def on_node(rows: list[dict[str, Any]], node: Node) -> list[dict[str, Any]]:
    """Return the rows of one node, by its id or address; all rows if neither is given."""
    return [row for row in rows if node[0] in (None, row["node_id"]) and node[1] in (None, row["node_ip"])]


def group_of(name: str) -> str:
    """Return the group of a file in lists: that of worker outputs, or "internal"."""
    found = _OF_WORKER.fullmatch(name)
    return f"worker_{found[2]}" if found else "internal"


def stream_of(name: str) -> tuple[int, str] | None:
    """Return the pid and the suffix of the stream that a file keeps; None for other files."""
    found = _OF_WORKER.fullmatch(name)
    return (int(found[1]), found[2]) if found else None


def has(node: Node, name: str, timeout: float) -> bool:
    """Return True if a node has a log file of this name."""
    return bool(on_node(worker_output.piece_of(name, 0, -1, timeout), node))


class FileReader:
    """Reads one log file.

    Args:
        node: the id or address of the node, (None, None) for the first one that has the file.
        name: the name in the folder.
        timeout: seconds to wait for an answer.
    """

    def __init__(self, node: Node, name: str, timeout: float) -> None:
        self._node = node
        self._name = name
        self._timeout = timeout
        self._at = 0
        self._turn = -1

    def first(self, tail: int) -> str:
        """Return the last lines; the whole file if `tail` is negative. Raises RayStateApiException if it is gone."""
        if tail < 0:
            return self._whole()
        row = self._piece(-PIECE_BYTES, -1)
        if row is None:
            raise self._gone()
        self._at, self._turn = row["at"], row["turn"]
        data: bytes = row["data"]
        start = self._at - len(data)
        while tail and start > 0 and data.count(b"\n") <= tail:
            before = max(0, start - PIECE_BYTES)
            row = self._piece(before, self._turn)
            if row is None or row["turn"] != self._turn:
                break
            data, start = row["data"][: start - before] + data, before
        lines = data.splitlines(keepends=True)
        return b"".join(lines[-tail:] if tail else []).decode("utf-8", "replace")

    def more(self) -> str | None:
        """Return what was written since the last call; None if no more comes."""
        row = self._piece(self._at, self._turn)
        if row is None:
            return None
        self._at, self._turn = row["at"], row["turn"]
        data: bytes = row["data"]
        if not data:
            return "" if row["open"] else None
        whole = data.rfind(b"\n") + 1
        if whole and whole < len(data):  # the rest of a line is read again with its end
            self._at -= len(data) - whole
            data = data[:whole]
        lost = "[lines are missing, which are no longer kept]\n" if row["lost"] else ""
        return lost + data.decode("utf-8", "replace")

    def _whole(self) -> str:
        parts: list[bytes] = []
        size = -1
        while size < 0 or self._at < size:
            row = self._piece(self._at, self._turn)
            if row is None:
                raise self._gone()
            if size < 0:
                size = row["size"]  # what is written meanwhile comes later
            if not row["data"] or self._turn not in (-1, row["turn"]):
                break
            parts.append(row["data"])
            self._at, self._turn = row["at"], row["turn"]
        return b"".join(parts).decode("utf-8", "replace")

    def _piece(self, at: int, turn: int) -> dict[str, Any] | None:
        rows = on_node(worker_output.piece_of(self._name, at, turn, self._timeout), self._node)
        if rows and self._node == (None, None):
            self._node = (rows[0]["node_id"], None)
        return rows[0] if rows else None

    def _gone(self) -> RayStateApiException:
        return RayStateApiException(f"no node has the log file {self._name!r} any more; see list_logs()")
