"""Awaitable results: the reading thread, and how it wakes event loops."""

from __future__ import annotations

import asyncio
import threading
import weakref
from typing import TYPE_CHECKING, Any

from skate.exceptions import RayCgraphCapacityExceeded
from skate.experimental.channel.graph import Closed

if TYPE_CHECKING:
    from skate.dag.compiled import CompiledDAG


def wake(future: asyncio.Future[Any], error: BaseException | None) -> None:
    """Complete an asyncio future in its own loop."""
    if future.done():
        return
    if error is None:
        future.set_result(None)
    else:
        future.set_exception(error)
        future.exception()  # it need not be retrieved


def read_for_futures(me: weakref.ref[CompiledDAG], work: threading.Semaphore) -> None:
    """The thread that reads results for awaiting callers."""
    while True:
        work.acquire()
        graph = me()
        if graph is None or graph._closed:
            return
        try:
            with graph._reading:
                graph._settle()
                graph._read_next(None)
            graph._settle_futures()
        except Closed:
            graph._settle_futures(graph._ended())
            return
        graph = None


def buffer_full(limit: int, held: int) -> RayCgraphCapacityExceeded:
    """Return the error of a graph that has reached its limit of buffered results."""
    return RayCgraphCapacityExceeded(
        f"The compiled graph can't have more than {limit} buffered results, and you currently have {held} buffered results. "
        "Call `ray.get()` on CompiledDAGRef's (or await on CompiledDAGFuture's) to retrieve results, or increase "
        "`_max_buffered_results` if buffering is desired, note that this will increase driver memory usage."
    )
