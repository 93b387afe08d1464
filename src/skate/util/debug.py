"""Messages that are logged once per process; errors in the form that tasks raise; modules preloaded in workers."""

from __future__ import annotations

import time

from skate.client import failures
from skate.client.runtime_context import node_ip_address
from skate.client.session.session import preload as preload

_REPEAT_AFTER_S = 60.0


class _Once:
    def __init__(self) -> None:
        self.seen: set[str] = set()
        self.disabled = False
        self.periodic = False
        self.last_logged_s = 0.0


_once = _Once()


def as_of_a_task(name: str, error: BaseException) -> BaseException:
    """Return the error that `get` would raise if a task of that name, on this node, had raised this one."""
    return failures.as_of_a_task(name, error, node_ip_address())


def log_once(key: str) -> bool:
    """True for the first call with `key` in this process, when the caller should log.

    After `enable_periodic_logging()`, every key counts as new again once a minute; after
    `disable_log_once_globally()` none does.

    Args:
        key: identifies the place in the code that logs.
    """
    if _once.disabled:
        return False
    now_s = time.monotonic()
    if _once.periodic and key in _once.seen and now_s - _once.last_logged_s > _REPEAT_AFTER_S:
        _once.seen.clear()
    if key in _once.seen:
        return False
    _once.seen.add(key)
    _once.last_logged_s = now_s
    return True


def disable_log_once_globally() -> None:
    """Make every later `log_once` in this process return False."""
    _once.disabled = True


def enable_periodic_logging() -> None:
    """Let `log_once` in this process return True again for a key after a minute."""
    _once.periodic = True


def reset_log_once(key: str | None = None) -> None:
    """Make `log_once` forget a key, or all keys if none is given."""
    if key is None:
        _once.seen.clear()
    else:
        _once.seen.discard(key)
