"""Modules of Ray's algorithms that are not available: importing a name from one says so."""

from __future__ import annotations

from typing import Any

from skate.rllib.algorithms import registry


def __getattr__(name: str) -> Any:
    message = registry.refused(name)
    if message:
        raise ImportError(message)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
