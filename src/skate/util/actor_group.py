"""ActorGroup: actors of one class that are started, called and ended together. Deprecated in Ray."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import skate
from skate.exceptions import RayError
from skate.util.annotations import Deprecated


@dataclass
class ActorWrapper:
    """A handle with its actor's metadata, from `get_actor_metadata()` if it has such a method."""

    actor: Any
    metadata: Any


@dataclass
class ActorConfig:
    """The resources and constructor arguments of the actors of a group."""

    num_cpus: float
    num_gpus: float
    resources: dict[str, float] | None
    init_args: tuple[Any, ...]
    init_kwargs: dict[str, Any]


class ActorGroupMethod:
    """A method of all actors in a group."""

    def __init__(self, actor_group: ActorGroup, method_name: str) -> None:
        self.actor_group = actor_group
        self._method_name = method_name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        name = self._method_name
        raise TypeError(
            f"ActorGroup methods cannot be called directly; instead of group.{name}() call group.{name}.remote()"
        )

    def remote(self, *args: Any, **kwargs: Any) -> list[Any]:
        """Call the method of each actor: one ref each, in the order of the group."""
        return [getattr(each.actor, self._method_name).remote(*args, **kwargs) for each in self.actor_group]


@Deprecated(
    message="use ray.util.multiprocessing for calls of functions, and map_batches of ray.data for batches",
    warning=True,
)
class ActorGroup:
    """Actors of one class; an attribute of the group is that method on all of them.

    Args:
        actor_cls: a class, not decorated.
        num_actors: the number of actors, at least 1.
        num_cpus_per_actor, num_gpus_per_actor: the resources of each.
        resources_per_actor: further resources of each, by name.
        init_args, init_kwargs: arguments of the constructor.

    Raises:
        ValueError: `num_actors` is not above 0, or a number of CPUs or GPUs is negative.
    """

    def __init__(
        self,
        actor_cls: type,
        num_actors: int = 1,
        num_cpus_per_actor: float = 1,
        num_gpus_per_actor: float = 0,
        resources_per_actor: dict[str, float] | None = None,
        init_args: tuple[Any, ...] | None = None,
        init_kwargs: dict[str, Any] | None = None,
    ) -> None:
        if num_actors <= 0:
            raise ValueError(
                f"The provided `num_actors` must be greater than 0. Received num_actors={num_actors} instead."
            )
        if num_cpus_per_actor < 0 or num_gpus_per_actor < 0:
            raise ValueError(
                "The number of CPUs and GPUs per actor must not be negative. Received "
                f"num_cpus_per_actor={num_cpus_per_actor} and num_gpus_per_actor={num_gpus_per_actor}."
            )
        self.actors: list[ActorWrapper] = []
        self.num_actors = num_actors
        self.actor_config = ActorConfig(
            num_cpus_per_actor, num_gpus_per_actor, resources_per_actor, init_args or (), init_kwargs or {}
        )
        config = self.actor_config
        self._remote_cls = skate.remote(
            num_cpus=config.num_cpus, num_gpus=config.num_gpus, resources=config.resources
        )(_with_metadata(actor_cls))
        self.start()

    def __getattr__(self, name: str) -> ActorGroupMethod:
        if name.startswith("__") or "actors" not in self.__dict__:
            raise AttributeError(name)
        if not self.actors:
            raise RuntimeError("This ActorGroup has been shutdown. Please start it again: call start().")
        return ActorGroupMethod(self, name)

    def __len__(self) -> int:
        return len(self.actors)

    def __getitem__(self, index: int) -> ActorWrapper:
        return self.actors[index]

    def __iter__(self) -> Iterator[ActorWrapper]:
        return iter(self.actors)

    def start(self) -> None:
        """Start the actors. Raises RuntimeError if they are already running."""
        if self.actors:
            raise RuntimeError(
                "The actors have already been started. Please call `shutdown` first if you want to restart them."
            )
        self.add_actors(self.num_actors)

    def add_actors(self, num_actors: int) -> None:
        """Start more actors, after the existing ones."""
        config = self.actor_config
        new = [self._remote_cls.remote(*config.init_args, **config.init_kwargs) for _ in range(num_actors)]
        found = skate.get([each.get_actor_metadata.remote() for each in new])
        self.actors += [ActorWrapper(each, metadata) for each, metadata in zip(new, found, strict=True)]

    def remove_actors(self, actor_indexes: list[int]) -> None:
        """Remove the actors at these positions; each ends when its last handle is dropped."""
        gone = {index % len(self.actors) for index in actor_indexes}
        self.actors = [each for index, each in enumerate(self.actors) if index not in gone]

    def shutdown(self, patience_s: float = 5) -> None:
        """End the actors; those that have not left after `patience_s` seconds are killed."""
        leaving = [each.actor.__ray_terminate__.remote() for each in self.actors]
        deadline = time.monotonic() + patience_s
        for ref, each in zip(leaving, self.actors, strict=True):
            ready, _ = skate.wait([ref], timeout=max(0.0, deadline - time.monotonic()))
            if not ready:
                skate.kill(each.actor)
                continue
            try:
                skate.get(ref)
            except RayError:
                # The actor has already ended.
                continue
        self.actors = []

    @property
    def actor_metadata(self) -> list[Any]:
        """The metadata of each actor."""
        return [each.metadata for each in self.actors]


def _with_metadata(actor_cls: type) -> type:
    """Return the class, with a default metadata method if it has none."""
    if hasattr(actor_cls, "get_actor_metadata"):
        return actor_cls

    class WithMetadata(actor_cls):  # type: ignore[misc]
        def get_actor_metadata(self) -> None:
            return None

    WithMetadata.__name__, WithMetadata.__qualname__, WithMetadata.__module__ = (
        actor_cls.__name__,
        actor_cls.__qualname__,
        actor_cls.__module__,
    )
    return WithMetadata
