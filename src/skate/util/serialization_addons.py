"""Serializers for classes of other packages; those that Ray registers for starlette need none here."""

from __future__ import annotations

from typing import Any


def register_starlette_serializer(serialization_context: Any) -> None:
    """Nothing: requests of starlette are sent as they are."""


def apply(serialization_context: Any) -> None:
    """Register them all."""
    register_starlette_serializer(serialization_context)
