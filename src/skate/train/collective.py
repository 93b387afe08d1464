"""Collective operations of all workers of a run, without a process group: a barrier, and a broadcast from rank 0."""

from __future__ import annotations

from typing import TypeVar

from skate.train.worker.session import current

T = TypeVar("T")


def barrier() -> None:
    """Wait until all workers have called it.

    Raises:
        RuntimeError: called outside of the training function, or the run ended during the wait.
    """
    _synchronize("barrier()", None)


def broadcast_from_rank_zero(data: T) -> T:
    """Return the value of rank 0 on all ranks; the values of the other ranks are ignored.

    Raises:
        RuntimeError: called outside of the training function, or the run ended during the wait.
    """
    return _synchronize("broadcast_from_rank_zero()", data)


def _synchronize(caller: str, data: T) -> T:
    session = current(f"collective.{caller}")
    number = session.next_number("collective")
    brought = data if session.place.world_rank == 0 else None
    session.send("sync", "collective", number, brought)
    found: T = session.await_release("collective", number)
    return found
