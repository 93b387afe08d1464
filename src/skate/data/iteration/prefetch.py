"""A background thread that runs ahead of its consumer, so that blocks are computed while batches are used."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from skate.util.engine import tied_to_session

_ENDED: Any = object()


class _Raised:
    def __init__(self, error: BaseException) -> None:
        self.error = error


class Prefetcher:
    """Runs a generator in its own thread, at most `depth` values ahead of the consumer.

    `stop` is called when the consumer needs no more; it must make the generator's next step return or raise.
    """

    def __init__(self, flow: Iterator[Any], depth: int, stop: Callable[[], None]) -> None:
        self._flow = flow
        self._depth = depth
        self._stop = stop
        self._changed = threading.Condition()
        self._ready: deque[Any] = deque()
        self._over = False

    def __iter__(self) -> Iterator[Any]:
        # Started by the first step: an unused iterator is never closed either.
        work = tied_to_session(self._work)
        threading.Thread(target=work, name="skate-data-prefetch", daemon=True).start()
        try:
            while True:
                with self._changed:
                    self._changed.wait_for(lambda: self._ready)
                    value = self._ready.popleft()
                    self._changed.notify_all()
                if value is _ENDED:
                    return
                if isinstance(value, _Raised):
                    raise value.error
                yield value
                del value  # it may be large, and the consumer may have dropped it
        finally:
            self.close()

    def close(self) -> None:
        """Make the thread end at its next step."""
        with self._changed:
            if self._over:
                return
            self._over = True
            self._changed.notify_all()
        self._stop()

    def _work(self) -> None:
        last: Any = _ENDED
        try:
            for value in self._flow:
                if not self._give(value):
                    break
        except BaseException as error:  # any error is raised in the consumer
            last = _Raised(error)
        finally:
            close = getattr(self._flow, "close", None)
            if close is not None:
                close()
        with self._changed:
            self._ready.append(last)
            self._changed.notify_all()

    def _give(self, value: Any) -> bool:
        with self._changed:
            self._ready.append(value)
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._over or len(self._ready) < self._depth)
            return not self._over
