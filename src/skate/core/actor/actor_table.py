"""Actors: names, state, and waiting calls."""

from __future__ import annotations

from collections import deque
from typing import Any

from skate.core.task.task import Task, Template
from skate.protocol.fields import ActorFields, Death
from skate.protocol.states import ALIVE, DEAD, PENDING, ActorState

# How many dead actors without holders are kept.
DEAD_MAX = 1000


class Actor:
    """One actor of this node."""

    __slots__ = (
        "actor_id", "template", "creation", "state", "worker", "name", "namespace", "detached", "holders", "pins",
        "restarts", "restarts_max", "task_retries", "queue", "lanes", "in_order", "death", "owner", "leaving",
        "class_name", "public", "node", "grants", "hosted", "routed", "watchers", "pid", "crashes",
        "is_adrift",
    )  # fmt: skip

    def __init__(self, creation: Task, fields: ActorFields, owner: int) -> None:
        self.actor_id = creation.task_id
        self.template: Template = creation.template
        self.template.constructs = True
        self.creation = creation
        self.state: ActorState = PENDING
        self.worker: Any = None
        self.name: str = fields.get("actor_name") or ""
        self.namespace: str = fields.get("namespace") or ""
        self.detached: bool = bool(fields.get("detached"))
        self.holders: dict[int, int] = {}
        self.pins = 0
        self.restarts = 0
        self.crashes = 0  # since it last stayed alive for a while
        self.restarts_max: int = fields.get("max_restarts") or 0
        self.task_retries: int = fields.get("max_task_retries") or 0
        #: Calls whose arguments are available, waiting for the actor to start.
        self.queue: deque[Task] = deque()
        #: Calls that wait for arguments, and the calls behind them: by caller, or one lane per call if order does not matter.
        self.lanes: dict[int | bytes, deque[Task]] = {}
        self.in_order: bool = not fields.get("concurrent")
        self.death: Death | None = None
        self.owner = owner
        self.leaving = False
        self.class_name: str = creation.template.name
        #: The peer that it runs on, if not here; `grants` counts our grants at its host or at the head.
        self.node: Any = None
        self.grants = 0
        self.routed = False  # another node counts this one as a holder
        self.hosted = False  # it runs here for the head
        self.is_adrift = False  # that head is lost: another one decides if it is in use
        #: Nodes to which the head reports its location.
        self.watchers: set[int] = set()
        self.pid = 0
        #: Data for `get_actor` in another process to make a handle.
        self.public: bytes = fields.get("handle") or b""

    @property
    def wanted(self) -> bool:
        """Return True while a process could still call it."""
        return self.detached or bool(self.holders) or self.pins > 0 or self.is_adrift

    def lane_of(self, task: Task) -> int | bytes:
        """Return the lane in which a call waits for its arguments."""
        return task.client if self.in_order else task.task_id

    def describe(self) -> str:
        """Return class and name for messages."""
        return f"{self.class_name} (name={self.name!r})" if self.name else self.class_name

    def __repr__(self) -> str:
        return f"<Actor {self.describe()} {self.state.name} queued={len(self.queue)}>"


class ActorTable:
    """All actors of a node, by id and by name."""

    def __init__(self) -> None:
        self.actors: dict[bytes, Actor] = {}
        self.names: dict[tuple[str, str], Actor] = {}
        #: Actors by the worker that created them, if they end with it.
        self.owned: dict[int, set[bytes]] = {}
        self._dead: deque[Actor] = deque()

    def add(self, actor: Actor) -> None:
        """Add an actor; a name that is already taken stays with its first holder."""
        self.actors[actor.actor_id] = actor
        if actor.name:
            self.names.setdefault((actor.namespace, actor.name), actor)

    def named(self, namespace: str, name: str) -> Actor | None:
        """Return the living actor of that name, or None."""
        return self.names.get((namespace, name))

    def keep_dead(self, actor: Actor) -> None:
        """Record an actor's death: keep it for state lists and late callers, and drop old dead actors without holders."""
        actor.creation.args = b""
        dead = self._dead
        dead.append(actor)
        for _ in range(2):
            if len(dead) > DEAD_MAX:
                oldest = dead.popleft()
                if oldest.wanted and not oldest.detached:
                    dead.append(oldest)
                elif self.actors.get(oldest.actor_id) is oldest:
                    del self.actors[oldest.actor_id]

    def forget_name(self, actor: Actor) -> None:
        """Release the name of an actor for reuse."""
        if actor.name and self.names.get((actor.namespace, actor.name)) is actor:
            del self.names[(actor.namespace, actor.name)]

    def check(self, pins: dict[bytes, int]) -> None:
        """Raise AssertionError if an invariant is broken; `pins` are those that tasks, actors and values account for."""
        for (namespace, name), actor in self.names.items():
            assert actor.state != DEAD and (actor.namespace, actor.name) == (namespace, name), actor
            assert not actor.leaving, f"{actor} is on its way out, but is found by its name"
        for actor_id, actor in self.actors.items():
            assert actor.pins == pins.get(actor_id, 0), (
                f"{actor}: {actor.pins} pins, but {pins.get(actor_id, 0)} accounted for"
            )
            if actor.state == DEAD:
                assert not actor.queue and not actor.lanes and actor.worker is None, actor
            if actor.state == ALIVE:
                assert actor.worker is not None or actor.node is not None, actor
                assert actor.leaving or not actor.queue, actor
            for lane in actor.lanes.values():
                assert lane and lane[0].missing, f"{actor} keeps calls waiting for nothing: {lane}"

    def __repr__(self) -> str:
        return f"<ActorTable {len(self.actors)} actors, {len(self.names)} names>"
