"""Short explanations of why tasks, objects, actors and placement groups wait, traced back to the cause.

Explanations use facts that the core has anyway, and are made only on request. First the shell checks whether a signal has
stopped a worker (`looked`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from skate.core.actor.actor_table import Actor
from skate.core.diagnosis.deadlock import held_units
from skate.core.object.lifetimes import owner_of
from skate.core.resource.resources import UNIT, human_amount
from skate.core.task.task import Task, Template
from skate.protocol import messages as m
from skate.protocol.effects import FindStopped
from skate.protocol.states import ALIVE, CREATION, DEAD, METHOD, QUEUED, RESTARTING, SENT, WAITING, GroupState
from skate.protocol.strategies import BundleStrategy

if TYPE_CHECKING:
    from skate.core.diagnosis.wait import Waits
    from skate.core.memory.memory_pressure import MemoryPressure
    from skate.core.node_tables import NodeTables
    from skate.core.resource.capacity import Capacity
    from skate.core.schedule.worker_record import Worker
    from skate.core.state.key_values import KeyValues

#: How far a chain of causes is followed.
LINKS_MAX = 4
HOLDERS_SHOWN = 4
AUTOSCALER_TEXT = (
    "the nodes are too few or too small for it: it waits until the autoscaler has started others"
)


#: Where the autoscaler keeps the resources of the workers that it starts, as JSON.
WORKER_NAMESPACE, WORKER_KEY = b"skate.autoscaler", b"worker"


class WaitExplainer:
    """Explains waits."""

    def __init__(self, tables: NodeTables, waits: Waits, memory_pressure: MemoryPressure) -> None:
        self.clock = tables.clock
        self.out = tables.out
        self.clients = tables.clients
        self.members = tables.members
        self.peers = tables.peers
        self.tasks = tables.tasks
        self.pausing = tables.retries.pausing
        self.objects = tables.objects
        self.restoring = tables.disk.restoring
        self.actors = tables.actors
        self.scheduler = tables.scheduler
        self.capacity = tables.scheduler.capacity
        self.placement = tables.placement
        self.is_pending = tables.is_pending
        self.waits = waits
        self.memory_pressure = memory_pressure
        #: Pids of workers that the shell last found stopped by a signal.
        self.stopped: frozenset[int] = frozenset()
        #: The key-value store; only the head's has entries.
        self.key_values: KeyValues | None = None

    # -- queries of clients

    def ask(self, cid: int, message: m.Request) -> None:
        """REQUEST "why": have the shell check the workers; `looked` answers then."""
        _, number, _, (any_id,) = message
        self.out.shell(FindStopped(cid, number, any_id))

    def looked(self, cid: int, number: int, any_id: bytes, stopped: frozenset[int], now: float) -> None:
        """Explain why an id is not ready, now that the shell has reported the stopped workers."""
        self.clock.now = now
        self.stopped = stopped
        self.out.emit(cid, m.Reply(m.REPLY, number, True, self.of(any_id)))

    def of(self, any_id: bytes) -> str:
        """Return why an object, task or actor is not ready; empty if it is ready or unknown."""
        if len(any_id) == 28:
            return self.of_object(any_id)
        task = self.tasks.get(any_id)
        if task is not None:
            return self.of_task(task)
        actor = self.actors.actors.get(any_id)
        return "" if actor is None else self.of_actor(actor)

    # -- objects

    def of_object(self, oid: bytes, links: int = LINKS_MAX) -> str:
        """Return why a value is not ready."""
        task = self.tasks.get(oid[:24])
        record = self.objects.records.get(oid)
        if record is not None and record.kind == m.SPILLED:
            return "it is on disk and is being restored to memory"
        if record is not None and record.kind not in (m.PENDING, m.REMOTE):
            return ""
        if task is not None:
            return self.of_task(task, links)
        if record is not None and record.writer is not None:
            return "it is being written into shared memory" if record.writer >= 0 else "it is on its way here"
        if record is not None and record.remote is not None:
            place = record.remote.place or record.remote.owner
            return "" if place is None else f"it is on node {place.node_id.hex()[:8]}"
        for group in self.placement.groups.values():
            if oid in group.ready:
                return (
                    f"placement group {group.name or group.group_id.hex()[:8]} waits: {self.of_group(group)}"
                )
        if record is not None and owner_of(oid) in self.clients:
            return f"process {owner_of(oid)} has not published its value yet"
        return ""

    # -- tasks

    def of_task(self, task: Task, links: int = LINKS_MAX) -> str:
        """Return why a task waits, or where it runs and for how long."""
        if task.state == SENT:
            return self._of_sent(task, links)
        again_at = self.pausing.get(task.task_id)
        if again_at is not None:
            return self._of_pause(task, again_at - self.clock.now)
        coming = self.restoring
        if coming and any(oid in coming for _, oid in task.deps):
            return "an argument is on disk and is being restored to memory"
        if task.missing:
            return self._of_arguments(task, links)
        if task.kind == METHOD:
            return self._of_call(task, links)
        if task.state == WAITING:
            return "it is about to be placed"
        return self._of_queued(task, links)

    def count_waiting(self, tasks: Iterable[Task]) -> dict[tuple[str, str], int]:
        """Count the tasks that wait, by name and reason."""
        counted: dict[tuple[str, str], int] = {}
        # Queued tasks of one template wait for the same resources: explain them once.
        queued: dict[Template, str] = {}
        for task in tasks:
            if task.state not in (WAITING, QUEUED):
                continue
            template = task.template
            alike = task.state == QUEUED and task.kind != METHOD and task.node is None
            alike = alike and not task.missing and not self.restoring and task.task_id not in self.pausing
            why = queued.get(template) if alike else None
            if why is None:
                why = self.of_task(task)
                if alike:
                    queued[template] = why
            key = (template.name, why)
            counted[key] = counted.get(key, 0) + 1
        return counted

    def _of_pause(self, task: Task, seconds: float) -> str:
        """Describe the pause between a crashed attempt and the next one."""
        if seconds > 0:
            return f"attempt {task.attempt + 1} starts in {seconds:.1f} s, because earlier attempts crashed"
        return f"attempt {task.attempt + 1} waits until enough memory is free"

    def _of_arguments(self, task: Task, links: int) -> str:
        records = self.objects.records
        missing = [oid for _, oid in task.deps if records[oid].kind in (m.PENDING, m.REMOTE)]
        if not missing:
            return f"{task.missing} of its arguments are still being transferred"
        maker = self.tasks.get(missing[0][:24])
        text = "1 of its arguments is" if len(missing) == 1 else f"{len(missing)} of its arguments are"
        text += " still computed"
        if links <= 0:
            return text
        first = self.of_object(missing[0], links - 1)
        name = maker.template.name if maker is not None else "a value"
        which = name if len(missing) == 1 else f"the first: {name}"
        return f"{text} ({which}{': ' + first if first else ''})"

    def _of_call(self, task: Task, links: int) -> str:
        actor: Actor | None = task.actor
        if actor is None:
            return "it is not known yet where its actor is"
        if actor.state != ALIVE:
            return self.of_actor(actor, links)
        lane = actor.lanes.get(actor.lane_of(task))
        if lane and lane[0] is not task and links > 0:
            first = lane[0]
            return f"it waits for an earlier call of {first.template.name}: {self.of_task(first, links - 1)}"
        return f"it is about to be sent to actor {actor.describe()}"

    def _of_sent(self, task: Task, links: int) -> str:
        worker = task.worker
        if task.node is not None:
            return f"on node {task.node.node_id.hex()[:8]}"
        if worker is None:
            return ""
        if worker.pid in self.stopped:
            return f"worker {worker.pid} is stopped (SIGSTOP), as if by a debugger or by Ctrl-Z; SIGCONT resumes it"
        if not worker.pid:
            environment = task.template.environment
            return (
                "its worker is being started, with its runtime environment"
                if environment
                else "its worker is being started"
            )
        ahead = list(worker.outstanding.values())
        place = ahead.index(task)
        actor = worker.actor
        if place and (actor is None or actor.in_order):
            first = ahead[0]
            if actor is None:
                return f"it was sent behind {first.template.name}, which {self._runs(first, worker)}"
            calls = "1 call" if place == 1 else f"{place} calls"
            since = self._since(worker)
            text = (
                f"actor {actor.describe()} is busy with {first.template.name}{since}, {calls} before this one"
            )
            return text + self._what_it_waits_for(first, worker, links)
        text = self._runs(task, worker)
        if actor is not None and not actor.in_order and len(ahead) > 1:
            text = f"it is with actor {actor.describe()}, which has {len(ahead)} calls (worker {worker.pid})"
        return text + self._what_it_waits_for(task, worker, links)

    def _runs(self, task: Task, worker: Worker) -> str:
        verb = "starts" if task.kind == CREATION else "runs"
        return f"{verb} on worker {worker.pid}{self._since(worker)}"

    def _since(self, worker: Worker) -> str:
        """Return how long the first task of a worker has been running."""
        seconds = self.clock.now - worker.progress
        return f" for {seconds:.0f} s" if worker.progress and seconds >= 1 else ""

    def _what_it_waits_for(self, task: Task, worker: Worker, links: int) -> str:
        """Return the cause if a running task itself waits."""
        waits = self.waits.get(worker.cid, {})
        for wait in waits.values():
            if wait.task_id == task.task_id and wait.ids and links > 0:
                oid = next((oid for oid in wait.ids if self.is_pending(oid)), wait.ids[0])
                other = self.tasks.get(oid[:24])
                name = "a value" if other is None else other.template.name
                reason = self.of_object(oid, links - 2) if len(oid) == 28 else ""
                return f", where it waits for {name}{': ' + reason if reason else ''}"
        return ""

    # -- resources

    def _of_queued(self, task: Task, links: int) -> str:
        if task.node is not None:
            return f"on node {task.node.node_id.hex()[:8]}"
        group = self.scheduler.class_of(task)
        if not isinstance(group.strategy, BundleStrategy) and self._needs_new_node(task.template):
            return self._wait_for_autoscaler([_request_of(task.template)])
        if group in self.peers.waiting:
            return "no node has room for it now: " + self._shortage_of_all(task.template.placement)
        strategy = group.strategy
        if isinstance(strategy, BundleStrategy):
            placed = self.placement.groups.get(strategy.group_id)
            if placed is None:
                return "its placement group is not known here"
            name = f"placement group {placed.name or placed.group_id.hex()[:8]}"
            if placed.state != GroupState.CREATED:
                return f"in {name}, which waits: {self.of_group(placed)}"
            pools = [
                pool for (owner, index), pool in self.scheduler.pools.items() if strategy.takes(owner, index)
            ]
            return f"in {name}: {self._shortage(pools[0], group.request)}" if pools else f"in {name}"
        return self._shortage(self.capacity, group.request)

    def _needs_new_node(self, template: Template) -> bool:
        """Return True if no node is large enough, and the cluster can grow."""
        request = _request_of(template)
        return not any(covers(total, request) for total in self.members.totals()) and self.members.can_grow()

    def _wait_for_autoscaler(self, requests: Sequence[dict[str, int]]) -> str:
        """Return the text for requests that wait for the autoscaler, as far as this node knows what that starts."""
        kept = None if self.key_values is None else self.key_values.get(-1, WORKER_NAMESPACE, WORKER_KEY)
        worker = (
            {} if kept is None else {name: round(amount * UNIT) for name, amount in json.loads(kept).items()}
        )
        for request in requests:
            small = [name for name, units in request.items() if worker.get(name, 0) < units]
            if worker and small and not any(covers(total, request) for total in self.members.totals()):
                wanted = ", ".join(f"{name}: {request[name] / UNIT:g}" for name in small)
                has = ", ".join(f"{name}: {worker.get(name, 0) / UNIT:g}" for name in small)
                return (
                    f"it requests {wanted}, which is more than any node has and more than a worker that the autoscaler starts "
                    f"({has}): it will wait until you add a larger node; cancel it, or request less"
                )
        return AUTOSCALER_TEXT

    def _shortage_of_all(self, request: dict[str, int]) -> str:
        """Return the resources missing on the node that could run it when idle."""
        able = [peer for peer in self.members.alive.values() if covers(peer.total, request)]
        if covers(self.capacity.total, request) or not able:
            return self._shortage(self.capacity, request)
        first = able[0]
        short = [name for name, units in request.items() if first.available.get(name, 0) < units]
        if not short:
            return f"it is about to be sent to node {first.node_id.hex()[:8]}"
        name = short[0]
        amounts = [
            human_amount(max(0, units.get(name, 0))) for units in (request, first.available, first.total)
        ]
        others = f" and {len(able) - 1} more" if len(able) > 1 else ""
        return "no {}: {} requested, {} of {} free on node {}{}".format(
            name, *amounts, first.node_id.hex()[:8], others
        )

    def _shortage(self, pool: Capacity, request: dict[str, int]) -> str:
        for name, units in request.items():
            free = pool.available.get(name, 0)
            if free < units:
                total = human_amount(pool.total.get(name, 0))
                text = (
                    f"no {name}: {human_amount(units)} requested, {human_amount(max(free, 0))} of {total} "
                    "free"
                )
                holders = self._holders(pool, name)
                return f"{text} (held by {holders})" if holders else text
        for name, devices in pool.device_pools().items():
            units = request.get(name, 0)
            if units and not devices.fits_after(units, ()):
                text = (
                    f"no {name}: {human_amount(units)} requested, and at most {human_amount(devices.most_free)} "
                    "of one is free"
                )
                holders = self._holders(pool, name)
                return f"{text} (held by {holders})" if holders else text
        if self.scheduler.held is not None:
            return f"held back: memory is short ({self.memory_pressure.gauge.share:.0%} in use)"
        return "no worker is free yet"

    def _holders(self, pool: Capacity, name: str) -> str:
        """Return the current holders of a resource: names, with the number of each."""
        counted: dict[str, int] = {}
        for worker in self.scheduler.workers.values():
            lease = worker.lease
            if lease is None or lease.capacity is not pool or not held_units(lease, name):
                continue
            if worker.actor is not None:
                who = f"actor {worker.actor.describe()}"
            else:
                who = next((task.template.name for task in worker.outstanding.values()), "a worker")
            counted[who] = counted.get(who, 0) + 1
        for group in self.placement.groups.values():
            for _, lease in group.leases.values():
                if lease.capacity is pool and lease.request.get(name):
                    who = f"placement group {group.name or group.group_id.hex()[:8]}"
                    counted[who] = counted.get(who, 0) + 1
        shown = [f"{who} x{count}" if count > 1 else who for who, count in counted.items()]
        more = len(shown) - HOLDERS_SHOWN
        return ", ".join(shown[:HOLDERS_SHOWN]) + (f" and {more} more" if more > 0 else "")

    # -- actors and groups

    def of_actor(self, actor: Actor, links: int = LINKS_MAX) -> str:
        """Return why an actor is not alive, or what it is doing."""
        if actor.state == DEAD:
            return f"actor {actor.describe()} is dead"
        if actor.state == ALIVE:
            worker = actor.worker
            first = next(iter(worker.outstanding.values()), None) if worker is not None else None
            if first is None:
                return f"actor {actor.describe()} has nothing to do"
            return f"actor {actor.describe()}: {first.template.name} {self.of_task(first, links - 1)}"
        creation = actor.creation
        reason = ""
        if creation.task_id in self.tasks and links > 0:
            reason = self.of_task(creation, links - 1)
        elif self._needs_new_node(actor.template):
            reason = self._wait_for_autoscaler([_request_of(actor.template)])
        if actor.state == RESTARTING:
            text = f"actor {actor.describe()} is restarting (for the {ordinal(actor.restarts)} time)"
        else:
            text = f"actor {actor.describe()} has not started yet"
        return f"{text}: {reason}" if reason else text

    def of_group(self, group: Any) -> str:
        """Return why a placement group is not placed; empty if it is."""
        if group.state not in (GroupState.PENDING, GroupState.RESCHEDULING):
            return str(group.why)
        if group.requested:
            return "its nodes are reserving the bundles"
        if group.why and self.members.can_grow():
            return self._wait_for_autoscaler(group.bundles)
        for bundle in group.bundles:
            if not self.capacity.fits(bundle):
                return self._shortage(self.capacity, bundle)
        whole: dict[str, int] = {}
        for bundle in group.bundles:
            for name, units in bundle.items():
                whole[name] = whole.get(name, 0) + units
        return self._shortage(self.capacity, whole)


def _request_of(template: Template) -> dict[str, int]:
    return {**template.request, **template.placement}


def covers(total: dict[str, int], request: dict[str, int]) -> bool:
    """Return True if a request fits into the total resources."""
    return all(total.get(name, 0) >= units for name, units in request.items())


def ordinal(number: int) -> str:
    """Format a number as 1st, 2nd, 3rd, 4th and so on."""
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"
