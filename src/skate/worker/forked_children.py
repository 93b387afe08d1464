"""Child processes that user code forks in a worker: detach them from the node, and let them end on their own."""

from __future__ import annotations

import os
import signal
import threading
import traceback
from typing import Any, NoReturn

from skate.client.session import session
from skate.worker import output
from skate.worker.executor import Executor
from skate.worker.worker_core import Running


class DetachedExecutor(Executor):
    """The executor of a forked child, which ends when it returns into the worker's loop."""

    __slots__ = ()  # so that the child's executor can take this class

    def answer(self, running: Running, status: int, returns: object, started: float, retriable: bool) -> None:
        """End the child after its call has returned."""
        _leave()

    def failed(self, running: Running, error: BaseException, started: float) -> None:
        """End the child after its call has failed."""
        _leave(error)


def guard(executor: Executor) -> None:
    """Register the detaching of forked children. Call it once, in a fresh worker.

    SIGTERM is blocked from before a fork until the child has detached: Python drops signals that arrive in between, so
    a child of multiprocessing that its parent ends at once would live on.
    """
    masks = threading.local()

    def block() -> None:
        masks.before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})

    def unblock() -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, masks.before)

    def detach() -> None:
        try:
            _detach(executor)
        finally:
            unblock()

    os.register_at_fork(before=block, after_in_parent=unblock, after_in_child=detach)


def _detach(executor: Executor) -> None:
    """Detach a child from the node, which only the parent may use. Replace locks that threads of the parent may hold."""
    process = executor.process
    process.closed = executor.pump.closed = True
    process.lock = executor.lock = executor.pump.lock = threading.RLock()
    executor.channel.close()
    session.attach(None)
    if signal.getsignal(signal.SIGTERM) == executor.departure.on_terminate:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)  # multiprocessing ends its children with SIGTERM
    executor.__class__ = DetachedExecutor
    departure: Any = executor.departure
    departure.actor = departure.crash = _leave


def _leave(error: BaseException | None = None) -> NoReturn:
    """End the child as Python ends a program that returns, raises or exits."""
    code = 0
    if isinstance(error, SystemExit):
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
    elif error is not None and type(error).__name__ != "ActorExit":
        traceback.print_exception(error)
        code = 1
    output.flush()
    os._exit(code)
