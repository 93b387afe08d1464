"""Records of actors: what another head needs to start one again."""

from __future__ import annotations

from skate.core.actor.actor_table import Actor
from skate.core.cluster.membership import Membership
from skate.core.recovery.record_log import RecordLog
from skate.core.task.function_table import FunctionTable
from skate.protocol import registry_records as rr
from skate.protocol.fields import ActorFields
from skate.protocol.states import ALIVE


class ActorRecords:
    """Records the actors of a head."""

    def __init__(self, log: RecordLog, functions: FunctionTable, members: Membership) -> None:
        self.log = log
        self.functions = functions
        self.members = members
        #: Functions and templates that are recorded.
        self.known: set[bytes] = set()
        #: The restarts of living actors, as recorded.
        self.started: dict[bytes, int] = {}
        #: Actors whose end is recorded, and that have not ended.
        self.ending: set[bytes] = set()

    def of_creation(self, actor: Actor, job: str, namespace: str) -> list[rr.RegistryRecord]:
        """Return the records of a new actor, with the definitions that it needs."""
        creation, template = actor.creation, actor.template
        found: list[rr.RegistryRecord] = []
        function = template.function
        if function and function not in self.known:
            found.append(rr.FunctionRecord(rr.FUNCTION, function, *self.functions.functions[function]))
        if template.key not in self.known:
            found.append(rr.TemplateRecord(rr.TEMPLATE, template.key, template.fields))
        self.known |= {function, template.key}
        life: ActorFields = {
            "actor_name": actor.name,
            "namespace": actor.namespace,
            "max_restarts": actor.restarts_max,
            "max_task_retries": actor.task_retries,
            "handle": actor.public,
            "detached": actor.detached,
            "concurrent": not actor.in_order,
        }
        found.append(
            rr.ActorRecord(
                rr.ACTOR,
                actor.actor_id,
                template.key,
                creation.args,
                creation.deps,
                creation.held,
                creation.parent,
                life,
                self.members.node_of(actor.owner),
                job,
                namespace,
            )
        )
        return found

    def of_start(self, actor: Actor) -> list[rr.RegistryRecord]:
        """Return the record of the start of an actor, once for each of its lives."""
        if not self.log.is_stored or self.started.get(actor.actor_id) == actor.restarts:
            return []
        self.started[actor.actor_id] = actor.restarts
        return [rr.ActorStarted(rr.ACTOR_STARTED, actor.actor_id, actor.restarts)]

    def changed(self, actor: Actor) -> None:
        """Record that an actor is alive."""
        if actor.state == ALIVE:
            self.log.note(*self.of_start(actor))

    def of_end(self, actor: Actor) -> list[rr.RegistryRecord]:
        """Return the record of an end for good by a kill."""
        self.ending.add(actor.actor_id)
        return [rr.ActorGone(rr.ACTOR_GONE, actor.actor_id)]

    def died(self, actor: Actor) -> None:
        """Record that an actor has ended for good, unless that was recorded before."""
        self.started.pop(actor.actor_id, None)
        if actor.actor_id in self.ending:
            self.ending.discard(actor.actor_id)
        else:
            self.log.note(rr.ActorGone(rr.ACTOR_GONE, actor.actor_id))

    def __repr__(self) -> str:
        return f"<ActorRecords {self.log!r}>"
