"""A record of all input of a core, from which another core must make the same decisions.

A seed replays a whole run, programs and faults included. This is the other half: the core alone, given the same inputs, has
the same effects, whatever the process, the order of hashes or the address of an object.
"""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Callable
from typing import Any

from skate.core.node import NodeCore

DOORS = (
    "step", "tick", "connect", "disconnect", "pulled", "spilled", "restored", "reserved", "read_abroad",
    "environment_failed", "cluster.join", "cluster.left",
)  # fmt: skip


class EventLog:
    """The inputs of one core, packed, and the hash of its effects."""

    def __init__(self, core: NodeCore) -> None:
        self.inputs: list[bytes] = []
        self._hash = hashlib.blake2b(digest_size=16)
        self.core = core
        self._inside = False  # one door that leads to another is one input
        for door in DOORS:
            owner, name, method = _door(core, door)
            setattr(owner, name, self._listening(door, method))

    @property
    def digest(self) -> str:
        """The hash of all effects so far."""
        return self._hash.hexdigest()

    def _listening(self, door: str, method: Callable[..., Any]) -> Callable[..., Any]:
        core = self.core

        def listen(*arguments: Any) -> Any:
            if self._inside:
                return method(*arguments)
            self._inside = True
            # Packed at once: what is passed may be changed later by who passed it.
            self.inputs.append(pickle.dumps((door, core.next_cid, arguments)))
            before = len(core.effects)
            answer = method(*arguments)
            self._inside = False
            self._hash.update(repr((answer, core.effects[before:])).encode())
            return answer

        return listen


def replay(inputs: list[bytes], core: NodeCore) -> str:
    """Tell a new core all that is on record; returns the hash of its effects."""
    digest = hashlib.blake2b(digest_size=16)
    for packed in inputs:
        door, next_cid, arguments = pickle.loads(packed)
        core.next_cid = next_cid
        core.effects = []
        answer = _door(core, door)[2](*arguments)
        digest.update(repr((answer, core.effects)).encode())
    return digest.hexdigest()


def _door(core: NodeCore, door: str) -> tuple[Any, str, Callable[..., Any]]:
    owner: Any = core
    *path, name = door.split(".")
    for step in path:
        owner = getattr(owner, step)
    return owner, name, getattr(owner, name)
