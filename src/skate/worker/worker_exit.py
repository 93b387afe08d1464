"""The exit of a worker: at its actor's request, after a crash of user code, or by SIGTERM."""

from __future__ import annotations

import sys
import traceback
from typing import TYPE_CHECKING, Any

from skate.worker.call_runner import asyncio_function

if TYPE_CHECKING:
    from skate.worker.executor import Executor

SHUTDOWN_METHOD = "__ray_shutdown__"
#: The exit code of a worker that SIGTERM ends.
TERMINATED = 1


def how_it_left(error: BaseException | None) -> str:
    """Return the words for the call with which an actor ends itself."""
    return "sys.exit(), with exit code 0" if isinstance(error, SystemExit) else "exit_actor()"


class WorkerExit:
    """Ends a worker. Callers do not hold the engine lock."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self.exit_code = 0
        self._shutdown_wanted = True
        #: An actor whose constructor has not succeeded.
        self._unfinished: Any = None

    def actor(self, error: BaseException | None = None) -> None:
        """End the actor permanently, at its own request. A SystemExit with a code other than 0 counts as a crash."""
        if isinstance(error, SystemExit) and error.code != 0:
            self.crash(error)
            return
        executor = self._executor
        with executor.lock:
            executor.exit_actor(how_it_left(error))
            executor.channel.flush()

    def crash(self, error: BaseException) -> None:
        """End the process with an error code. Its calls may be retried, and its actor restarted."""
        code = error.code if isinstance(error, SystemExit) else TERMINATED
        if isinstance(code, str):
            print(code, file=sys.stderr)
        with self._executor.lock:
            self.exit_code = (code & 0xFF or 1) if isinstance(code, int) else 1
            self._executor.leave()

    # -- SIGTERM

    def on_terminate(self, number: int, frame: Any) -> None:
        """Handle SIGTERM in the main thread: interrupt its task, but let concurrent calls finish."""
        executor = self._executor
        if executor.process.closed:  # a child forked by user code
            raise SystemExit(128 + number)
        executor.terminating = True
        self._shutdown_wanted = False
        if executor.running is not None:
            if executor.interrupts.now(frame):
                raise SystemExit(TERMINATED)
        elif executor.mode is not None:
            executor.mode.terminate()
        else:
            self.exit_code = TERMINATED
            executor.leaving = True
        executor.pump.kick()

    @property
    def by_signal(self) -> bool:
        """Return True if SIGTERM ends the process, rather than an earlier exit of its own."""
        return self._executor.terminating and self.exit_code == TERMINATED

    def is_termination(self, error: BaseException) -> bool:
        """Return True, and end the worker, if SIGTERM caused the error of a call."""
        if not self._executor.terminating or not isinstance(error, (KeyboardInterrupt, SystemExit)):
            return False
        self.crash(SystemExit(TERMINATED))
        return True

    def may_leave(self) -> bool:
        """Return True, and let the worker leave, once all concurrent calls have ended after SIGTERM."""
        executor = self._executor
        if executor.side or executor.queue or executor.waits:
            return False
        self.exit_code = TERMINATED
        executor.leaving = True
        return True

    # -- the last words

    def made(self, cls: Any, given: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """Create an actor. If it has a cleanup method, remember it so that cleanup also runs after a failed constructor."""
        if not hasattr(cls, SHUTDOWN_METHOD) or cls.__new__ is not object.__new__ or type(cls) is not type:
            return cls(*given, **named)
        actor: Any = object.__new__(cls)
        self._unfinished = actor
        actor.__init__(*given, **named)
        self._unfinished = None
        return actor

    async def made_in_loop(self, cls: Any, given: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """Create an actor whose constructor is a coroutine function, and remember it meanwhile."""
        actor = self._unfinished = cls.__new__(cls, *given, **named)
        await actor.__init__(*given, **named)
        self._unfinished = None
        return actor

    def farewell(self) -> None:
        """Run the actor's cleanup method. Its exceptions are only printed."""
        actor = self._executor.actor if self._unfinished is None else self._unfinished
        method = getattr(type(actor), SHUTDOWN_METHOD, None)
        if not self._shutdown_wanted or not callable(method) or asyncio_function(method):
            return
        try:
            method(actor)
        except BaseException:  # user code may raise anything, and the exit handlers must still run
            traceback.print_exc()
