"""Results of a pool for work that may still be running."""

from __future__ import annotations

import itertools
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from multiprocessing import TimeoutError
from typing import Any

from skate.util.multiprocessing.actor import Failure

Submit = Callable[[list[Any], Callable[[list[Any]], None]], None]


class AsyncResult:
    """The result of `apply_async`, `map_async` or `starmap_async`, which may not be available yet."""

    def __init__(
        self,
        pool: Any,
        chunks: int,
        single: bool,
        callback: Callable[[Any], Any] | None,
        error_callback: Callable[[BaseException], Any] | None,
    ) -> None:
        # An unreferenced pool ends; results hold it until they are available.
        self._pool = pool
        self._single = single
        self._callback = callback
        self._error_callback = error_callback
        self._outcomes: list[list[Any]] = [[] for _ in range(chunks)]
        self._missing = chunks
        self._value: Any = None
        self._error: BaseException | None = None
        self._ready = threading.Event()

    def ready(self) -> bool:
        """True if every call has finished."""
        return self._ready.is_set()

    def successful(self) -> bool:
        """True if every call finished without raising.

        Raises:
            ValueError: some call has not finished.
        """
        if not self.ready():
            raise ValueError(f"{self!r} is not ready; call wait() or ready() first")
        return self._error is None

    def wait(self, timeout: float | None = None) -> None:
        """Wait until every call has finished, or for `timeout` seconds."""
        self._ready.wait(timeout)

    def get(self, timeout: float | None = None) -> Any:
        """Return the result, or raise a call's exception: the first in order, if several raised.

        Args:
            timeout: seconds to wait at most; None waits forever.

        Raises:
            multiprocessing.TimeoutError: the result was not ready in time.
        """
        self.wait(timeout)
        if not self.ready():
            raise TimeoutError(f"the result was not ready within {timeout} s")
        if self._error is not None:
            raise self._error
        return self._value

    def take_chunk(self, index: int, outcomes: list[Any]) -> None:
        """Store the outcomes of one chunk; the last one makes the result ready. Called by the pool's thread."""
        self._outcomes[index] = outcomes
        self._missing -= 1
        if self._missing <= 0:
            self.finish()

    def finish(self) -> None:
        """Make the result ready and run the matching callback. Called by the pool's thread."""
        self._pool = None
        flat = list(itertools.chain.from_iterable(self._outcomes))
        self._outcomes.clear()
        failure = next((each for each in flat if isinstance(each, Failure)), None)
        try:
            if failure is not None:
                self._error = failure.exception()
                if self._error_callback is not None:
                    self._error_callback(self._error)
            else:
                self._value = flat[0] if self._single else flat
                if self._callback is not None:
                    self._callback(self._value)
        finally:
            self._ready.set()


class IMapIterator(Iterator[Any]):
    """Results of `imap` and `imap_unordered`, taken from the iterable only as fast as they are consumed.

    A failed call raises at its position; iteration can continue after it.

    Args:
        submit: sends the items of one chunk to the pool.
        iterable: arguments; may be endless.
        chunksize: items per chunk.
        ahead: the most chunks unfinished or unread at a time.
        ordered: True for results in item order, False for completion order.
    """

    def __init__(
        self, submit: Submit, iterable: Iterable[Any], chunksize: int, ahead: int, ordered: bool
    ) -> None:
        self._submit = submit
        self._items = iter(iterable)
        self._chunksize = chunksize
        self._ordered = ordered
        # The pool may submit the rest from another thread, when it closes.
        self._lock = threading.Lock()
        self._exhausted = False
        self._submitted = 0
        self._taken = 0
        self._finished: queue.SimpleQueue[tuple[int, list[Any]]] = queue.SimpleQueue()
        self._early: dict[int, list[Any]] = {}
        self._outcomes: deque[Any] = deque()
        for _ in range(ahead):
            self._submit_next()

    def __iter__(self) -> IMapIterator:
        return self

    def __next__(self) -> Any:
        return self.next()

    def next(self, timeout: float | None = None) -> Any:
        """Return the next result.

        Args:
            timeout: seconds to wait at most; None waits forever.

        Raises:
            multiprocessing.TimeoutError: no result was ready in time; a later call can still return it.
            StopIteration: there are no more results.
        """
        if not self._outcomes:
            if self._taken == self._submitted and self._exhausted:
                raise StopIteration
            self._outcomes.extend(self._next_chunk(timeout))
            self._taken += 1
            self._submit_next()
        outcome = self._outcomes.popleft()
        if isinstance(outcome, Failure):
            raise outcome.exception()
        return outcome

    def _next_chunk(self, timeout: float | None) -> list[Any]:
        deadline = None if timeout is None else time.monotonic() + timeout
        while not (self._ordered and self._taken in self._early):
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            try:
                index, outcomes = self._finished.get(timeout=left)
            except queue.Empty:
                raise TimeoutError(f"the next result was not ready within {timeout} s") from None
            if not self._ordered:
                return outcomes
            self._early[index] = outcomes
        return self._early.pop(self._taken)

    def submit_rest(self) -> None:
        """Submit all remaining items, because the pool is closing."""
        while not self._exhausted:
            self._submit_next()

    def _submit_next(self) -> None:
        with self._lock:
            if self._exhausted:
                return
            items: list[Any] = []
            broken: list[Any] = []
            try:
                items.extend(itertools.islice(self._items, self._chunksize))
            except Exception as error:  # the user's iterable: its error is raised at its position
                broken.append(Failure(error))
            self._exhausted = len(items) < self._chunksize
            finished = self._finished
            if items:
                index = self._submitted
                self._submitted += 1
                self._submit(items, lambda outcomes: finished.put((index, outcomes)))
            if broken:
                finished.put((self._submitted, broken))
                self._submitted += 1
