"""The headers of a request that Serve itself looks at."""

from __future__ import annotations

import os
import re
from collections.abc import Callable

from skate.serve import context
from skate.serve.ingress.exchange import REQUEST_HEADER
from skate.serve.replica.order import Order

#: The environment variable that names another header for the session.
SESSION_SETTING = "RAY_SERVE_SESSION_ID_HEADER_KEY"


def _spellings(name: str) -> frozenset[bytes]:
    # Proxies such as nginx drop headers with underscores, or replace them.
    plain = name.lower()
    return frozenset(each.encode() for each in (plain, plain.replace("-", "_"), plain.replace("_", "-")))


_MODEL = _spellings("serve_multiplexed_model_id")
_MODEL_LINE = re.compile(
    rb"\r\n(?:%s):[ \t]*([^\r\n]*?)[ \t]*\r\n" % b"|".join(sorted(_MODEL)), re.IGNORECASE
)
_SESSION = _spellings(os.environ.get(SESSION_SETTING) or "x-session-id")
_TRACE = b"traceparent"
_TIME_LIMIT = b"x-request-timeout-seconds"
_UNWATCHED = b"x-request-disconnect-disabled"
NOTED = frozenset((REQUEST_HEADER, *_MODEL, *_SESSION, _TRACE, _TIME_LIMIT, _UNWATCHED, b"content-type"))

Noted = list[tuple[bytes, bytes]]
_new_tuple = tuple.__new__


def model_of(head: bytes) -> str:
    """Return the model that the head of a request names; empty if it names none."""
    found = _MODEL_LINE.search(head)
    return "" if found is None else found.group(1).decode("latin-1")


def context_of(noted: Noted, prefix: str, order: Order, ids: Callable[[], str]) -> context.RequestContext:
    """Return the context of a request with these headers."""
    request_id = model = session = ""
    trace = None
    for name, value in noted:
        if name == REQUEST_HEADER:
            request_id = value.decode("latin-1")
        elif name in _MODEL:
            model = value.decode("latin-1")
        elif name in _SESSION:
            session = value.decode("latin-1")
        elif name == _TRACE:
            trace = {"traceparent": value.decode("latin-1")}
    return _new_tuple(
        context.RequestContext,
        (request_id or ids(), prefix, order.app, model, session, set(), order.name, trace),
    )


def time_limit(noted: Noted, default: float | None) -> float | None:
    """Return the seconds that a request may take: those of its header, or the default without a valid one.

    A number that is not above 0 means no limit.
    """
    for name, value in noted:
        if name == _TIME_LIMIT:
            try:
                seconds = float(value)
            except ValueError:
                return default
            return seconds if seconds > 0 else None
    return default


def is_watched(noted: Noted) -> bool:
    """Return False if a request is to run on although its client disconnects."""
    return (_UNWATCHED, b"?1") not in noted
