"""Deployments that live in this very process, in a replica of the one that they are bound to."""

from __future__ import annotations

from typing import Any

from skate.serve.routing.table import Key

_inside: dict[Key, Any] = {}


def keep(key: Key, inner: Any) -> None:
    """Have the handles of this process find it."""
    _inside[key] = inner


def find(key: Key) -> Any:
    """The deployment of that key, if it lives in this process; else None."""
    return _inside.get(key)
