"""Deployments in this process, inside a replica of the deployment that they are bound to."""

from __future__ import annotations

from typing import Any

from skate.serve.routing.table import Key

_inside: dict[Key, Any] = {}


def keep(key: Key, inner: Any) -> None:
    """Register a deployment for the handles of this process."""
    _inside[key] = inner


def find(key: Key) -> Any:
    """Return the deployment with a key, or None if it is not in this process."""
    return _inside.get(key)
