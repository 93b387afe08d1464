"""Actors by the names that programs know from `ray.actor`: classes, handles, methods, and leaving."""

from __future__ import annotations

from skate.client.actors import ActorClass, ActorHandle, ActorMethod, exit_actor, method

__all__ = ["ActorClass", "ActorHandle", "ActorMethod", "exit_actor", "method"]
