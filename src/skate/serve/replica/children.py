"""The handle calls that a request has made."""

from __future__ import annotations

from typing import Any


def release(children: set[Any] | None, failed: bool) -> None:
    """The request has ended: give up the handle calls that it has made, if it failed, and in any case forget them."""
    if children:
        if failed:
            for each in list(children):
                each.cancel()
        children.clear()
