"""Actors by the names that programs know from `ray.actor`: classes, handles, methods, and leaving."""

from __future__ import annotations

from skate.client.actor.actor_class import ActorClass, ActorClassInheritanceException, exit_actor, method
from skate.client.actor.actor_handle import ActorHandle, ActorMethod

__all__ = [
    "ActorClass",
    "ActorClassInheritanceException",
    "ActorHandle",
    "ActorMethod",
    "exit_actor",
    "method",
]
