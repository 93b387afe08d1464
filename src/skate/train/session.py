"""The session of a worker, or None, under the name used by programs for older versions of Ray."""

from __future__ import annotations

from typing import Any

from skate.train.worker import session


def get_session() -> Any:
    """Return the session of this process if it is a worker of a run, else None."""
    return session.current("get_session()") if session.active() else None
