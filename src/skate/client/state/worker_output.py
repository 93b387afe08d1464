"""The recent output of workers, as far as their nodes keep it."""

from __future__ import annotations

from typing import Any

from skate.client.session import session
from skate.client.state import survey
from skate.protocol.fields import Where

Row = dict[str, Any]


def kept(timeout: float) -> list[Row]:
    """Return one row for each stream with kept output: the node's id and address, the pid, and "out" or "err" as stream."""
    return sorted(_ask({}, timeout), key=lambda row: (row["node_id"], row["pid"], row["stream"]))


def lines_of(pid: int, stream: str, timeout: float) -> list[Row]:
    """Return the rows of a process's stream with their last lines; several if nodes have processes with the same pid."""
    return _ask({"pid": str(pid), "stream": stream}, timeout)


def _ask(where: Where, timeout: float) -> list[Row]:
    process = session.current_or_none()
    if process is None:
        raise RuntimeError("no session is running, so no output of workers is kept; call init() first")
    parts, _ = survey.ask(process, ("output",), timeout, where, 0, False)
    return [
        {"node_id": part["node"].hex(), "node_ip": part["ip"], **row}
        for part in parts
        for row in part.get("output", ())
    ]
