"""Deadlock detection: which waits can still end, and which never can.

An entity is *live* if it may change on its own or through another live entity: a running task, a driver that does not wait, an
actor with a free thread, resources whose holder may end. At first, nothing counts as live. Then rules, one for each kind of
entity, are applied until nothing more becomes live: the least fixed point. If a rule cannot be sure, it says live. So a wait that
is not live at the end can only end through a kill, as far as this node knows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from skate.core.actor.actor_table import Actor
from skate.core.task.task import Task
from skate.protocol.messages import PENDING
from skate.protocol.states import ALIVE, DEAD, ENDED, METHOD, SENT, WAITING, GroupState
from skate.protocol.strategies import BundleStrategy

if TYPE_CHECKING:
    from skate.core.diagnosis.wait import Wait, Waits
    from skate.core.node_tables import NodeTables
    from skate.core.resource.capacity import Capacity, Lease
    from skate.core.schedule.worker_record import Worker

#: The kind of an entity, and its identity within that kind.
Key = tuple[str, Any]


class DeadlockSearch:
    """One search on a node: which of the entities that waits depend on are live."""

    def __init__(self, tables: NodeTables, waits: Waits, asleep: frozenset[int] = frozenset()) -> None:
        self.clients = tables.clients
        self.members = tables.members
        self.tasks = tables.tasks
        self.pausing = tables.retries.pausing
        self.objects = tables.objects
        self.actors = tables.actors
        self.scheduler = tables.scheduler
        self.capacity = tables.scheduler.capacity
        self.placement = tables.placement
        self.waits = waits
        self.asleep = asleep
        self.live: set[Key] = set()
        self._seen: dict[Key, None] = {}
        self._agenda: list[Key] = []
        self._rules: dict[str, Callable[[Any], bool]] = {
            "wait": self._wait,
            "id": self._id,
            "task": self._task,
            "actor": self._takes_calls,
            "class": self._class,
            "group": self._group,
            "lease": self._lease,
            "end": self._end,
            "value": self._value,
            "bundle": self._bundle,
            "process": self._process,
        }
        self._holders: dict[int, list[tuple[Key, Lease]]] = {}
        self._pinners: dict[bytes, list[Key]] | None = None
        self._before: dict[bytes, dict[bytes, Task]] = {}
        self._ready: dict[bytes, bytes] = {
            oid: group.group_id for group in tables.placement.groups.values() for oid in group.ready
        }

    # -- the fixed point

    @staticmethod
    def key_of(wait: Wait) -> Key:
        """Return the key of a wait."""
        return ("wait", (wait.cid, wait.number))

    def judge(self, waits: Iterable[Wait]) -> None:
        """Find out which of these waits can end."""
        for wait in waits:
            self.is_live(self.key_of(wait))
        while True:
            before = len(self.live)
            self._work_off()
            # Effects were found before their causes, so going backwards settles most of them in one pass.
            for key in reversed(list(self._seen)):
                self._apply(key)
            if len(self.live) == before and not self._agenda:
                return

    def _work_off(self) -> None:
        while self._agenda:
            self._apply(self._agenda.pop())

    def _apply(self, key: Key) -> None:
        if key not in self.live and self._rules[key[0]](key[1]):
            self.live.add(key)

    def is_live(self, key: Key) -> bool:
        """Return True if an entity is known to be live; schedule its examination if it was not examined yet."""
        if key in self.live:
            return True
        if key not in self._seen:
            self._seen[key] = None
            self._agenda.append(key)
        return False

    @property
    def processes(self) -> set[int]:
        """Return the processes whose waits or possible actions were considered."""
        return {
            key[1][0] if key[0] == "wait" else key[1] for key in self._seen if key[0] in ("wait", "process")
        }

    # -- waits and their causes

    def _wait(self, which: tuple[int, int]) -> bool:
        wait = self.waits.get(which[0], {}).get(which[1])
        if wait is None or wait.deadlock_reported:
            return True
        available = 0
        for oid in wait.ids:
            if self.is_live(("id", oid)):
                available += 1
            elif wait.needed == len(wait.ids):
                return False
        return available >= wait.needed

    def _id(self, oid: bytes) -> bool:
        if len(oid) == 28:
            record = self.objects.records.get(oid)
            if record is not None and (
                record.kind != PENDING or record.writer is not None or record.remote is not None
            ):
                return True
            group = self.group_of(oid)
            if group is not None:
                return self.is_live(("group", group))
        # An object that no task makes is coming from the process that has it.
        task_id = oid[:24]
        return task_id not in self.tasks or self.is_live(("task", task_id))

    def group_of(self, oid: bytes) -> bytes | None:
        """Return the placement group whose readiness an object represents, or None."""
        return self._ready.get(oid)

    # -- tasks

    def _task(self, task_id: bytes) -> bool:
        task = self.tasks.get(task_id)
        if task is None or task.node is not None or task.state == ENDED or task_id in self.pausing:
            return True
        if task.state == SENT:
            return self._sent(task)
        if not all(self.is_live(("id", oid)) for _, oid in task.deps):
            return False
        if task.kind == METHOD:
            before = self._in_lane_before(task)
            return (before is None or self.is_live(("task", before.task_id))) and self.actor_of(task)
        return task.state == WAITING or self._finds_room(task)

    def actor_of(self, task: Task) -> bool:
        """Return True if the actor of an unsent call may become able to run it."""
        actor = task.actor
        if actor is None or actor.node is not None or actor.leaving or actor.state == DEAD:
            return True
        return self.is_live(("actor", (actor.actor_id, task.template.fields.get("group") or "")))

    def _in_lane_before(self, task: Task) -> Task | None:
        actor = task.actor
        if actor is None or not actor.in_order:
            return None
        known = self._before.get(actor.actor_id)
        if known is None:
            known = self._before[actor.actor_id] = {}
            for lane in actor.lanes.values():
                last = None
                for each in lane:
                    if last is not None:
                        known[each.task_id] = last
                    last = each
        return known.get(task.task_id)

    def _sent(self, task: Task) -> bool:
        worker = task.worker
        waits = self.waits.get(worker.cid)
        if (
            held_back(task) and not worker.leaving and not task.cancelled
        ):  # it resumes only when its reader reads
            return self.is_live(("process", task.client))
        ahead = self._held_back_ahead(worker)
        if ahead is not None and ahead is not task and worker.actor is not None:
            return self.is_live(("task", ahead.task_id))
        if not waits or worker.leaving or self._has_free_threads(waits):
            return True
        actor = worker.actor
        if actor is None:
            if task.cancelled:  # the cancellation interrupts it
                return True
            first = next(iter(worker.outstanding.values()))
            if task is not first:  # it runs elsewhere, or here after the first one
                return worker.recall_sent or self._finds_room(task) or self.is_live(("task", first.task_id))
            return self._any_live(waits.values())
        if not side_by_side(actor):
            return self._any_live(waits.values())
        own = [wait for wait in waits.values() if wait.task_id == task.task_id]
        if own:
            return self._any_live(own)
        return self._thread_to_spare(actor, task.template.fields.get("group") or "")

    @staticmethod
    def _held_back_ahead(worker: Worker) -> Task | None:
        """Return the generator that a sequential worker is running, if the generator is held back."""
        first = next(iter(worker.outstanding.values()), None)
        one_by_one = worker.actor is None or (worker.actor.in_order and not worker.leaving)
        return first if first is not None and one_by_one and held_back(first) else None

    @staticmethod
    def _has_free_threads(waits: dict[int, Wait]) -> bool:
        return any(wait.threads_free for wait in waits.values())

    def _any_live(self, waits: Iterable[Wait]) -> bool:
        return any(self.is_live(self.key_of(wait)) for wait in waits)

    def _thread_to_spare(self, actor: Actor, group: str) -> bool:
        """Return True if an actor with threads has, or will have, a thread that is not stuck."""
        fields = actor.template.fields
        limit = (fields.get("groups") or {}).get(group) if group else fields.get("max_concurrency")
        if limit is None:
            return True
        waits = self.waits.get(actor.worker.cid, {})
        stuck = 0
        for task in actor.worker.outstanding.values():
            if (task.template.fields.get("group") or "") == group:
                own = [wait for wait in waits.values() if wait.task_id == task.task_id]
                stuck += bool(own) and not self._any_live(own)
        return bool(stuck < limit)

    def _takes_calls(self, which: tuple[bytes, str]) -> bool:
        actor_id, group = which
        actor = self.actors.actors[actor_id]
        if actor.state != ALIVE:
            return actor_id not in self.tasks or self.is_live(("task", actor_id))
        if actor.worker is None:
            return True
        ahead = self._held_back_ahead(actor.worker)
        if ahead is not None:
            return self.is_live(("task", ahead.task_id))
        waits = self.waits.get(actor.worker.cid)
        if not waits or self._has_free_threads(waits):
            return True
        if side_by_side(actor):
            return self._thread_to_spare(actor, group)
        return self._any_live(waits.values())

    # -- resources

    def _other_nodes_may(self) -> bool:
        """Return True if there are other nodes, or an autoscaler that starts some, which may have room."""
        return bool(self.members.alive) or self.members.can_grow()

    def _finds_room(self, task: Task) -> bool:
        if self._other_nodes_may():
            return True
        return self.is_live(("class", self.scheduler.class_of(task)))

    def _class(self, group: Any) -> bool:
        strategy = group.strategy
        if not isinstance(strategy, BundleStrategy):
            return self._room_for_one(self.capacity, group.request)
        placed = self.placement.groups.get(strategy.group_id)
        if placed is None or placed.state != GroupState.CREATED:
            return placed is None or self.is_live(("group", strategy.group_id))
        pools = [
            pool for (owner, index), pool in self.scheduler.pools.items() if strategy.takes(owner, index)
        ]
        return not pools or any(self._room_for_one(pool, group.request) for pool in pools)

    def _room_for_one(self, pool: Capacity, request: dict[str, int]) -> bool:
        """Return True if a task may fit, also with the devices that it takes: parts of several do not make a whole one."""
        if not self.room(pool, request):
            return False
        for name, devices in pool.device_pools().items():
            units = request.get(name, 0)
            if units:
                held = [(key, lease.held_devices(name)) for key, lease in self.holders_of(pool)]
                if not devices.fits_after(units, [each for key, each in held if each and self.is_live(key)]):
                    return False
        return True

    def room(self, pool: Capacity, request: dict[str, int]) -> bool:
        """Return True if a request fits, or may fit once all holders that may end have ended."""
        for name, units in request.items():
            wanting = units - pool.available.get(name, 0)
            if wanting > 0:
                for key, lease in self.holders_of(pool):
                    amount = held_units(lease, name)
                    if amount and self.is_live(key):
                        wanting -= amount
                if wanting > 0:
                    return False
        return True

    def holders_of(self, pool: Capacity) -> list[tuple[Key, Lease]]:
        """Return the leases on resources of a pool, with their holders."""
        found = self._holders.get(id(pool))
        if found is None:
            found = self._holders[id(pool)] = [
                (("lease", worker.cid), worker.lease)
                for worker in self.scheduler.workers.values()
                if worker.lease is not None and worker.lease.capacity is pool
            ]
            found += [
                (("bundle", group.group_id), lease)
                for group in self.placement.groups.values()
                for _, lease in group.leases.values()
                if lease.capacity is pool
            ]
            found += [
                (("bundle", group_id), lease)
                for (group_id, _), (_, lease) in self.placement.reserved.items()
                if lease.capacity is pool
            ]
        return found

    def _group(self, group_id: bytes) -> bool:
        group = self.placement.groups[group_id]
        if (
            group.state not in (GroupState.PENDING, GroupState.RESCHEDULING)
            or group.requested
            or self._other_nodes_may()
        ):
            return True
        whole: dict[str, int] = {}
        for bundle in group.bundles:
            for name, units in bundle.items():
                whole[name] = whole.get(name, 0) + units
        return self.room(self.capacity, whole)

    def _lease(self, cid: int) -> bool:
        """Return True if a worker may release its resources."""
        worker = self.scheduler.workers.get(cid)
        if worker is None or worker.leaving:
            return True
        actor = worker.actor
        outstanding = list(worker.outstanding.values())
        if actor is None:
            return not outstanding or self.is_live(("task", outstanding[0].task_id))
        return self.is_live(("end", actor.actor_id))

    def _end(self, actor_id: bytes) -> bool:
        """Return True if an actor may end, on its own or because its last handle is dropped."""
        actor = self.actors.actors.get(actor_id)
        if actor is None or actor.leaving or actor.state == DEAD or actor.worker is None:
            return True
        # A running call may make it exit.
        if any(self.is_live(("task", task_id)) for task_id in list(actor.worker.outstanding)):
            return True
        if actor.detached and any(self.is_live(("process", each)) for each in self._drivers()):
            return True
        return self._let_go(actor_id, actor.holders, actor.pins)

    def _value(self, oid: bytes) -> bool:
        """Return True if a value may be freed, with its contents."""
        record = self.objects.records.get(oid)
        if record is None or record.writer is not None:
            return True
        remote = record.remote
        if remote is not None and (remote.owner is not None or remote.place is not None):
            return True
        return self._let_go(oid, record.holders, record.pins)

    def _let_go(self, any_id: bytes, holders: Iterable[int], pins: int) -> bool:
        """Return True if any holder of an object or an actor may release it."""
        if any(self.is_live(("process", each)) for each in holders):
            return True
        if not pins:
            return False
        pinners = self.pinners_of(any_id)
        return pins > len(pinners) or any(self.is_live(each) for each in pinners)

    def pinners_of(self, any_id: bytes) -> list[Key]:
        """Return the tasks, values and actors that keep an object or an actor, as far as known here."""
        if self._pinners is None:
            self._pinners = {}
            takers: list[tuple[Key, Task]] = [(("task", task.task_id), task) for task in self.tasks.values()]
            takers += [
                (("end", actor.actor_id), actor.creation)
                for actor in self.actors.actors.values()
                if actor.actor_id not in self.tasks and actor.state != DEAD
            ]
            for key, task in takers:
                for each in (*(oid for _, oid in task.deps), *task.held):
                    self._pinners.setdefault(each, []).append(key)
            for record in self.objects.records.values():
                for each in record.held:
                    self._pinners.setdefault(each, []).append(("value", record.oid))
        return self._pinners.get(any_id, [])

    def _bundle(self, group_id: bytes) -> bool:
        """Return True if a holder may remove a group: holders are not counted, so any process may have it."""
        who = [*self._drivers(), *(w.cid for w in self.scheduler.workers.values() if w.outstanding)]
        group = self.placement.groups.get(group_id)
        return group is None or any(self.is_live(("process", cid)) for cid in who)

    # -- processes

    def _drivers(self) -> list[int]:
        return [client.cid for client in self.clients.values() if client.is_driver]

    def _process(self, cid: int) -> bool:
        """Return True if a process may act: release its refs, call an actor, create a value."""
        if cid not in self.clients or cid in self.members.alive:
            return True
        worker = self.scheduler.workers.get(cid)
        if worker is not None:
            # A process without work may have user threads that the node does not know of.
            tasks = worker.outstanding
            if not tasks:
                return cid not in self.asleep
            return any(self.is_live(("task", task_id)) for task_id in list(tasks))
        waits = self.waits.get(cid)
        if not waits:
            return cid not in self.asleep
        return self._has_free_threads(waits) or self._any_live(waits.values())


def held_back(task: Task) -> bool:
    """Return True for a generator that has reached its limit of unread values."""
    limit: int = task.template.fields.get("backpressure", 0)
    return limit > 0 and task.items - task.consumed >= limit


def side_by_side(actor: Actor) -> bool:
    """Return True for an actor that runs its calls in several threads; an asyncio actor has one thread for all."""
    return not actor.in_order and not actor.template.fields.get("is_async")


def held_units(lease: Lease, name: str) -> int:
    """Return how much more of a resource is free once a lease ends."""
    if name == "CPU" and lease.cpu_returned:
        return 0
    return lease.request.get(name, 0)
