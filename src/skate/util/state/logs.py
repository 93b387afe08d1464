"""`list_logs` and `get_log`: the last output of workers. Nodes keep its end in memory, and files of it on request.

A line belongs to the task that has printed it. Output of C code and of child processes belongs to a task once the task has
printed something itself.
"""

from __future__ import annotations

import fnmatch
import re
import time
from collections.abc import Iterator
from typing import Any, Protocol

from skate.client.state import worker_output
from skate.util.nodes import get_node_ip_address
from skate.util.state import jobs, log_files, rest
from skate.util.state.api import get_actor, get_task, list_nodes, list_workers
from skate.util.state.common import DEFAULT_RPC_TIMEOUT, RAY_MAX_LIMIT_FROM_API_SERVER
from skate.util.state.exception import RayStateApiException

SUFFIXES = ("out", "err")
#: How often a followed stream is asked for more lines.
FOLLOW_SECONDS = 0.25
ENDED = ("FINISHED", "FAILED")
_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def list_logs(
    address: str | None = None,
    node_id: str | None = None,
    node_ip: str | None = None,
    glob_filter: str | None = None,
    timeout: float = DEFAULT_RPC_TIMEOUT,
) -> dict[str, list[str]]:
    """Return the names of worker outputs for `get_log`, by "worker_out" and "worker_err".

    A node that keeps log files (`skate start --log-dir`) lists those, also the ones of ended workers, under Ray's names. The
    output of a submitted job is `job-driver-<id>.log`.

    With the URL of a dashboard as address, the names that it lists. Raises RayStateApiException if there is no such node.
    """
    if rest.is_url(address):
        assert address is not None
        node = [("node_id", node_id)] if node_id else [("node_ip", node_ip or _head_ip(address, timeout))]
        listed: dict[str, list[str]] = rest.ask(
            address, "/api/v0/logs", timeout, [*node, ("glob", glob_filter or "*")]
        )
        return listed
    _check_node(node_id)
    node_of = (node_id, node_ip)
    files = log_files.on_node(worker_output.files(timeout), node_of)
    in_files = {(row["node_id"], log_files.stream_of(row["file"])) for row in files}
    names = [(log_files.group_of(row["file"]), row["file"]) for row in files]
    for row in log_files.on_node(worker_output.kept(timeout), node_of):
        if (row["node_id"], (row["pid"], row["stream"])) not in in_files:
            names.append((f"worker_{row['stream']}", f"worker-{row['pid']}.{row['stream']}"))
    if node_ip is None or node_ip == get_node_ip_address():
        names += [(jobs.GROUP, row["file"]) for row in jobs.files() if node_id in (None, row["node_id"])]
    found: dict[str, list[str]] = {}
    for group, name in names:
        if glob_filter is None or fnmatch.fnmatch(name, glob_filter):
            found.setdefault(group, []).append(name)
    return found


def _head_ip(address: str, timeout: float) -> str:
    (head,) = list_nodes(address, [("is_head_node", "=", "True")], timeout=timeout)
    return str(head.node_ip)


def _check_node(node_id: str | None) -> None:
    if node_id is not None and node_id not in [node.node_id for node in list_nodes()]:
        raise RayStateApiException(f"there is no node {node_id!r}; ray.nodes() lists them")


class Reader(Protocol):
    """Reads the end of an output, and then what follows."""

    def first(self, tail: int) -> str:
        """Return the last lines, all of them if `tail` is negative. Raises RayStateApiException if nothing is kept."""

    def more(self) -> str | None:
        """Return the lines since the last call; None if no more come."""


def reader_of(
    node: tuple[str | None, str | None] = (None, None),
    filename: str | None = None,
    actor_id: str | None = None,
    task: tuple[str, int] | None = None,
    pid: int | None = None,
    suffix: str = "out",
    timeout: float = DEFAULT_RPC_TIMEOUT,
    submission_id: str | None = None,
) -> Reader:
    """Return the reader of a job, of a log file if a node has one of this name, or of what nodes keep; see `LogReader`."""
    job = submission_id or (None if filename is None else jobs.submission_of(filename))
    if job is not None:
        return jobs.JobReader(job)
    if filename is not None and log_files.has(node, filename, timeout):
        return log_files.FileReader(node, filename, timeout)
    return LogReader(node, filename, actor_id, task, pid, suffix, timeout)


class LogReader:
    """Reads one stream of a worker, or the lines of one task in it, from the session of this process.

    Args: see `get_log`.

    Raises:
        ValueError: no worker or an unknown suffix was given.
        RayStateApiException: there is no such actor, task or node.
    """

    def __init__(
        self,
        node: tuple[str | None, str | None] = (None, None),
        filename: str | None = None,
        actor_id: str | None = None,
        task: tuple[str, int] | None = None,
        pid: int | None = None,
        suffix: str = "out",
        timeout: float = DEFAULT_RPC_TIMEOUT,
    ) -> None:
        if filename is not None:
            stem, _, suffix = filename.rpartition(".")
            number = stem.rpartition("-")[2]
            pid = int(number) if number.isdigit() else -1
        elif actor_id is None and task is None and pid is None:
            raise ValueError("select the output with filename=, actor_id=, task_id= or pid=")
        if suffix not in SUFFIXES:
            raise ValueError(f"suffix={suffix!r} is unknown; use one of: {', '.join(SUFFIXES)}")
        _check_node(node[0])
        self._node, self._actor_id, self._task = node, actor_id, task
        self._pid, self._suffix, self._timeout = pid, suffix, timeout
        self._what = filename or actor_id or (task[0] if task else f"pid {pid}")
        #: The number of the next line.
        self._next = 0
        self._began = False

    def first(self, tail: int) -> str:
        """Return the last lines that are kept; all of them if `tail` is negative. Raises RayStateApiException if none are."""
        worker_output.settle(self._timeout)
        row = self._row()
        if row is None and not self._exists():
            raise RayStateApiException(f"no output is kept of {self._what}; see list_logs()")
        lines = [] if row is None else row["lines"]
        return _joined(lines if tail < 0 else lines[-tail:] if tail else [])

    def more(self) -> str | None:
        """Return the lines since the last call; None if no more come."""
        ended = self._ended()  # asked first, so that no line comes after it
        if ended:
            worker_output.settle(self._timeout)
        row = self._row()
        if row is None or not (row["lines"] or row["lost"]):
            return None if ended else ""
        lost = f"[{row['lost']} lines are no longer kept]\n" if row["lost"] else ""
        return lost + _joined(row["lines"])

    def _row(self) -> dict[str, Any] | None:
        """Return the stream with its next lines, or None if there is none yet."""
        if self._task is not None:
            rows = worker_output.lines_of_task(*self._task, self._suffix, self._timeout, self._next)
        else:
            rows = worker_output.lines_of(self._pid_of_now(), self._suffix, self._timeout, self._next)
        rows = log_files.on_node(rows, self._node)
        if not rows:
            return None
        row = rows[0]
        if not self._began or self._task is not None:
            # Lines that were dropped before are not lost on the way, and those of a task are not counted.
            row["lost"] = 0
        self._began, self._next = True, row["end"]
        return row

    def _pid_of_now(self) -> int:
        if self._actor_id is not None:
            actor = get_actor(self._actor_id, timeout=self._timeout)
            pid = -1 if actor is None else actor.pid or -1
            if self._pid not in (None, pid):
                self._next = 0  # the actor was restarted in another process
            self._pid = pid
        return self._pid or -1

    def _exists(self) -> bool:
        if self._task is not None:
            return bool(self._states())
        if self._actor_id is not None or (self._pid or -1) <= 0:
            return self._actor_id is not None and (self._pid or -1) > 0
        # A worker that lives and has printed nothing has an empty stream.
        rows = list_workers(timeout=self._timeout, limit=RAY_MAX_LIMIT_FROM_API_SERVER)
        return any(row.pid == self._pid for row in rows)

    def _states(self) -> list[str]:
        """Return the state of the attempt, or nothing if there is no such attempt."""
        assert self._task is not None
        found = get_task(self._task[0], timeout=self._timeout)
        attempts: list[Any] = found if isinstance(found, list) else [found]
        return [each.state for each in attempts if each and each.attempt_number == self._task[1]]

    def _ended(self) -> bool:
        if self._task is not None:
            states = self._states()
            return not states or states[0] in ENDED
        if self._actor_id is not None:
            actor = get_actor(self._actor_id, timeout=self._timeout)
            return actor is None or actor.state == "DEAD"
        rows = log_files.on_node(
            worker_output.lines_of(self._pid or -1, self._suffix, self._timeout, 1 << 62), self._node
        )
        return not any(row["open"] for row in rows)


def _joined(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def without_colours(text: str) -> str:
    """Return a text without escape codes of terminals."""
    return _ANSI.sub("", text)


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
        address: the URL of a dashboard to ask; by default, the session of this process is asked.
        task_id, attempt_number: only the lines that this attempt of a task has printed.
        submission_id: the output of a submitted job.
        tail: the number of lines; -1 for all kept lines (64 KiB per worker).
        suffix: "out" for its standard output, "err" for its standard error.
        encoding: None for bytes.
        follow: also yield new lines as they come, until the task, the actor or the worker has ended.

    Raises ValueError if no worker or an unknown suffix was given, RayStateApiException if no such output is kept.
    """
    pause = FOLLOW_SECONDS if _interval is None else _interval
    if rest.is_url(address):
        assert address is not None
        asked = {
            "node_id": node_id, "node_ip": node_ip, "filename": filename, "actor_id": actor_id, "task_id": task_id, "pid": pid,
            "lines": tail, "interval": _interval, "timeout": int(timeout), "suffix": suffix, "attempt_number": attempt_number,
            "submission_id": submission_id,
        }  # fmt: skip
        query = [(name, value) for name, value in asked.items() if value is not None]
        texts = _over_http(address, query, follow)
    else:
        task = None if task_id is None else (task_id, attempt_number)
        reader = reader_of((node_id, node_ip), filename, actor_id, task, pid, suffix, timeout, submission_id)
        texts = _read(reader, tail, pause if follow else None)
    for text in texts:
        shown = without_colours(text) if filter_ansi_code else text
        if shown or not follow:
            yield shown if encoding is not None else shown.encode()


def _read(reader: Reader, tail: int, pause: float | None) -> Iterator[str]:
    """Yield the kept lines, and with a pause those that come later."""
    yield reader.first(tail)
    while pause is not None:
        text = reader.more()
        if text is None:
            return
        if text:
            yield text
        else:
            time.sleep(pause)


def _over_http(address: str, query: list[tuple[str, Any]], follow: bool) -> Iterator[str]:
    """Yield the lines that a dashboard sends."""
    kind = "stream" if follow else "file"
    waits = None if follow else float(dict(query)["timeout"]) + rest.ANSWER_SECONDS
    with rest.opened(address, f"/api/v0/logs/{kind}", waits, query) as answer:
        for line in answer:
            yield line.decode(errors="replace")
