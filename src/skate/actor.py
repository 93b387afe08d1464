"""Actors by the names that programs know from `ray.actor`: classes, handles, methods, and leaving."""

from __future__ import annotations

from skate.client.actor_handle import ActorHandle, ActorMethod
from skate.client.actors import ActorClass, ActorClassInheritanceException, exit_actor, method

__all__ = [
    "ActorClass",
    "ActorClassInheritanceException",
    "ActorHandle",
    "ActorMethod",
    "exit_actor",
    "method",
]
