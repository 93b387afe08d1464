"""The stacks of all processes of a session at one moment."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from skate.client.profiler.reporter import TRACEBACK
from skate.client.session import session, stack_reader
from skate.client.state import survey

_FRAME = re.compile(r'^ *File "(.*)", line (\d+),? in (.*)$')
_THREAD = re.compile(r"^(?:Current t|T)hread (?:0x[0-9a-f]+|\d+)(?:.*?\((.*)\)|.*\[(.*)\])?")
#: How long a process of this machine may take that does not answer by itself.
DUMP_SECONDS = 1.0


class Frame(NamedTuple):
    """One line of a stack."""

    file: str
    line: int
    function: str


class ThreadStack(NamedTuple):
    """The stack of a thread, the innermost frame last."""

    name: str
    frames: list[Frame]


class ProcessStacks(NamedTuple):
    """The stacks of one process; or the problem, if there are none."""

    pid: int
    node_id: str
    name: str
    threads: list[ThreadStack]
    problem: str


def stacks_of_all(timeout: float = 2.0) -> list[ProcessStacks]:
    """Return the stacks of all workers and drivers of the session.

    Args:
        timeout: How long to wait for answers, in seconds. A process of this machine that does not answer by itself, because it
            holds the interpreter's lock, writes its stacks when it gets a signal.

    Raises:
        RuntimeError: No session is running.
    """
    process = session.current_or_none()
    if process is None:
        raise RuntimeError("no session is running, so there are no stacks; call init() first")
    parts, silent = survey.ask(process, (TRACEBACK,), timeout, {}, 0, False)
    found = [
        ProcessStacks(part["pid"], part["node"].hex(), part.get("name", ""), threads_of(part[TRACEBACK]), "")
        for part in parts
        if TRACEBACK in part
    ]
    return sorted([*found, *(_of_silent(row, process.node_id) for row in silent if row.get("pid"))])


def _of_silent(row: dict[str, Any], here: bytes) -> ProcessStacks:
    pid, node = row["pid"], row["node"]
    name = row.get("name", "")
    if node != here:
        return ProcessStacks(pid, node.hex(), name, [], "it has not answered")
    try:
        # The signal's answer begins with the innermost frame.
        threads = [
            ThreadStack(thread.name, thread.frames[::-1])
            for thread in threads_of(stack_reader.dump(pid, DUMP_SECONDS))
        ]
    except stack_reader.NoAnswer as error:
        return ProcessStacks(pid, node.hex(), name, [], str(error))
    return ProcessStacks(pid, node.hex(), name, threads, "")


def threads_of(text: str) -> list[ThreadStack]:
    """Return the threads of a text of `traceback` or `faulthandler`, with their frames in its order."""
    threads: list[ThreadStack] = []
    for line in text.splitlines():
        thread, frame = _THREAD.match(line), _FRAME.match(line)
        if thread is not None:
            threads.append(ThreadStack(thread[1] or thread[2] or "", []))
        elif frame is not None and threads:
            threads[-1].frames.append(Frame(frame[1], int(frame[2]), frame[3]))
    return threads
