"""Description of a deadlock: the cycle of waits, and the choice of the wait to end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from skate.core.diagnosis.deadlock import DeadlockSearch, Key, held_back, held_units, side_by_side
from skate.core.resource.resources import human_amount
from skate.core.task.task import Task
from skate.protocol.states import ALIVE, METHOD, SENT, GroupState
from skate.protocol.strategies import BundleStrategy

if TYPE_CHECKING:
    from skate.core.diagnosis.wait import Wait, Waits
    from skate.core.node_tables import NodeTables

STEPS_MAX = 30
REMEDY = (
    "pass refs on instead of getting them, let an actor answer while it waits (async methods, or "
    "max_concurrency), or request less of the scarce resource"
)

UNREAD = "produces no more values until some are read by "

Step = tuple[str, Key | None]


class WaitGraph:
    """Follows each stuck entity to the one that blocks it."""

    def __init__(self, tables: NodeTables, waits: Waits, judgement: DeadlockSearch) -> None:
        self.tasks = tables.tasks
        self.objects = tables.objects
        self.actors = tables.actors
        self.scheduler = tables.scheduler
        self.capacity = tables.scheduler.capacity
        self.placement = tables.placement
        self.waits = waits
        self.judgement = judgement

    def victim(self, wait: Wait) -> Wait:
        """Select the wait to end, so that others can continue: the newest of a cycle, or the last one of a chain."""
        path: list[Key] = []
        key: Key | None = DeadlockSearch.key_of(wait)
        while key is not None and key not in path:
            path.append(key)
            key = self._step(key)[1]
        circle = path if key is None else path[path.index(key) :]
        waits = [self._wait(each) for each in circle if each[0] == "wait"]
        waits = waits or [self._wait(each) for each in path if each[0] == "wait"]
        if key is None:
            return waits[-1]
        return max(waits, key=lambda each: (each.since, each.cid, each.number))

    def text(self, wait: Wait) -> str:
        """Describe the cycle that a wait is part of, with advice."""
        key: Key | None = DeadlockSearch.key_of(wait)
        met: list[Key] = []
        text = ""
        named = False  # the text so far ends with the name of the next waiting process
        while key is not None and key not in met and len(met) < STEPS_MAX:
            met.append(key)
            words, following = self._step(key)
            if key[0] == "wait":
                site = self._wait(key).facts.get("where", "")
                who = "" if named else self._who(self._wait(key))
                words = f"{who}{f' (at {site})' if site else ''}{', which' if text else ''} {words}"
            text += words
            named = key[0] == "task" and not words
            key = following
        if key is not None and key[0] == "wait" and not named:
            text += self._who(self._wait(key))
        return f"this can never end: {text}; {REMEDY}"

    def _wait(self, key: Key) -> Wait:
        cid, number = key[1]
        return self.waits[cid][number]

    def _who(self, wait: Wait) -> str:
        task = self.tasks.get(wait.task_id)
        return "the driver" if task is None else task.template.name

    @staticmethod
    def _actor(actor: Any) -> str:
        """Describe an actor so that it differs from others of its class."""
        return f"actor {actor.describe()} (pid {actor.worker.pid})"

    # -- one step: a description of the cause, and the entity that it leads to

    def _step(self, key: Key) -> Step:
        kind, what = key
        if kind == "wait":
            return self._of_wait(self._wait(key))
        if kind == "id":
            return self._of_id(what)
        if kind == "task":
            return self._of_task(self.tasks[what])
        if kind == "class":
            return self._of_class(what)
        if kind == "group":
            return self._of_group(what)
        if kind == "lease":
            return self._of_lease(what)
        if kind == "end":
            return self._of_end(self.actors.actors[what])
        if kind == "value":
            record = self.objects.records[what]
            return "", self._keeper(what, record.holders)
        if kind == "process":
            return self._of_process(what)
        return ("", self._first_stuck([("process", cid) for cid in self.waits]))

    def _stuck(self, key: Key) -> bool:
        return key not in self.judgement.live

    def _first_stuck(self, keys: list[Key]) -> Key | None:
        return next((key for key in keys if self._stuck(key)), None)

    def _of_wait(self, wait: Wait) -> Step:
        key = self._first_stuck([("id", oid) for oid in wait.ids])
        return (f"waits for {self._name(key[1])}", key) if key is not None else ("waits", None)

    def _name(self, oid: bytes) -> str:
        task = self.tasks.get(oid[:24])
        if task is not None:
            return task.template.name
        group = self.judgement.group_of(oid)
        if group is not None:
            return self._name_of_group(group)
        return "a value that no task produces"

    def _name_of_group(self, group_id: bytes) -> str:
        group = self.placement.groups[group_id]
        return f"placement group {group.name or group_id.hex()[:8]}"

    def _of_id(self, oid: bytes) -> Step:
        if oid[:24] in self.tasks:
            return "", ("task", oid[:24])
        group = self.judgement.group_of(oid)
        return "", (("group", group) if group is not None else None)

    def _of_task(self, task: Task) -> Step:
        if task.state == SENT:
            return self._of_sent(task)
        missing = self._first_stuck([("id", oid) for _, oid in task.deps])
        if missing is not None:
            return f", which takes the result of {self._name(missing[1])}", missing
        if task.kind != METHOD:
            return "", ("class", self.scheduler.class_of(task))
        lanes = task.actor.lanes.get(task.actor.lane_of(task), ())
        first = self._first_stuck([("task", each.task_id) for each in lanes])
        if first is not None and first[1] != task.task_id:
            return f", which is queued behind {self.tasks[first[1]].template.name}", first
        actor = task.actor
        if actor.state != ALIVE or actor.worker is None:
            return f", which waits for actor {actor.describe()} to start", ("task", actor.actor_id)
        return self._in_queue(actor)

    def _of_sent(self, task: Task) -> Step:
        worker = task.worker
        waits = self.waits.get(worker.cid, {})
        if held_back(task):
            return f", which {UNREAD}", ("process", task.client)
        own = [wait for wait in waits.values() if wait.task_id == task.task_id]
        if own:
            return "", DeadlockSearch.key_of(own[0])
        first = next(iter(worker.outstanding.values()))
        if first is not task and (worker.actor is None or (worker.actor.in_order and held_back(first))):
            return f", which was sent behind {first.template.name}", ("task", first.task_id)
        if worker.actor is not None:
            return self._in_queue(worker.actor)
        return "", DeadlockSearch.key_of(next(iter(waits.values())))

    def _in_queue(self, actor: Any) -> Step:
        """Describe a call that an actor cannot start."""
        first = next(iter(actor.worker.outstanding.values()), None)
        if first is not None and actor.in_order and held_back(first):
            return f", which is queued behind {first.template.name}", ("task", first.task_id)
        waits = self.waits.get(actor.worker.cid, {})
        stuck = [DeadlockSearch.key_of(wait) for wait in waits.values()]
        all_of_it = "all threads of which wait: " if side_by_side(actor) else "behind "
        return f", which waits in the queue of {self._actor(actor)}, {all_of_it}", self._first_stuck(stuck)

    # -- resources

    def _of_class(self, group: Any) -> Step:
        strategy = group.strategy
        pools = [self.capacity]
        if isinstance(strategy, BundleStrategy):
            placed = self.placement.groups.get(strategy.group_id)
            if placed is not None and placed.state != GroupState.CREATED:
                return f", which is to run in {self._name_of_group(strategy.group_id)}", (
                    "group",
                    strategy.group_id,
                )
            pools = [
                pool for (owner, index), pool in self.scheduler.pools.items() if strategy.takes(owner, index)
            ]
        return self._short(pools[0], group.request)

    def _of_group(self, group_id: bytes) -> Step:
        whole: dict[str, int] = {}
        for bundle in self.placement.groups[group_id].bundles:
            for name, units in bundle.items():
                whole[name] = whole.get(name, 0) + units
        return self._short(self.capacity, whole)

    def _short(self, pool: Any, request: dict[str, int]) -> Step:
        for name, units in request.items():
            free = pool.available.get(name, 0)
            if units <= free:
                continue
            total = human_amount(pool.total.get(name, 0))
            words = f", which needs {human_amount(units)} {name} ({human_amount(max(free, 0))} of {total} free), held by "
            for key, lease in self.judgement.holders_of(pool):
                if held_units(lease, name) and self._stuck(key):
                    return words + ("a placement group, while " if key[0] == "bundle" else ""), key
        return ", which needs resources that are not free", None

    def _of_lease(self, cid: int) -> Step:
        worker = self.scheduler.workers[cid]
        waits = self.waits.get(cid, {})
        stuck = self._first_stuck([DeadlockSearch.key_of(wait) for wait in waits.values()])
        if stuck is not None:
            return "", stuck
        actor = worker.actor
        first = next(iter(worker.outstanding.values()), None)
        if first is not None and held_back(first):
            return f"{first.template.name}, which {UNREAD}", ("process", first.client)
        if actor is None:
            return "a worker", None
        return "", ("end", actor.actor_id)

    def _of_end(self, actor: Any) -> Step:
        words = f"{self._actor(actor)}, which lives while it is referenced by "
        keeper = self._keeper(actor.actor_id, actor.holders)
        if keeper is None:
            return words + "its handles", None
        if keeper[0] == "task":
            words += self.tasks[keeper[1]].template.name
        elif keeper[0] == "value":
            words += "a value held by "
        return words, keeper

    def _keeper(self, any_id: bytes, holders: Any) -> Key | None:
        """Describe the holder of an object or an actor."""
        keys: list[Key] = [("process", each) for each in holders]
        return self._first_stuck(keys + self.judgement.pinners_of(any_id))

    def _of_process(self, cid: int) -> Step:
        waits = self.waits.get(cid, {})
        stuck = [DeadlockSearch.key_of(wait) for wait in waits.values()]
        worker = self.scheduler.workers.get(cid)
        if worker is not None:
            stuck += [("task", task_id) for task_id in worker.outstanding]
        return "", self._first_stuck(stuck)
