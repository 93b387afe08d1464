"""Merging of a task's environment with its job's.

`env_vars` are merged key by key; any other field of the inner environment replaces the outer one's. Fields
that exclude each other count as one: a task with uv does not inherit its job's pip, and a task with an image
inherits no field that excludes an image.
"""

from __future__ import annotations

from typing import Any

_PACKAGES = frozenset({"pip", "uv", "conda"})
_IMAGES = frozenset({"image_uri", "container"})
_BESIDE_IMAGE = frozenset({"env_vars", "config"})


def merge(outer: dict[str, Any] | None, inner: dict[str, Any] | None) -> dict[str, Any]:
    """Return the environment of a task: `outer` is its job's or parent's, `inner` its own; neither is changed."""
    outer, inner = outer or {}, inner or {}
    merged = {name: value for name, value in outer.items() if not _displaced(name, inner)}
    merged.update(inner)
    if outer.get("env_vars") or inner.get("env_vars"):
        merged["env_vars"] = {**(outer.get("env_vars") or {}), **(inner.get("env_vars") or {})}
    return merged


def _displaced(name: str, inner: dict[str, Any]) -> bool:
    if name in _PACKAGES and not _PACKAGES.isdisjoint(inner):
        return True
    return not _IMAGES.isdisjoint(inner) and name not in _BESIDE_IMAGE
