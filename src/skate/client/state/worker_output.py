"""The recent output of workers, as far as their nodes keep it."""

from __future__ import annotations

import time
from typing import Any

from skate.client.session import session
from skate.client.state import survey
from skate.protocol.fields import Where
from skate.wire.output import key_of

Row = dict[str, Any]
#: How often nodes are asked how far they have read; a round takes less than a millisecond.
_SETTLE_SECONDS = 0.002


def kept(timeout: float) -> list[Row]:
    """Return one row for each stream with kept output: the node's id and address, the pid, and "out" or "err" as stream."""
    return sorted(_ask({}, timeout), key=lambda row: (row["node_id"], row["pid"], row["stream"]))


def lines_of(pid: int, stream: str, timeout: float, since: int = 0) -> list[Row]:
    """Return the rows of a process's stream with its lines from a number on; several if nodes have processes with the same pid.

    `end` is the number after the last line, `lost` how many lines are no longer kept, `open` if more may come.
    """
    return _ask({"pid": str(pid), "stream": stream, "since": str(since)}, timeout)


def lines_of_task(task_id: str, attempt: int, stream: str, timeout: float, since: int = 0) -> list[Row]:
    """Return the row of the stream with lines that an attempt of a task has printed, as `lines_of` does."""
    printer = key_of(bytes.fromhex(task_id), attempt)
    return _ask({"printer": printer, "stream": stream, "since": str(since)}, timeout)


def lines_after(cursor: str, timeout: float) -> list[Row]:
    """Return the next lines of several streams, each with the attempt of the task that has printed it, if one has.

    Args:
        cursor: The number of the next line of each stream: "NODE:PID.out=12,NODE:PID.err=7", with the beginning of the node's
            id. Without a node, it is the stream of each node that has such a process.
        timeout: How long to wait for the nodes, in seconds.
    """
    return _ask({"cursor": cursor}, timeout)


def settle(timeout: float) -> None:
    """Wait until nodes have read what workers had printed before this call, for at most `timeout` seconds."""
    deadline = time.monotonic() + timeout
    wanted: dict[str, int] | None = None
    while True:
        behind = {row["node_id"]: row["rounds"] for row in _ask({"unread": "1"}, timeout) if row["unread"]}
        if wanted is None:
            wanted = {node: rounds + 2 for node, rounds in behind.items()}
        if (
            all(rounds >= wanted.get(node, 0) for node, rounds in behind.items())
            or time.monotonic() > deadline
        ):
            return
        time.sleep(_SETTLE_SECONDS)


def files(timeout: float) -> list[Row]:
    """Return one row for each file in the log folders of nodes: the node's id and address, the name as `file`, and the size."""
    return sorted(_ask({"file": ""}, timeout), key=lambda row: (row["node_id"], row["file"]))


def piece_of(name: str, at: int, turn: int, timeout: float) -> list[Row]:
    """Return the rows of a log file with its bytes from `at` on; several if nodes have files of the same name.

    `at` counts from the end if it is negative. `data` is at most 256 KiB, `at` and `turn` of the answer are for the next piece,
    `open` is unset if no more will come, and `lost` is set if something was removed before it was read.
    """
    return _ask({"file": name, "at": str(at), "turn": str(turn)}, timeout)


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
