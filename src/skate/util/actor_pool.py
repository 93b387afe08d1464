"""Spread calls over a fixed set of actors, each busy with one call at a time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import skate
from skate.exceptions import ActorDiedError

_Submission = Callable[[Any, Any], Any]


class ActorPool:
    """A set of actors that process submitted values.

    A value goes to an idle actor immediately, or waits until an actor's result has been taken with `get_next` or
    `get_next_unordered`. An actor that died is dropped from the pool when its error is raised.

    `fn` in `submit`, `map` and `map_unordered` takes an actor and a value and returns the ref of the call
    (or the list of refs of a call with several returns).

    Args:
        actors: handles of the initial actors.
    """

    def __init__(self, actors: Iterable[Any]) -> None:
        self._idle_actors: list[Any] = list(actors)
        self._pending_submits: deque[tuple[_Submission, Any]] = deque()
        # Submission number -> (ref or list of refs, actor), oldest first.
        self._in_flight: dict[int, tuple[Any, Any]] = {}
        self._next_task_index = 0
        self._next_return_index = 0

    def __repr__(self) -> str:
        return (
            f"ActorPool(idle={len(self._idle_actors)}, busy={len(self._in_flight)}, "
            f"waiting_values={len(self._pending_submits)})"
        )

    def map(self, fn: _Submission, values: Iterable[Any]) -> Iterator[Any]:
        """Apply `fn` to every value, and iterate over the results in the order of the values.

        The values are submitted immediately; unread results of earlier calls are discarded.

        Raises:
            RuntimeError: while iterating, if values are left and the pool has no actor for them.
        """
        self._submit_afresh(fn, values)
        return self._results(self.get_next)

    def map_unordered(self, fn: _Submission, values: Iterable[Any]) -> Iterator[Any]:
        """Apply `fn` to every value, and iterate over the results as they become ready.

        The values are submitted immediately; unread results of earlier calls are discarded.

        Raises:
            RuntimeError: while iterating, if values are left and the pool has no actor for them.
        """
        self._submit_afresh(fn, values)
        return self._results(self.get_next_unordered)

    def submit(self, fn: _Submission, value: Any) -> None:
        """Call `fn(actor, value)` as soon as an actor is idle; the result comes from `get_next`."""
        if not self._idle_actors:
            self._pending_submits.append((fn, value))
            return
        actor = self._idle_actors.pop()
        try:
            future = fn(actor, value)
        except BaseException:
            self._idle_actors.append(actor)
            raise
        self._in_flight[self._next_task_index] = (future, actor)
        self._next_task_index += 1

    def has_next(self) -> bool:
        """True if some submitted call has not been returned yet."""
        return bool(self._in_flight)

    def has_free(self) -> bool:
        """True if an actor is idle and no value waits for one."""
        return bool(self._idle_actors) and not self._pending_submits

    def get_next(self, timeout: float | None = None, ignore_if_timedout: bool = False) -> Any:
        """Return the next result in the order of submission.

        Args:
            timeout: seconds to wait at most; None waits forever.
            ignore_if_timedout: discard the call after a timeout, so that the following one is next.

        Raises:
            StopIteration: there are no more results. TimeoutError: the result was not ready in time.
            ValueError: `get_next_unordered` has already returned a later result.
        """
        self._require_next()
        if self._next_return_index not in self._in_flight:
            raise ValueError(
                "get_next() cannot determine the next result, because get_next_unordered() already "
                "returned a later one; get the rest with get_next_unordered()"
            )
        index = self._next_return_index
        future, _ = self._in_flight[index]
        timed_out = timeout is not None and not _wait_for(future, timeout)
        if timed_out and not ignore_if_timedout:
            raise TimeoutError(f"{future} was not ready within {timeout} s")
        self._next_return_index += 1
        return self._take(index, timed_out)

    def get_next_unordered(self, timeout: float | None = None, ignore_if_timedout: bool = False) -> Any:
        """Return any result that is ready; the oldest if there are several.

        Args:
            timeout: seconds to wait at most; None waits forever.
            ignore_if_timedout: discard the oldest call after a timeout.

        Raises:
            StopIteration: there are no more results. TimeoutError: no result was ready in time.
        """
        self._require_next()
        index = self._wait_for_any(timeout)
        timed_out = index is None
        if index is None:
            if not ignore_if_timedout:
                raise TimeoutError(f"none of {len(self._in_flight)} calls was ready within {timeout} s")
            index = next(iter(self._in_flight))
        self._next_return_index = max(self._next_return_index, index + 1)
        return self._take(index, timed_out)

    def pop_idle(self) -> Any | None:
        """Remove an idle actor from the pool and return it, or None if none is idle."""
        return self._idle_actors.pop() if self.has_free() else None

    def push(self, actor: Any) -> None:
        """Add an actor, which immediately processes a waiting value.

        Raises:
            ValueError: the actor is already in the pool.
        """
        if actor in self._idle_actors or any(actor == busy for _, busy in self._in_flight.values()):
            raise ValueError(
                f"Actor already belongs to current ActorPool: {actor}; an actor can be pushed only once"
            )
        self._return_actor(actor)

    def _submit_afresh(self, fn: _Submission, values: Iterable[Any]) -> None:
        # Discarding a call frees its actor for a waiting value, whose call is then also discarded.
        while self._in_flight:
            _, actor = self._in_flight.pop(next(iter(self._in_flight)))
            self._return_actor(actor)
        self._next_return_index = self._next_task_index
        for value in values:
            self.submit(fn, value)

    def _results(self, take: Callable[[], Any]) -> Iterator[Any]:
        while self.has_next():
            yield take()
        if self._pending_submits:
            raise RuntimeError(self._stranded())

    def _require_next(self) -> None:
        if self.has_next():
            return
        if self._pending_submits:
            raise RuntimeError(self._stranded())
        raise StopIteration("No more results to get: every submitted call has been returned")

    def _stranded(self) -> str:
        return (
            f"{len(self._pending_submits)} values wait for an actor, but this ActorPool has none left; "
            f"push() a new one"
        )

    def _wait_for_any(self, timeout: float | None) -> int | None:
        owners: dict[Any, int] = {}
        missing: dict[int, int] = {}
        for index, (future, _) in self._in_flight.items():
            refs = future if isinstance(future, (list, tuple)) else [future]
            owners.update((ref, index) for ref in refs)
            missing[index] = len(refs)
        # A call with several returns is ready when all of them are, so there may be several refs.
        wanted = 1
        while True:
            ready, _ = skate.wait(list(owners), num_returns=min(wanted, len(owners)), timeout=timeout)
            counts: dict[int, int] = {}
            for ref in ready:
                index = owners[ref]
                counts[index] = counts.get(index, 0) + 1
                if counts[index] == missing[index]:
                    return index
            if len(ready) < wanted:
                return None
            wanted = len(ready) + 1

    def _take(self, index: int, timed_out: bool) -> Any:
        future, actor = self._in_flight.pop(index)
        alive = True
        try:
            if timed_out:
                raise TimeoutError(f"{future} was not ready in time and was discarded")
            return skate.get(future)
        except ActorDiedError:
            alive = False
            raise
        finally:
            if alive:
                self._return_actor(actor)

    def _return_actor(self, actor: Any) -> None:
        self._idle_actors.append(actor)
        if self._pending_submits:
            self.submit(*self._pending_submits.popleft())


def _wait_for(future: Any, timeout: float) -> bool:
    refs = list(future) if isinstance(future, (list, tuple)) else [future]
    ready, _ = skate.wait(refs, num_returns=len(refs), timeout=timeout)
    return len(ready) == len(refs)
