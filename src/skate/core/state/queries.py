"""Queries that a client waits for: names, resources, groups, states."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from skate.core.cluster.head_groups import HeadGroups
from skate.core.diagnosis.wait_explainer import WaitExplainer
from skate.core.node_tables import NodeTables
from skate.core.resource.resources import UNIT
from skate.core.state.inventory import Inventory
from skate.protocol import messages as m
from skate.protocol.fields import Bundle, Count, GroupId, ObjectId
from skate.protocol.states import DEAD, METHOD, GroupState

#: Queries that only the head of a cluster can answer.
HEAD_VERBS = frozenset(
    {
        *("reserve_name", "get_actor", "list_named_actors", "actor_state", "list_actors"),
        *("create_group", "group_ready", "remove_group", "group_table", "find_group"),
        *("kv_put", "kv_get", "kv_delete", "kv_keys"),
    }
)


class Refused(Exception):
    """A query answered with an error: (exception class name, fields)."""

    def __init__(self, error: str, /, **fields: Any) -> None:
        super().__init__(error)
        self.error = (error, fields)


class Registry(Protocol):
    """The questions that only the head of the cluster answers."""

    def ask_head(self, cid: int, number: int, verb: str, arguments: Any) -> bool:
        """Pass a client's query on to the head; return False if this node answers it."""


class Queries:
    """Answers REQUEST messages, by the verb in each."""

    def __init__(
        self, tables: NodeTables, wait_explainer: WaitExplainer, inventory: Inventory, groups: HeadGroups
    ) -> None:
        self.tasks = tables.tasks
        self.history = tables.history
        self.objects = tables.objects
        self.actors = tables.actors
        self.members = tables.members
        self.placement = tables.placement
        self.capacity = tables.scheduler.capacity
        self.allocator = tables.disk.allocator
        self.emit = tables.out.emit
        self.wait_explainer = wait_explainer
        self.inventory = inventory
        self.groups = groups
        self.registry: Registry
        #: The key-value store of programs, by namespace and key.
        self.kept: dict[tuple[bytes, bytes], bytes] = {}
        self.verbs: dict[str, Callable[..., Any]] = {
            "reserve_name": self.reserve_name,
            "get_actor": self.get_actor,
            "list_named_actors": self.list_named_actors,
            "actor_state": self.actor_state,
            "list_actors": self.list_actors,
            "cluster_resources": self.cluster_resources,
            "available_resources": self.available_resources,
            "nodes": self.nodes,
            "create_group": self.create_group,
            "group_ready": self.group_ready,
            "remove_group": self.remove_group,
            "group_table": self.group_table,
            "find_group": self.find_group,
            "timeline": self.timeline,
            "task_state": self.task_state,
            "object_state": self.object_state,
            "is_method": self.is_method,
            "survey_so_far": self.survey_so_far,
            "kv_put": self.kv_put,
            "kv_get": self.kv_get,
            "kv_delete": self.kv_delete,
            "kv_keys": self.kv_keys,
        }

    def request(self, cid: int, message: m.Request) -> None:
        """REQUEST: look up the verb, and answer with its result or the error it raises."""
        _, number, verb, arguments = message
        if verb == "why":
            self.wait_explainer.ask(cid, message)
            return
        if verb in HEAD_VERBS and self.registry.ask_head(cid, number, verb, arguments):
            return
        if verb == "survey":  # other processes answer it first
            self.inventory.begin(cid, number, *arguments)
            return
        try:
            value = self.verbs[verb](cid, *arguments)
        except Refused as refused:
            self.emit(cid, m.Reply(m.REPLY, number, False, refused.error))
        else:
            self.emit(cid, m.Reply(m.REPLY, number, True, value))

    # -- actors

    def reserve_name(self, cid: int, namespace: str, name: str) -> tuple[bytes, bytes] | None:
        """Return the living actor with a name, as (id, handle); None if the name is free."""
        actor = self.actors.named(namespace, name)
        if actor is None:
            return None
        return actor.actor_id, actor.public

    def get_actor(self, cid: int, namespace: str, name: str) -> tuple[bytes, bytes]:
        """Return the actor with that name; a handle made from it does not keep the actor alive."""
        found = self.reserve_name(cid, namespace, name)
        if found is None:
            others = sorted(space for space, known in self.actors.names if known == name)
            same = sorted(known for space, known in self.actors.names if space == namespace)
            raise Refused("no such actor", name=name, namespace=namespace, elsewhere=others, here=same)
        return found

    def list_named_actors(self, cid: int, namespace: str | None) -> list[tuple[str, str]]:
        """Return (namespace, name) of the living named actors, in one namespace or in all."""
        return sorted(key for key in self.actors.names if namespace is None or key[0] == namespace)

    def actor_state(self, cid: int, actor_id: bytes) -> str | None:
        """Return the name of an actor's state, or None."""
        actor = self.actors.actors.get(actor_id)
        return None if actor is None else actor.state.public

    def list_actors(self, cid: int) -> list[dict[str, Any]]:
        """Return all known actors, including dead ones."""
        return [
            {
                "actor_id": actor.actor_id.hex(),
                "class_name": actor.class_name,
                "state": actor.state.public,
                "name": actor.name,
                "namespace": actor.namespace,
                "pid": actor.worker.pid if actor.worker is not None else actor.pid,
                "restarts": actor.restarts,
                "alive": actor.state != DEAD,
            }
            for actor in self.actors.actors.values()
        ]

    # -- keys and values

    def kv_put(self, cid: int, namespace: bytes, key: bytes, value: bytes, overwrite: bool) -> bool:
        """Store a value under a key; return True if there was one, which stays unless `overwrite` is set."""
        there = (namespace, key) in self.kept
        if overwrite or not there:
            self.kept[namespace, key] = value
        return there

    def kv_get(self, cid: int, namespace: bytes, key: bytes) -> bytes | None:
        """Return the value of a key, or None."""
        return self.kept.get((namespace, key))

    def kv_delete(self, cid: int, namespace: bytes, key: bytes, by_prefix: bool) -> int:
        """Delete a key, or all keys that start with it; return the number deleted."""
        gone = self.kv_keys(cid, namespace, key) if by_prefix else [key]
        return sum(self.kept.pop((namespace, each), None) is not None for each in gone)

    def kv_keys(self, cid: int, namespace: bytes, prefix: bytes) -> list[bytes]:
        """Return the keys that start with a prefix."""
        return sorted(key for space, key in self.kept if space == namespace and key.startswith(prefix))

    # -- resources

    def cluster_resources(self, cid: int) -> dict[str, int]:
        """Return the total resources of the nodes, in units."""
        total: dict[str, int] = {}
        for each in self.members.totals():
            for name, units in each.items():
                total[name] = total.get(name, 0) + units
        return total

    def available_resources(self, cid: int) -> dict[str, int]:
        """Return the free resources, in units; those of placement groups have their own names."""
        free: dict[str, int] = {}
        here = [self.capacity.available, self.placement.pools_free()]
        for each in (
            *here,
            *(part for peer in self.members.alive.values() for part in (peer.available, peer.pools)),
        ):
            for name, units in each.items():
                if units > 0:
                    free[name] = free.get(name, 0) + units
        store = free.get("object_store_memory")
        if store is not None:  # tasks do not reserve it: the free part is what no value occupies
            free["object_store_memory"] = max(0, store - self.allocator.arena.used * UNIT)
        return free

    def nodes(self, cid: int) -> list[dict[str, Any]]:
        """Return one row per node."""
        return self.members.describe()

    # -- placement groups

    def create_group(
        self, cid: int, group_id: GroupId, bundles: tuple[Bundle, ...], fields: dict[str, Any]
    ) -> None:
        """Create a placement group."""
        name = fields.get("name")
        if name and any(
            g.name == name and g.state != GroupState.REMOVED for g in self.placement.groups.values()
        ):
            raise Refused("ValueError", message=f"there is already a placement group named {name!r}")
        self.groups.create(cid, group_id, tuple(bundles), fields)

    def group_ready(self, cid: int, group_id: GroupId, oid: ObjectId) -> None:
        """Make an object become ready with a group."""
        self.groups.ready(cid, group_id, oid)

    def remove_group(self, cid: int, group_id: GroupId) -> None:
        """Remove a group."""
        self.groups.remove(group_id)

    def group_table(self, cid: int) -> list[dict[str, Any]]:
        """Return one row per group."""
        return [
            {
                "placement_group_id": group.group_id.hex(),
                "name": group.name,
                "bundles": dict(enumerate(group.bundles)),
                "strategy": group.strategy,
                "state": ("PENDING" if group.state == GroupState.INFEASIBLE else group.state.value),
                "nodes": {index: place.node_id.hex() for index, place in group.places.items()},
                "why": group.why,
            }
            for group in self.placement.groups.values()
        ]

    def find_group(self, cid: int, name: str) -> tuple[bytes, Any] | None:
        """Return the group with that name, as (id, bundles)."""
        for group in self.placement.groups.values():
            if group.name == name and group.state != GroupState.REMOVED:
                return group.group_id, group.bundles
        return None

    # -- history and diagnosis

    def timeline(self, cid: int) -> list[tuple[Any, ...]]:
        """Return the recently ended tasks: (name, id, kind, worker, pid, end, microseconds, status, function)."""
        return [
            (*entry[:8], entry[9].fields.get("qualified") or entry[9].name) for entry in self.history.finished
        ]

    def survey_so_far(self, cid: int, token: Count) -> Any:
        """Return the partial result of a survey whose client stops waiting."""
        return self.inventory.give_up(cid, token)

    def task_state(self, cid: int, task_id: bytes) -> tuple[int, str] | None:
        """Return a task's progress and what it waits for; None once it has ended."""
        task = self.tasks.get(task_id)
        return None if task is None else (task.state, self.wait_explainer.of_task(task))

    def object_state(self, cid: int, oid: bytes) -> dict[str, Any] | None:
        """Return the node's knowledge of an object."""
        record = self.objects.records.get(oid)
        if record is None:
            return None
        place = None if record.away is None else record.away.place
        here = [self.members.here.node_id.hex()] if record.kind in (m.ARENA, m.INLINE, m.SPILLED) else []
        return {
            "kind": record.kind,
            "size": record.size,
            "holders": dict(record.holders),
            "pins": record.pins,
            "nodes": here + ([] if place is None else [place.node_id.hex()]),
        }

    def is_method(self, cid: int, task_id: bytes) -> bool:
        """Return True if a task in progress is a method call."""
        task = self.tasks.get(task_id)
        return task is not None and task.kind == METHOD
