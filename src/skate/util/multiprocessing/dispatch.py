"""Assignment of chunks of calls to the actors of a pool.

Chunks wait in one queue and go to the least loaded actor, as in `multiprocessing`. One thread per pool receives
the results, so that a callback that is slow, or that calls into the pool, blocks no network traffic.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Any, NamedTuple

import skate
from skate.exceptions import ActorDiedError
from skate.util.multiprocessing.actor import Call, Failure, Report

logger = logging.getLogger(__name__)

# An actor gets chunks in advance only after others of the same function, and only as many as it should finish
# in this time: after a long one they would wait while other actors are idle.
_AHEAD_S = 0.005
_AHEAD_MAX = 32
# Functions whose duration is remembered.
_DURATIONS_KEPT = 64

Done = Callable[[list[Any]], None]
_Action = Callable[[], Any]


class SharedFunction(NamedTuple):
    """A function stored once for many chunks: its key in the actors' cache, and its ref."""

    key: int
    ref: Any


class Chunk:
    """Calls of one function that one actor runs together, and the consumer of their outcomes."""

    __slots__ = ("calls", "done", "function", "same")

    def __init__(self, function: Callable[..., Any] | SharedFunction, calls: list[Call], done: Done) -> None:
        self.function = function
        self.calls = calls
        self.done = done
        # Equal for chunks of the same function; a false match needs a new function at the address of an earlier one.
        self.same = function.key if isinstance(function, SharedFunction) else id(function)

    def fail(self, error: BaseException) -> None:
        """Give every call this error as its outcome."""
        self.done([Failure(error)] * len(self.calls))


class _Slot:
    """A slot of the pool: its current actor, and the assigned chunks."""

    def __init__(self, actor: Any) -> None:
        self.actor = actor
        self.running = 0
        self.started = 0
        # The function whose chunks it runs now; see Chunk.same.
        self.same = -1


class Dispatcher:
    """Passes chunks to actors and outcomes to their waiters.

    Args:
        start_actor: starts one actor of the pool and returns its handle.
        size: number of actors.
        chunks_per_actor: chunks after which an actor is replaced; None means never.
    """

    def __init__(self, start_actor: Callable[[], Any], size: int, chunks_per_actor: int | None) -> None:
        self._start_actor = start_actor
        self._chunks_per_actor = chunks_per_actor
        self._lock = threading.Lock()
        self._waiting: deque[Chunk] = deque()
        self._running: set[Chunk] = set()
        self._durations_s: OrderedDict[int, float] = OrderedDict()
        self._closing = False
        self._ended = False
        self._exits: list[Any] = []
        # The next actions of the pool's thread, in order; None ends it.
        self._actions: queue.SimpleQueue[_Action | None] = queue.SimpleQueue()
        self._slots = [_Slot(start_actor()) for _ in range(size)]
        self._thread = threading.Thread(
            target=_act, args=(self._actions,), daemon=True, name="skate-pool-results"
        )
        self._thread.start()

    def wait_started(self) -> None:
        """Return when every actor has run its initializer; raise the error of one that failed."""
        skate.get([slot.actor.ping.remote() for slot in self._slots])

    def submit(self, chunk: Chunk) -> None:
        """Run a chunk as soon as an actor has room for it; `chunk.done` gets its outcomes, once."""
        with self._lock:
            if self._ended:
                self._fail(chunk, _terminated())
                return
            self._waiting.append(chunk)
            self._assign()

    def later(self, action: _Action) -> None:
        """Run an action on the pool's thread."""
        self._actions.put(action)

    def end_when_idle(self) -> None:
        """End the actors and the thread once every chunk has been assigned."""
        with self._lock:
            self._closing = True
            self._end_if_idle()

    def end(self) -> None:
        """Kill the actors and let the thread end; unfinished chunks fail with an ActorDiedError."""
        with self._lock:
            if self._ended:
                return
            self._ended = True
            for chunk in [*self._running, *self._waiting]:
                self._fail(chunk, _terminated())
            self._running.clear()
            self._waiting.clear()
            actors = [slot.actor for slot in self._slots]
        self._actions.put(None)
        if skate.is_initialized():
            for actor in actors:
                skate.kill(actor)

    def end_soon(self) -> None:
        """End on the pool's own thread. Takes no lock, so that a finalizer may call it."""
        self._actions.put(self.end)

    def join(self) -> None:
        """Wait for the thread and for ending actors; returns immediately on the thread itself."""
        if threading.current_thread() is self._thread:
            return
        self._thread.join()
        exits, self._exits = self._exits, []
        if exits and skate.is_initialized():
            skate.wait(exits, num_returns=len(exits))

    def _assign(self) -> None:
        while self._waiting:
            chunk = self._waiting[0]
            slot = min(self._slots, key=lambda each: each.running)
            if slot.running:
                fitting = [each for each in self._slots if each.same == chunk.same]
                slot = min(fitting, key=lambda each: each.running, default=slot)
                if slot.same != chunk.same or slot.running >= self._depth(chunk):
                    return
            self._waiting.popleft()
            self._send(slot, chunk)

    def _depth(self, chunk: Chunk) -> int:
        duration_s = self._durations_s.get(chunk.same)
        if duration_s is None or self._chunks_per_actor is not None:
            return 1
        return max(1, min(_AHEAD_MAX, int(_AHEAD_S / max(duration_s, 1e-6))))

    def _note_duration(self, chunk: Chunk, duration_s: float) -> None:
        before_s = self._durations_s.get(chunk.same, duration_s)
        self._durations_s[chunk.same] = 0.8 * before_s + 0.2 * duration_s
        self._durations_s.move_to_end(chunk.same)
        if len(self._durations_s) > _DURATIONS_KEPT:
            self._durations_s.popitem(last=False)

    def _send(self, slot: _Slot, chunk: Chunk) -> None:
        if self._chunks_per_actor is not None and slot.started >= self._chunks_per_actor:
            self._exits.append(slot.actor.exit.remote())
            self._replace(slot)
        actor, function = slot.actor, chunk.function
        try:
            if isinstance(function, SharedFunction):
                ref = actor.run_shared.remote(function.key, [function.ref], chunk.calls)
            else:
                ref = actor.run.remote(function, chunk.calls)
        except Exception as error:  # arguments that cannot be sent; their classes may raise anything
            self._fail(chunk, error)
            return
        slot.running += 1
        slot.started += 1
        slot.same = chunk.same
        self._running.add(chunk)
        actions = self._actions
        ref.future().add_done_callback(
            lambda future: actions.put(lambda: self._finish(slot, actor, chunk, future))
        )

    def _replace(self, slot: _Slot) -> None:
        slot.actor = self._start_actor()
        slot.started = 0
        slot.running = 0

    def _fail(self, chunk: Chunk, error: BaseException) -> None:
        self._actions.put(lambda: chunk.fail(error))

    def _finish(self, slot: _Slot, actor: Any, chunk: Chunk, future: Any) -> None:
        error = future.exception()
        report: Report | None = None if error is not None else future.result()
        with self._lock:
            if chunk not in self._running:
                return  # the pool was terminated, and the chunk has failed already
            self._running.remove(chunk)
            if slot.actor is actor:
                slot.running -= 1
                if isinstance(error, ActorDiedError):
                    self._replace(slot)
            if report is not None:
                self._note_duration(chunk, report.duration_s)
            self._assign()
            self._end_if_idle()
        if report is not None:
            chunk.done(report.outcomes)
        elif error is not None:
            chunk.fail(error)

    def _end_if_idle(self) -> None:
        if not self._closing or self._ended or self._waiting or self._running:
            return
        self._ended = True
        if skate.is_initialized():
            self._exits.extend(slot.actor.exit.remote() for slot in self._slots)
        self._actions.put(None)


def _terminated() -> ActorDiedError:
    return ActorDiedError("the Pool was terminated before this call had finished")


def _act(actions: queue.SimpleQueue[_Action | None]) -> None:
    while (action := actions.get()) is not None:
        try:
            action()
        except Exception:  # a user's callback: the pool must survive it, and its error has no receiver
            logger.exception("a callback of a Pool raised")
        # Dropped before the next wait, because it may keep the pool alive.
        del action
