"""How a worker leaves: by the will of its actor, by a crash of the user's making, by SIGTERM."""

from __future__ import annotations

import sys
import traceback
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from skate.worker.executor import Executor

SHUTDOWN_METHOD = "__ray_shutdown__"
#: With this code a worker ends that was sent SIGTERM.
TERMINATED = 1


class WorkerExit:
    """A worker's way out; the engine lock is not held by who calls."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self.terminating = False
        self.exit_code = 0
        self._shutdown_wanted = True
        #: An actor whose constructor has not ended well.
        self._unfinished: Any = None

    def actor(self, error: BaseException | None = None) -> None:
        """End the actor on its own request, for good, unless the error is a SystemExit with a code other than 0."""
        if isinstance(error, SystemExit) and error.code != 0:
            self.crash(error)
            return
        executor = self._executor
        with executor.lock:
            executor.exit_actor()
            executor.channel.flush()

    def crash(self, error: BaseException) -> None:
        """End the process with an error code; calls may be retried, an actor restarted."""
        code = error.code if isinstance(error, SystemExit) else TERMINATED
        if isinstance(code, str):
            print(code, file=sys.stderr)
        with self._executor.lock:
            self.exit_code = (code & 0xFF or 1) if isinstance(code, int) else 1
            self._executor.leave()

    # -- SIGTERM

    def on_terminate(self, number: int, frame: Any) -> None:
        """SIGTERM in the main thread: what runs there is interrupted, what runs beside it comes to its end first."""
        executor = self._executor
        if executor.process.closed:  # a child that user code has forked
            raise SystemExit(128 + number)
        self.terminating = True
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
        """True if SIGTERM is what ends the process, rather than an exit of its own that came before."""
        return self.terminating and self.exit_code == TERMINATED

    def meant(self, error: BaseException) -> bool:
        """True if a call was thrown out by SIGTERM; the worker then leaves."""
        if not self.terminating or not isinstance(error, (KeyboardInterrupt, SystemExit)):
            return False
        self.crash(SystemExit(TERMINATED))
        return True

    def idle(self) -> bool:
        """True if SIGTERM has come and the calls that ran beside the main thread have ended; the worker leaves then."""
        executor = self._executor
        if not self.terminating or executor.side or executor.queue or executor.waits:
            return False
        self.exit_code = TERMINATED
        executor.leaving = True
        return True

    # -- the last words

    def made(self, cls: Any, given: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """A new actor; one that can clean up does so after a constructor that fails, too."""
        if not hasattr(cls, SHUTDOWN_METHOD) or cls.__new__ is not object.__new__ or type(cls) is not type:
            return cls(*given, **named)
        actor: Any = object.__new__(cls)
        self._unfinished = actor
        actor.__init__(*given, **named)
        self._unfinished = None
        return actor

    def farewell(self) -> None:
        """Run the actor's cleanup; its exceptions are printed and otherwise ignored."""
        actor = self._executor.actor if self._unfinished is None else self._unfinished
        method = getattr(type(actor), SHUTDOWN_METHOD, None)
        if not self._shutdown_wanted or not callable(method) or asyncio_function(method):
            return
        try:
            method(actor)
        except BaseException:  # the user's code may raise anything, and the exit handlers are still to run
            traceback.print_exc()


def asyncio_function(function: Any) -> bool:
    """Return True for `async def`."""
    return bool(getattr(getattr(function, "__code__", None), "co_flags", 0) & 0x80)
