"""Serializers for classes of other packages. Ray registers one for starlette, which Skate does not need."""

from __future__ import annotations

from typing import Any


def register_starlette_serializer(serialization_context: Any) -> None:
    """No-op: requests of starlette are sent without a custom serializer."""


def apply(serialization_context: Any) -> None:
    """Register all serializers; there are none."""
    register_starlette_serializer(serialization_context)
