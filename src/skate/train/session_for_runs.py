"""The session that a run needs, if the program has not started one."""

from __future__ import annotations

import skate


def ensure_session(preload: tuple[str, ...]) -> None:
    """Start a session if there is none; its workers begin with the framework loaded once for all of them."""
    if not skate.is_initialized():
        skate.init(preload=list(preload))
