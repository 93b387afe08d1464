"""The handle calls that a request has made."""

from __future__ import annotations

from typing import Any


def cancel_children(children: set[Any] | None) -> None:
    """Give up the handle calls that a failed or cancelled request has made."""
    for each in children or ():
        each.cancel()
    if children:
        children.clear()
