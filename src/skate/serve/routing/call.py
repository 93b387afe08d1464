"""A request to a replica."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

#: Request id, method, route, application, model, session; with tracing also the trace headers.
Meta = tuple[Any, ...]


class Call:
    """A request and its state.

    The call is settled with `ref`, the response of the replica, or with `error`. It is settled again if that
    replica ends before it has started the request.
    """

    __slots__ = (
        "meta",
        "args",
        "kwargs",
        "stream",
        "ref",
        "error",
        "settled",
        "cancelled",
        "_then",
        "_lock",
        "site",
        "task",
        "values",
        "span",
        "over",
        "pending",
        "attempt",
        "pinned",
    )

    def __init__(self, meta: Meta, args: tuple[Any, ...], kwargs: dict[str, Any], stream: bool) -> None:
        self.meta = meta
        self.args = args
        self.kwargs = kwargs
        self.stream = stream
        self.ref: Any = None
        self.error: BaseException | None = None
        self.settled = False
        self.cancelled = False
        #: The number of times that it has been sent again.
        self.attempt = 0
        #: True if only the first replica may answer it, because each of the others has a call of its own.
        self.pinned = False
        #: For a call within the process: its task, and the values of its stream.
        self.task: Any = None
        self.values: Any = None
        #: True after the response or the failure.
        self.over = False
        #: The span of the request, if tracing is enabled.
        self.span: Any = None
        #: The line of the user's code that made the call, for error messages.
        self.site: Any = None
        #: The request in the form of custom routers; only `CustomChoice` sets it.
        self.pending: Any
        self._then: list[Callable[[], None]] | None = None
        self._lock = threading.Lock()

    def settle(self, ref: Any, error: BaseException | None, attempt: int | None = None) -> None:
        """Record that the request was sent to a replica, or has failed; no-op after a later attempt."""
        with self._lock:
            if attempt is not None and attempt != self.attempt:
                return
            self.ref = ref
            self.error = error
            self.settled = True
            then, self._then = self._then, None
        if ref is None:
            self.forget()
        if error is not None:
            self.end_span(error)
        for each in then or ():
            each()

    def end_span(self, error: BaseException | None = None) -> None:
        """End the request's span, after its response or failure."""
        span, self.span = self.span, None
        if span is not None:
            span.end(error)

    def forget(self) -> None:
        """Drop the arguments, because the request will not be sent again."""
        self.args = ()
        self.kwargs = {}

    def renew(self, attempt: int) -> bool:
        """Reset the call to unsent if this is its last attempt, which may not be settled yet; return True if it was reset."""
        with self._lock:
            if self.cancelled or self.pinned or attempt != self.attempt:
                return False
            self.attempt += 1
            self.ref = None
            self.settled = False
            self.over = False
            return True

    def when_settled(self, then: Callable[[], None]) -> None:
        """Call `then` when the call is settled, immediately if it already is."""
        with self._lock:
            if not self.settled:
                self._then = [*(self._then or ()), then]
                return
        then()

    def wait(self, timeout_s: float | None) -> bool:
        """Block until the call is settled; return False on a timeout."""
        if self.settled:
            return True
        event = threading.Event()
        self.when_settled(event.set)
        return event.wait(timeout_s)
