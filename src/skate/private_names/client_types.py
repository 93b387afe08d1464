"""Names of Ray's thin client, which programs compare types with: a client is an ordinary driver here, with ordinary objects."""

from __future__ import annotations

from skate.client.actor.actor_class import ActorClass as ClientActorClass
from skate.client.actor.actor_handle import ActorHandle as ClientActorHandle
from skate.client.actor.actor_handle import ActorMethod as ClientRemoteMethod
from skate.client.object.ids import ActorID as ClientActorRef
from skate.client.object.object_ref import ObjectRef as ClientObjectRef
from skate.client.task.remote_function import RemoteFunction as ClientRemoteFunc

__all__ = [
    "ClientActorClass",
    "ClientActorHandle",
    "ClientActorRef",
    "ClientObjectRef",
    "ClientRemoteFunc",
    "ClientRemoteMethod",
]
