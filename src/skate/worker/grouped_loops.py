"""Actors with async methods and concurrency groups: a thread with an asyncio loop of its own for each group.

A call that blocks the loop of one group leaves the others alone. The main thread reads the channel and hands out the calls.
"""

from __future__ import annotations

import asyncio
import threading
import time
from typing import TYPE_CHECKING, Any

from skate.protocol import messages as m
from skate.wire.status import OutOfTurn
from skate.worker.asyncio_actor import AsyncioMode
from skate.worker.context import Running
from skate.worker.threaded_actor import DEFAULT_GROUP, unknown_group

if TYPE_CHECKING:
    from skate.worker.executor import Executor


class _Loop:
    """One group: its loop, and the mode that runs its calls there."""

    def __init__(self, executor: Executor, name: str, limit: int, begun: OutOfTurn) -> None:
        self.mode: AsyncioMode
        self.loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        title = f"skate-loop-{name or 'default'}"
        arguments = (executor, name, limit, begun)
        threading.Thread(target=self._run, args=arguments, name=title, daemon=True).start()
        self._ready.wait()

    def _run(self, executor: Executor, name: str, limit: int, begun: OutOfTurn) -> None:
        asyncio.set_event_loop(self.loop)
        self.mode = AsyncioMode(executor, self.loop, {name: limit}, begun)
        self.mode.direct = True
        self._ready.set()
        self.loop.run_forever()


class GroupedLoops:
    """Hands calls to the loops of their groups; a loop is started with the first call of its group."""

    def __init__(self, executor: Executor, limit: int, groups: dict[str, int]) -> None:
        self.executor = executor
        self.begun = OutOfTurn(executor.slot)
        self._limits = {DEFAULT_GROUP: limit, **groups}
        self._loops: dict[str, _Loop] = {}
        executor.context.on_exit = self.leave

    def construct(self, running: Running, args: bytes, deps: tuple[Any, ...]) -> bool:
        """Make the actor on the loop of the calls without a group; False if its constructor failed."""
        executor = self.executor
        made: list[bool] = []

        async def make() -> None:
            executor.context.enter(running)
            made.append(executor.make_actor(running, args, deps))

        future = asyncio.run_coroutine_threadsafe(make(), self._loop(DEFAULT_GROUP).loop)
        future.add_done_callback(lambda _: executor.pump.kick())
        with executor.lock:
            executor.pump.wait(future.done)
        return bool(made and made[0])

    def _loop(self, name: str) -> _Loop:
        found = self._loops.get(name)
        if found is None:
            found = self._loops[name] = _Loop(self.executor, name, self._limits[name], self.begun)
        return found

    def start(self, sequence: int, message: m.Invoke) -> None:
        """Take a call from the main thread."""
        executor = self.executor
        _, task_id, key, _, _, attempt = message
        template = executor.templates[key]
        if template.group not in self._limits:
            running = Running(task_id, template, attempt)
            with executor.lock:
                self.begun.begin(sequence)
            executor.failed(running, unknown_group(template.group, self._limits), time.perf_counter())
            return
        lane = self._loop(template.group)
        lane.mode.announce(sequence, message)

    def drop(self, task_id: bytes) -> bool:
        """Cancel a call that no loop has begun; the engine lock is held."""
        return any(lane.mode.drop(task_id) for lane in self._loops.values())

    def arrived(self) -> None:
        """A call is in the executor's queue: the main thread takes it from there."""

    def flush_later(self) -> bool:
        """Answers of loops go out at once."""
        return False

    def waits(self) -> bool:
        """True while a call waits for its loop or its group."""
        return any(lane.mode.waits() for lane in self._loops.values())

    def terminate(self) -> None:
        """SIGTERM has come: the main thread sees to it when the calls have ended."""

    def leave(self, error: BaseException | None = None) -> None:
        """The actor leaves; callable in any thread."""
        if not self.executor.departure.final:
            self.executor.departure.actor(error)
        self.executor.pump.kick()
