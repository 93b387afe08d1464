"""Classes, handles and methods of actors, and `exit_actor`, under the names of `ray.actor`."""

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
