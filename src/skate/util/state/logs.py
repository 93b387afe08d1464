"""`list_logs` and `get_log`: the last output of workers. The output is not written to files; its end is kept
in memory.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterator
from typing import Any

from skate.client.state import worker_output
from skate.util.state.api import get_actor, get_task, list_nodes
from skate.util.state.common import DEFAULT_RPC_TIMEOUT
from skate.util.state.exception import RayStateApiException

SUFFIXES = ("out", "err")


def list_logs(
    address: str | None = None,
    node_id: str | None = None,
    node_ip: str | None = None,
    glob_filter: str | None = None,
    timeout: float = DEFAULT_RPC_TIMEOUT,
) -> dict[str, list[str]]:
    """Return the names of worker outputs for `get_log`, by "worker_out" and "worker_err".

    Raises RayStateApiException if there is no such node.
    """
    _check_node(node_id)
    found: dict[str, list[str]] = {}
    for row in _on_node(worker_output.kept(timeout), node_id, node_ip):
        name = f"worker-{row['pid']}.{row['stream']}"
        if glob_filter is None or fnmatch.fnmatch(name, glob_filter):
            found.setdefault(f"worker_{row['stream']}", []).append(name)
    return found


def _on_node(rows: list[dict[str, Any]], node_id: str | None, node_ip: str | None) -> list[dict[str, Any]]:
    return [row for row in rows if node_id in (None, row["node_id"]) and node_ip in (None, row["node_ip"])]


def _check_node(node_id: str | None) -> None:
    if node_id is not None and node_id not in [node.node_id for node in list_nodes()]:
        raise RayStateApiException(f"there is no node {node_id!r}; ray.nodes() lists them")


def get_log(
    address: str | None = None,
    node_id: str | None = None,
    node_ip: str | None = None,
    filename: str | None = None,
    actor_id: str | None = None,
    task_id: str | None = None,
    pid: int | None = None,
    follow: bool = False,
    tail: int = -1,
    timeout: float = DEFAULT_RPC_TIMEOUT,
    suffix: str = "out",
    encoding: str | None = "utf-8",
    errors: str | None = "strict",
    submission_id: str | None = None,
    attempt_number: int = 0,
    filter_ansi_code: bool = False,
    _interval: float | None = None,
) -> Iterator[Any]:
    """Return the last lines of a worker's output, as one text; select it by pid, actor, task, or a name of `list_logs`.

    Args:
        tail: the number of lines; -1 for all kept lines (64 KiB per worker).
        suffix: "out" for its standard output, "err" for its standard error.
        encoding: None for bytes.
        follow: not supported; the text ends with the current output.

    Raises ValueError if no worker or an unknown suffix was given, RayStateApiException if no such output is kept.
    """
    _check_node(node_id)
    if suffix not in SUFFIXES:
        raise ValueError(f"suffix={suffix!r} is unknown; use one of: {', '.join(SUFFIXES)}")
    if follow:
        raise ValueError("follow=True is not supported; the driver prints the output of workers")
    if filename is not None:
        stem, _, suffix = filename.rpartition(".")
        pid = int(stem.rpartition("-")[2]) if stem.rpartition("-")[2].isdigit() else -1
    elif actor_id is not None:
        actor = get_actor(actor_id, timeout=timeout)
        pid = -1 if actor is None else actor.pid
    elif task_id is not None:
        task = get_task(task_id, timeout=timeout)
        attempts: list[Any] = task if isinstance(task, list) else [task]
        pid = next(
            (each.worker_pid for each in attempts if each and each.attempt_number == attempt_number), -1
        )
    elif pid is None:
        raise ValueError("select the output with filename=, actor_id=, task_id= or pid=")
    rows = _on_node(worker_output.lines_of(pid or -1, suffix, timeout), node_id, node_ip)
    if not rows:
        raise RayStateApiException(
            f"no output is kept of {filename or actor_id or task_id or f'pid {pid}'}; see list_logs()"
        )
    lines = rows[0]["lines"]
    text = "".join(f"{line}\n" for line in (lines if tail < 0 else lines[-tail:] if tail else []))
    if filter_ansi_code:
        text = re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", text)
    yield text if encoding is not None else text.encode()
