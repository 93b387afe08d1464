"""A debugger in drivers, tasks and actors, under the name of Ray's older one."""

from __future__ import annotations

import sys

from skate.client.runtime_context import in_worker


def set_trace(breakpoint_uuid: bytes | None = None) -> None:
    """Stop here in Python's debugger; the same as `breakpoint()`.

    In a driver, and everywhere under `init(local_mode=True)`, the debugger uses the terminal. In a worker, which has none, the
    task waits until `skate debug` attaches, from any terminal of the same user on the same machine.

    Args:
        breakpoint_uuid: accepted for compatibility.
    """
    frame = sys._getframe(1)
    if in_worker() and not sys.stdin.isatty():
        from skate.client import debugger  # takes 20 ms, and only debugging needs it

        debugger.set_trace(frame)
        return
    import pdb  # as above

    pdb.Pdb().set_trace(frame)
