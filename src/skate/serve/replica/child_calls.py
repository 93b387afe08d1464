"""The handle calls made by a request."""

from __future__ import annotations

from typing import Any


def release(children: set[Any] | None, failed: bool) -> None:
    """Forget the handle calls of a request that has ended; cancel them if it failed."""
    if children:
        if failed:
            for each in list(children):
                each.cancel()
        children.clear()
