"""Requests for profiles: checks what is asked, asks the processes of the cluster, and collects their answers."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any, NamedTuple

from skate.client.process import Process
from skate.client.profiler.reporter import CPU, MEMORY, PROFILE, TRACEBACK, WALL
from skate.client.profiler.sampler import Samples
from skate.client.session import session, stack_reader
from skate.client.state import survey

MODES = (CPU, WALL, MEMORY)
SECONDS_MAX = 600.0
RATE_MAX = 1000.0
#: How much longer than the profile itself the processes may take to answer.
GRACE_SECONDS = 10.0


class Profile(NamedTuple):
    """The profile of one process: its id, its node, what it runs, and its stacks."""

    pid: int
    node_id: str
    ip: str
    name: str
    samples: Samples

    @property
    def title(self) -> str:
        """The process in a few words."""
        return f"pid {self.pid} {self.name}"


class Answers(NamedTuple):
    """The profiles of the processes that have answered, and a line about each that has not."""

    profiles: list[Profile]
    missing: list[str]


def take(
    seconds: float = 5.0,
    rate: float = 100.0,
    mode: str = CPU,
    pids: Sequence[int] = (),
    node_id: str = "",
) -> Answers:
    """Profile processes of the session at the same time.

    Args:
        seconds: How long; at most 600.
        rate: Looks per second at the stacks; at most 1000. A look takes about 20 µs.
        mode: "cpu" for CPU time, "wall" for time also of threads that wait, "memory" for allocations that are still held at
            the end.
        pids: Only these processes; by default all workers and drivers.
        node_id: Only processes of this node, as hexadecimal digits.

    Raises:
        ValueError: An argument is out of its range.
        RuntimeError: No session is running, or it ends meanwhile.
    """
    if not 0 < seconds <= SECONDS_MAX:
        raise ValueError(f"a profile takes more than 0 and at most {SECONDS_MAX:g} s, not {seconds:g}")
    if not 1 <= rate <= RATE_MAX:
        raise ValueError(f"the rate must be from 1 to {RATE_MAX:g} samples per second, not {rate:g}")
    if mode not in MODES:
        raise ValueError(f"the mode must be one of {', '.join(MODES)}, not {mode!r}")
    where = {"seconds": str(seconds), "rate": str(rate), "mode": mode} | _chosen(pids, node_id)
    parts, silent = survey.ask(_process(), (PROFILE,), seconds + GRACE_SECONDS, where, 0, False)
    found = [
        Profile(part["pid"], part["node"].hex(), part["ip"], part["name"], Samples(*part[PROFILE]))
        for part in parts
        if PROFILE in part
    ]
    problems = [f"pid {part['pid']}: {part['problem']}" for part in parts if "problem" in part]
    missing = [_about(row) for row in silent if not pids or row.get("pid") in pids]
    return Answers(sorted(found), problems + missing)


def traceback_of(pid: int, node_id: str = "", timeout: float = 5.0) -> str | None:
    """Return the stacks of all threads of a process of the session as text; None if there is none of this id, or no answer.

    Args:
        pid: The process.
        node_id: Its node, as hexadecimal digits; by default any.
        timeout: How long to wait for an answer, in seconds. A process of this machine that does not answer by itself, because
            it holds the interpreter's lock, writes its stacks when it gets a signal.
    """
    process = _process()
    parts, _ = survey.ask(process, (TRACEBACK,), timeout, _chosen([pid], node_id), 0, False)
    for part in parts:
        if TRACEBACK in part:
            return str(part[TRACEBACK])
    if node_id in ("", process.node_id.hex()) and pid in stack_reader.offering():
        with contextlib.suppress(stack_reader.NoAnswer):
            return stack_reader.dump(pid)
    return None


def _process() -> Process:
    process = session.current_or_none()
    if process is None:
        raise RuntimeError("no session is running, so there is no process to profile; call init() first")
    return process


def _chosen(pids: Sequence[int], node_id: str) -> dict[str, bytes | str]:
    chosen: dict[str, bytes | str] = {}
    if pids:
        chosen["pids"] = ",".join(map(str, pids))
    if node_id:
        chosen["node_id"] = node_id
    return chosen


def _about(row: dict[str, Any]) -> str:
    pid = row.get("pid") or "unknown"
    return f"pid {pid} of node {row['node'].hex()[:12]} has not answered: it holds the interpreter's lock, or is stopped"
