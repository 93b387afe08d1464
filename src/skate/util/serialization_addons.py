"""Serializers for classes of other packages; starlette's, for which Ray registers one, need none here."""

from __future__ import annotations

from typing import Any


def register_starlette_serializer(serialization_context: Any) -> None:
    """No-op: requests of starlette are sent without a custom serializer."""


def apply(serialization_context: Any) -> None:
    """Register all serializers."""
    register_starlette_serializer(serialization_context)
