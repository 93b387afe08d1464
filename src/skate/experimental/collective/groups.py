"""Collective groups of actors, created from outside: every actor joins immediately."""

from __future__ import annotations

import threading
import uuid
from typing import Any

import skate as ray
from skate.client.tensor.graph_channels import SYSTEM_GROUP
from skate.util.collective import collective as members
from skate.util.collective.types import Backend


class CommunicatorHandle:
    """A group created by this process."""

    def __init__(self, actors: list[Any], name: str, backend: str) -> None:
        self._actors = list(actors)
        self._name = name
        self._backend: str = Backend(backend)

    @property
    def actors(self) -> list[Any]:
        """The actors, in the order of their ranks."""
        return list(self._actors)

    @property
    def name(self) -> str:
        """The group's name."""
        return self._name

    @property
    def backend(self) -> str:
        """The backend, in capitals."""
        return self._backend

    def get_rank(self, actor: Any) -> int:
        """Return an actor's rank; -1 if it is not a member."""
        return self._actors.index(actor) if actor in self._actors else -1

    def __repr__(self) -> str:
        return f"CommunicatorHandle({self._name!r}, {self._backend}, {len(self._actors)} actors)"


_lock = threading.Lock()
_made: dict[str, CommunicatorHandle] = {}


def _join(actor: Any, world_size: int, rank: int, backend: str, name: str) -> None:
    members.init_collective_group(world_size, rank, backend, name)


def _leave(actor: Any, name: str) -> None:
    members.destroy_collective_group(name)


def create_collective_group(actors: list[Any], backend: str, name: str | None = None) -> CommunicatorHandle:
    """Create a group of these actors, with ranks in this order; returns when all have joined.

    `backend`: "gloo" or "nccl". Raises ValueError for an unknown backend, values that are not actor handles,
    and duplicates; RuntimeError for a name that is taken, or actors that are already in a group of this
    backend.
    """
    kind = Backend(backend)
    name = uuid.uuid4().hex if name is None else name
    if len(set(actors)) != len(actors):
        raise ValueError(f"All actors must be unique, got: {actors}")
    with _lock:
        if name in _made:
            raise RuntimeError(f"Collective group {name} already exists.")
        for actor in actors:
            for group in _made.values():
                if group.backend == kind and actor in group.actors:
                    raise RuntimeError(
                        f"Actor {actor} already in group for backend {kind}. Actors can currently only participate in at "
                        "most one group per backend."
                    )
        ray.get(
            [
                actor.__ray_call__.options(concurrency_group=SYSTEM_GROUP).remote(
                    _join, len(actors), rank, kind, name
                )
                for rank, actor in enumerate(actors)
            ]
        )
        handle = _made[name] = CommunicatorHandle(actors, name, kind)
    return handle


def destroy_collective_group(group_or_name: CommunicatorHandle | str) -> None:
    """Make the actors of a group leave it. Raises ValueError for an unknown group."""
    name = group_or_name.name if isinstance(group_or_name, CommunicatorHandle) else group_or_name
    if not isinstance(name, str):
        raise ValueError(f"Expected a CommunicatorHandle or a str, got {group_or_name!r:.80}")
    with _lock:
        group = _made.pop(name, None)
    if group is None:
        raise ValueError(f"No group with name {name} found.")
    left = [
        actor.__ray_call__.options(concurrency_group=SYSTEM_GROUP).remote(_leave, name)
        for actor in group.actors
    ]
    for ref in left:
        try:
            ray.get(ref)
        except ray.exceptions.RayActorError:  # a dead actor has left the group
            continue


def destroy_all_collective_groups() -> None:
    """Make all actors leave the groups created by this process."""
    for name in list(_made):
        destroy_collective_group(name)


def get_collective_groups(actors: list[Any], backend: str | None = None) -> list[CommunicatorHandle]:
    """Return the groups created here that contain all of these actors, of one backend or of any."""
    wanted = None if backend is None else Backend(backend)
    return [
        group
        for group in _made.values()
        if (wanted is None or group.backend == wanted) and set(actors) <= set(group.actors)
    ]
