"""Classes, handles and methods of actors, and `exit_actor`, under the names of `ray.actor`."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias, TypeVar, Union

from skate.client.actor.actor_class import ActorClass, ActorClassInheritanceException, exit_actor, method
from skate.client.actor.actor_handle import ActorHandle, ActorMethod

T = TypeVar("T")
if TYPE_CHECKING:
    ActorProxy: TypeAlias = ActorHandle | type[T]
else:
    #: The type of handles to actors of a class, for annotations: `ActorProxy[Counter]`.
    ActorProxy = Union[ActorHandle[T], type[T]]  # noqa: UP007  (an alias with a parameter)

__all__ = [
    "ActorClass",
    "ActorClassInheritanceException",
    "ActorHandle",
    "ActorMethod",
    "ActorProxy",
    "exit_actor",
    "method",
]
