"""The part of a process that is asked for a profile: a thread takes it, and passes the result on."""

from __future__ import annotations

import os
import sys
import threading
import traceback
from collections.abc import Callable
from typing import Any

from skate.client.profiler.sampler import Samples
from skate.protocol.fields import Where
from skate.wire.limits import LimitReached, start_thread

#: Kinds of a survey.
PROFILE, TRACEBACK = "profile", "traceback"
CPU, WALL, MEMORY = "cpu", "wall", "memory"


def is_meant(where: Where, node_id: str, looks: bool) -> bool:
    """Return True if this process is one of those that a request names: by node and id, or all with tasks of a program."""
    if where.get("node_id") not in (None, node_id):
        return False
    pids = where.get("pids")
    return str(os.getpid()) in str(pids).split(",") if pids else not looks


def stacks() -> str:
    """Return the stacks of all threads, the innermost frame last."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    return "\n".join(
        f"Thread {ident} ({names.get(ident, '?')}):\n{''.join(traceback.format_stack(frame))}"
        for ident, frame in sys._current_frames().items()
    )


def begin(where: Where, ended: Callable[[], bool], answer: Callable[[dict[str, Any]], None]) -> None:
    """Take a profile in a thread.

    Args:
        where: The seconds, the rate and the mode.
        ended: Checked now and then; ends the profile if it is true.
        answer: Called in the thread with what to add to the answer: the profile, or the problem.
    """

    def run() -> None:
        answer({PROFILE: tuple(_taken(where, ended))})

    try:
        start_thread(run, "skate-profiler", " for a profile")
    except LimitReached as error:
        answer({"problem": str(error)})


def _taken(where: Where, ended: Callable[[], bool]) -> Samples:
    from skate.client.profiler import allocations, sampler  # only the mode that was requested

    seconds, rate, mode = float(where["seconds"]), float(where["rate"]), where["mode"]
    if mode == MEMORY:
        return allocations.sample(seconds, ended)
    return sampler.sample(seconds, rate, mode == WALL, ended)
