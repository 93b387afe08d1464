"""Actors with async methods and concurrency groups: one thread with its own asyncio loop per group.

A call that blocks the loop of one group does not affect the others. The main thread reads the channel and distributes the calls.
"""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

from skate.protocol import messages as m
from skate.worker.asyncio_actor import AsyncioMode
from skate.worker.worker_core import DEFAULT_GROUP, Running

if TYPE_CHECKING:
    from skate.worker.call_runner import CallRunner


class _Loop:
    """The loop of one group, and the mode that runs its calls."""

    def __init__(self, executor: CallRunner, name: str) -> None:
        self.mode: AsyncioMode
        self.loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        title = f"skate-loop-{name or 'default'}"
        threading.Thread(target=self._run, args=(executor,), name=title, daemon=True).start()
        self._ready.wait()

    def _run(self, executor: CallRunner) -> None:
        asyncio.set_event_loop(self.loop)
        self.mode = AsyncioMode(executor, self.loop)
        self.mode.direct = True
        self._ready.set()
        self.loop.run_forever()


class GroupedLoops:
    """Passes calls to the loops of their groups. A loop starts with the first call of its group."""

    def __init__(self, executor: CallRunner) -> None:
        self.executor = executor
        self._loops: dict[str, _Loop] = {}
        executor.context.on_exit = self.leave

    def construct(self, running: Running, args: bytes, deps: tuple[Any, ...]) -> bool:
        """Create the actor on the loop of the default group; return False if its constructor failed."""
        executor = self.executor
        made: list[bool] = []

        async def make() -> None:
            executor.context.enter(running)
            made.append(await executor.make_actor_in_loop(running, args, deps))

        future = asyncio.run_coroutine_threadsafe(make(), self._loop(DEFAULT_GROUP).loop)
        future.add_done_callback(lambda _: executor.pump.kick())
        with executor.lock:
            executor.pump.wait(future.done)
        return bool(made and made[0])

    def _loop(self, name: str) -> _Loop:
        found = self._loops.get(name)
        if found is None:
            found = self._loops[name] = _Loop(self.executor, name)
        return found

    def run(self, running: Running, message: m.Execute | m.Invoke) -> None:
        """Run a call on the loop of its group."""
        lane = self._loop(running.template.group)
        lane.loop.call_soon_threadsafe(lane.mode.run, running, message)

    def arrived(self) -> None:
        """Do nothing: the main thread takes the call from the executor's queue."""

    def flush_later(self) -> bool:
        """Return False: answers of loops are sent immediately."""
        return False

    def terminate(self) -> None:
        """Do nothing: the main thread handles SIGTERM when the calls have ended."""

    def leave(self, error: BaseException | None = None) -> None:
        """End the actor. Callable in any thread."""
        if not self.executor.final:
            self.executor.end_actor(error)
        self.executor.pump.kick()
