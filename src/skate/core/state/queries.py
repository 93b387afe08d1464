"""Queries that a client waits for: names, rows, resources, groups."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from skate.core.cluster.head_groups import HeadGroups
from skate.core.diagnosis.wait_explainer import WaitExplainer
from skate.core.node_tables import NodeTables
from skate.core.recovery.record_log import RecordLog
from skate.core.state.inventory import HEAD_KINDS, Inventory, Row
from skate.core.state.key_values import Change, KeyValues
from skate.core.state.metric_table import Family, MetricTable
from skate.core.state.surveys import Surveys
from skate.protocol import messages as m
from skate.protocol import registry_records as rr
from skate.protocol.fields import Bundle, Count, GroupFields, GroupId, ObjectId, Where
from skate.protocol.registry_records import RegistryRecord
from skate.protocol.states import GroupState

#: Queries that only the head of a cluster can answer.
HEAD_VERBS = frozenset(
    {
        *("get_actor", "list_named_actors", "create_group", "group_ready", "remove_group"),
        *("kv_put", "kv_get", "kv_delete", "kv_keys", "drain_node"),
    }
)


#: The last answers to questions of a node that are kept for the next head, which the node asks again.
ANSWERS_MAX = 1024


class Refused(Exception):
    """A query answered with an error: (exception class name, fields)."""

    def __init__(self, error: str, /, **fields: Any) -> None:
        super().__init__(error)
        self.error = (error, fields)


class Registry(Protocol):
    """The questions that only the head of the cluster answers."""

    #: Stores the registry, if this node is a head that has a store.
    log: RecordLog

    def ask_head(self, cid: int, number: int, verb: str, arguments: Any) -> bool:
        """Pass a client's query on to the head; return False if this node answers it."""


class Queries:
    """Answers REQUEST messages, by the verb in each."""

    def __init__(
        self,
        tables: NodeTables,
        wait_explainer: WaitExplainer,
        inventory: Inventory,
        surveys: Surveys,
        groups: HeadGroups,
        metrics: MetricTable,
    ) -> None:
        self.actors = tables.actors
        self.placement = tables.placement
        self.clients, self.members = tables.clients, tables.members
        self.emit = tables.out.emit
        self.wait_explainer = wait_explainer
        self.inventory = inventory
        self.surveys = surveys
        self.groups = groups
        self.metrics = metrics
        self.registry: Registry
        self.key_values = KeyValues()
        self.verbs: dict[str, Callable[..., Any]] = {
            "get_actor": self.get_actor,
            "list_named_actors": self.list_named_actors,
            "rows": self.rows,
            "cluster_resources": self.cluster_resources,
            "available_resources": self.available_resources,
            "create_group": self.create_group,
            "group_ready": self.group_ready,
            "remove_group": self.remove_group,
            "survey_so_far": self.survey_so_far,
            "report_metrics": self.report_metrics,
            **self.key_values.verbs,
        }
        #: What has to be stored before the answer, and that: functions of the client and its arguments, by verb.
        self.records: dict[str, Callable[..., Change]] = {
            "create_group": self._records_of_group,
            "remove_group": self._records_of_removal,
            **self.key_values.records,
        }
        #: Answers of the last head that have perhaps not arrived, by the node that asked and its number for the question.
        self.stored_answers: dict[tuple[bytes, int], Any] = {}

    def request(self, cid: int, message: m.Request) -> None:
        """REQUEST: look up the verb, and answer with its result or the error it raises."""
        _, number, verb, arguments = message
        if verb == "why":
            self.wait_explainer.ask(cid, message)
            return
        of_head = verb in HEAD_VERBS or (verb == "rows" and arguments[0] in HEAD_KINDS)
        if of_head and self.registry.ask_head(cid, number, verb, arguments):
            return
        if verb == "survey":  # other processes answer it first
            self.surveys.begin(cid, number, *arguments)
            return
        log = self.registry.log
        if not log.is_stored or not of_head:
            self._answer(cid, number, verb, arguments)
            return
        asked = (self.members.node_of(cid), number)
        if asked in self.stored_answers:  # it must not happen twice
            self._reply(cid, number, True, self.stored_answers.pop(asked))
            return
        log.decide(  # also what changes nothing: it has to see the changes that the client has made before
            lambda: self._records_of(cid, number, verb, arguments),
            lambda: self._answer(cid, number, verb, arguments),
            lambda problem: self._reply(cid, number, False, ("OutOfDiskError", {"message": problem})),
        )

    def _records_of(
        self, cid: int, number: int, verb: str, arguments: tuple[Any, ...]
    ) -> list[RegistryRecord]:
        """Return what has to be stored before a query is answered; with the answer, if a node may repeat the query."""
        needed = self.records.get(verb)
        if needed is None or cid not in self.clients:
            return []
        records, answer = needed(cid, *arguments)
        peer = self.members.alive.get(cid)
        if records and peer is not None:
            records.append(rr.AnswerRecord(rr.ANSWER, peer.node_id, number % ANSWERS_MAX, number, answer))
        return records

    def _answer(self, cid: int, number: int, verb: str, arguments: tuple[Any, ...]) -> None:
        """Answer a query with its result or the error it raises."""
        try:
            value = self.verbs[verb](cid, *arguments)
        except Refused as refused:
            self._reply(cid, number, False, refused.error)
        else:
            self._reply(cid, number, True, value)

    def _reply(self, cid: int, number: int, ok: bool, value: Any) -> None:
        if cid in self.clients:  # or it has ended while a record was stored
            self.emit(cid, m.Reply(m.REPLY, number, ok, value))

    # -- actors

    def get_actor(self, cid: int, namespace: str, name: str) -> tuple[bytes, bytes] | None:
        """Return the living actor with a name, as (id, handle); None if the name is free."""
        actor = self.actors.named(namespace, name)
        return None if actor is None else (actor.actor_id, actor.public)

    def list_named_actors(self, cid: int, namespace: str | None) -> list[tuple[str, str]]:
        """Return (namespace, name) of the living named actors, in one namespace or in all."""
        return sorted(key for key in self.actors.names if namespace is None or key[0] == namespace)

    # -- rows

    def rows(self, cid: int, kind: str, where: Where) -> list[Row]:
        """Return the rows of a kind with certain columns, as far as this node knows them."""
        if kind not in self.inventory.kinds:
            raise Refused("ValueError", message=f"there are no rows of {kind!r}")
        return self.inventory.rows(kind, where)

    def survey_so_far(self, cid: int, token: Count) -> Any:
        """Return the partial result of a survey whose client stops waiting."""
        return self.surveys.give_up(cid, token)

    def report_metrics(self, cid: int, families: tuple[Family, ...]) -> None:
        """Replace the metrics of the client."""
        self.metrics.report(cid, families)

    # -- resources

    def cluster_resources(self, cid: int) -> dict[str, int]:
        """Return the total resources of the nodes, in units."""
        return self.inventory.total()

    def available_resources(self, cid: int) -> dict[str, int]:
        """Return the free resources, in units; those of placement groups have their own names."""
        return self.inventory.free()

    # -- placement groups

    def create_group(
        self, cid: int, group_id: GroupId, bundles: tuple[Bundle, ...], fields: dict[str, Any]
    ) -> None:
        """Create a placement group."""
        name = fields.get("name")
        if group_id not in self.placement.groups and self._is_taken(name):
            raise Refused("ValueError", message=f"there is already a placement group named {name!r}")
        if cid not in self.clients:  # it has ended while the record was stored
            self.registry.log.note(rr.GroupGone(rr.GROUP_GONE, group_id))
            return
        self.groups.create(cid, group_id, tuple(bundles), fields)

    def group_ready(self, cid: int, group_id: GroupId, oid: ObjectId) -> None:
        """Make an object become ready with a group."""
        self.groups.ready(cid, group_id, oid)

    def remove_group(self, cid: int, group_id: GroupId) -> None:
        """Remove a group."""
        self.groups.remove(group_id)

    def _is_taken(self, name: str | None) -> bool:
        groups = self.placement.groups.values()
        return bool(name) and any(g.name == name and g.state != GroupState.REMOVED for g in groups)

    def _records_of_group(
        self, cid: int, group_id: bytes, bundles: tuple[dict[str, int], ...], fields: GroupFields
    ) -> Change:
        if group_id in self.placement.groups or self._is_taken(fields.get("name")):
            return [], None
        return [rr.GroupRecord(rr.GROUP, group_id, tuple(bundles), fields, self.members.node_of(cid))], None

    def _records_of_removal(self, cid: int, group_id: bytes) -> Change:
        group = self.placement.groups.get(group_id)
        living = group is not None and group.state != GroupState.REMOVED
        return ([rr.GroupGone(rr.GROUP_GONE, group_id)] if living else []), None
