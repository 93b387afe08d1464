"""The session of a worker, or None, as programs for older versions of Ray ask for it."""

from __future__ import annotations

from typing import Any

from skate.train.worker import session


def get_session() -> Any:
    """The session of this process, if it is a worker of a run; else None."""
    return session.current("get_session()") if session.active() else None
