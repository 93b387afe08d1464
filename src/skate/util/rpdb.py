"""A debugger in tasks, under the name of Ray's older one."""

from __future__ import annotations

import sys

from skate.client.runtime_context import in_worker


def set_trace(breakpoint_uuid: bytes | None = None) -> None:
    """Stop here in Python's debugger.

    In a driver, and everywhere under `init(local_mode=True)`, the debugger uses the terminal. A worker process
    has none:
    there this raises RuntimeError, with instructions for running the task in the driver.

    Args:
        breakpoint_uuid: accepted for compatibility.
    """
    if in_worker() and not sys.stdin.isatty():
        raise RuntimeError(
            "set_trace() needs a terminal, but a worker process has none: run the program with "
            "init(local_mode=True), which runs tasks and actors in the driver"
        )
    import pdb  # takes 20 ms, and only debugging needs it

    pdb.Pdb().set_trace(sys._getframe(1))
