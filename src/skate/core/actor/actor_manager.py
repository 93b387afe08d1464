"""The lifecycle of actors: creation, restarts, death."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from skate.core.actor.actor_calls import ActorCalls
from skate.core.actor.actor_table import Actor, ActorTable
from skate.core.actor.call_errors import not_begun, restarting, retries_of, unknown_actor
from skate.core.cluster.membership import Peer
from skate.core.object.object_table import ObjectTable
from skate.core.schedule.scheduler import Scheduler
from skate.core.schedule.worker_record import CONSTRUCTOR_FAILED, OUT_OF_SCOPE, START_FAILED, Ending, Worker
from skate.core.task.function_table import FunctionTable
from skate.core.task.retry_policy import RetryPolicy, died_of_memory, put_first
from skate.core.task.task import Task
from skate.core.task.task_manager import TaskManager, cancelled_error
from skate.protocol import messages as m
from skate.protocol.effects import KillWorker
from skate.protocol.fields import ConstructFields, Death, ErrorValue
from skate.protocol.states import (
    ALIVE,
    DEAD,
    ENDED,
    METHOD,
    PENDING,
    QUEUED,
    RESTARTING,
    WAITING,
)


class Cluster(Protocol):
    """The operations on other nodes that this module needs."""

    def actor_ended(self, actor: Actor) -> None:
        """Handle the permanent end of an actor."""

    def actor_died(self, actor: Actor) -> None:
        """Forget the actors that died longest ago, unless another node may ask for them."""

    def task_retried(self, task: Task) -> None:
        """Handle the retry of a task that a peer forwarded here."""


class Registry(Protocol):
    """The actors of the cluster, on this node or through the head."""

    def create_actor(self, cid: int, message: m.CreateActor) -> None:
        """Register an actor of a program on this node."""

    def entry(self, actor_id: bytes) -> Actor | None:
        """Return the actor with an id that is not known here, or None."""

    def sync_actor(self, actor: Actor) -> None:
        """Report to the node that counts an actor's holders whether it is held here."""

    def report_actor(self, actor: Actor) -> None:
        """Report a changed state of an actor."""

    def actor_died(self, actor: Actor) -> None:
        """Handle the permanent end of an actor."""

    def actor_starts(self, actor: Actor, construct: Callable[[], None]) -> None:
        """Call `construct` when it is stored that the constructor of an actor may have begun here."""

    def actor_ends(self, actor: Actor, end: Callable[[], None]) -> None:
        """Call `end` when it is stored that an actor is to end for good."""

    def kill_elsewhere(self, actor: Actor, no_restart: bool) -> bool:
        """Pass on the KILL of an actor without a worker here; return True if nothing is left to do here."""


class ActorManager:
    """Manages the actors of a node from creation to death."""

    def __init__(
        self,
        actors: ActorTable,
        calls: ActorCalls,
        task_manager: TaskManager,
        cluster: Cluster,
        here: Peer,
    ) -> None:
        self.here = here
        self.actors = actors
        self.calls = calls
        self.task_manager = task_manager
        self.tasks = task_manager.tasks
        self.clients = task_manager.clients
        self.clock = task_manager.clock
        self.emit, self.shell = task_manager.out.emit, task_manager.out.shell
        self.cluster = cluster
        self.registry: Registry
        self.scheduler: Scheduler
        self.retry_policy: RetryPolicy
        self.objects: ObjectTable
        #: This node leaves its cluster: actors restart elsewhere.
        self.node_leaves = False

    def connect(
        self,
        scheduler: Scheduler,
        objects: ObjectTable,
        functions: FunctionTable,
        retries: RetryPolicy,
    ) -> None:
        """Set the dependencies that are built later and call back."""
        self.scheduler = scheduler
        self.objects = objects
        self.templates = functions.templates
        self.retry_policy = retries

    # -- creation

    def create(self, cid: int, message: m.CreateActor) -> None:
        """CREATE_ACTOR: add an actor; its constructor runs once its arguments and resources are available."""
        _, actor_id, _, _, _, _, _, fields = message
        client = self.clients.get(cid)
        if client is not None and not client.is_driver and not fields.get("detached"):
            self.actors.owned.setdefault(cid, set()).add(actor_id)
        self.registry.create_actor(cid, message)

    def enter(self, actor: Actor, refused: ErrorValue | None = None) -> None:
        """Pin a new actor's arguments, and start it if possible; `refused` says why it can never start."""
        task = actor.creation
        task.actor = actor
        task.since = self.task_manager.clock.now
        self.tasks[actor.actor_id] = task
        self.task_manager.take_arguments(task)
        if refused is not None:
            self.refuse(task, refused)
        elif not task.missing:
            failed = self.objects.failed_argument(task)
            if failed is not None:
                self.arguments_failed(task, failed)
            else:
                self.task_manager.admit(task)

    def refuse(self, task: Task, error: ErrorValue) -> None:
        """Fail an actor that can never start."""
        self.tasks.pop(task.task_id, None)
        self.die(task.actor, error)

    def arguments_failed(self, task: Task, error: ErrorValue) -> None:
        """End an actor because an argument of its constructor failed."""
        self.tasks.pop(task.task_id, None)
        self.die(task.actor, ("ActorDiedError", {"message": "", "init_error": error, "init_failed": True}))

    def construct(self, task: Task, deps: tuple[Any, ...]) -> None:
        """Send the constructor to the actor's worker."""
        actor = task.actor
        worker = task.worker
        actor.worker = worker
        worker.actor = actor
        fields: ConstructFields = {
            "name": actor.name,
            "namespace": actor.namespace,
            "restarts": actor.restarts,
            "task_retries": actor.task_retries,
        }
        error = task.error
        task.error = None
        if error is not None:
            fields["failed"] = error
        message = m.Construct(m.CONSTRUCT, task.task_id, task.template.key, task.args, deps, fields)

        def construct() -> None:
            if actor.worker is worker:
                self.emit(worker.cid, message)

        self.registry.actor_starts(actor, construct)

    def constructed(self, task: Task, worker: Worker, status: int, returns: Any) -> None:
        """Handle the end of the constructor, with or without an error."""
        actor = task.actor
        self.tasks.pop(actor.actor_id, None)
        task.state = WAITING
        task.worker = None
        if status != m.OK:
            fields = {"message": "", "init_error": returns, "init_failed": True}
            worker.leaving = True
            worker.ending = CONSTRUCTOR_FAILED
            self.emit(worker.cid, m.Exit(m.EXIT, "constructor failed"))
            self.die(actor, ("ActorDiedError", fields))
            return
        actor.state = ALIVE
        self.registry.report_actor(actor)
        self.calls.flush(actor)
        self.end_if_unwanted(actor)

    def creation_died(self, task: Task, worker: Worker, reason: str) -> None:
        """Handle the loss of a worker before its constructor was sent or finished."""
        task.actor.worker = worker
        self.worker_died(worker, [task], 1 << 62, reason, task.actor)

    # -- holders

    def pin(self, actor_id: bytes, change: int) -> None:
        """Count a pin: something other than a process keeps an actor."""
        actor = self.actors.actors.get(actor_id) or self.registry.entry(actor_id)
        if actor is not None:
            actor.pins += change
            if change > 0 and actor.routed:
                self.registry.sync_actor(actor)
            if change < 0:
                self.end_if_unwanted(actor)

    def grant(self, cid: int, actor_id: bytes) -> None:
        """Count one more hold of a process."""
        actor = self.actors.actors.get(actor_id) or self.registry.entry(actor_id)
        if actor is not None:
            actor.holders[cid] = actor.holders.get(cid, 0) + 1
            if actor.routed:
                self.registry.sync_actor(actor)

    def free(self, cid: int, actor_id: bytes, grants: int) -> None:
        """Take back holds that a process releases."""
        actor = self.actors.actors.get(actor_id)
        if actor is None:
            return
        left = actor.holders.get(cid, 0) - grants
        if left > 0:
            actor.holders[cid] = left
        else:
            actor.holders.pop(cid, None)
            self.end_if_unwanted(actor)

    def forget_client(self, cid: int) -> None:
        """Release the holds of a process that has ended."""
        for actor in [each for each in self.actors.actors.values() if cid in each.holders]:
            del actor.holders[cid]
            self.end_if_unwanted(actor)

    # -- death

    def end_if_unwanted(self, actor: Actor) -> None:
        """End an actor that no process can call any longer, once its calls are answered."""
        if actor.routed:
            self.registry.sync_actor(actor)
            if actor.worker is None:
                return
        if actor.wanted or actor.state == DEAD or actor.leaving or actor.queue or actor.lanes:
            return
        if actor.state == PENDING or actor.state == RESTARTING:
            return
        if actor.worker is not None and actor.worker.outstanding:
            return
        self._leave(actor, OUT_OF_SCOPE)
        self.emit(actor.worker.cid, m.Exit(m.EXIT, "out of scope"))

    def _leave(self, actor: Actor, ending: Ending) -> None:
        """Mark an actor as leaving, and release its name."""
        actor.leaving = True
        actor.worker.ending = ending
        actor.worker.leaving = True
        self.actors.forget_name(actor)

    def exiting(self, cid: int, message: m.Exiting) -> None:
        """EXITING: an actor exits on its own."""
        _, how = message
        worker = self.scheduler.workers.get(cid)
        if worker is not None and worker.actor is not None and worker.actor.worker is worker:
            self._leave(worker.actor, Ending("INTENDED_USER_EXIT", f"its actor exited on its own, by {how}"))

    def kill(self, cid: int, message: m.Kill) -> None:
        """KILL: end an actor's process now, and permanently if `no_restart` is set."""
        _, actor_id, no_restart = message
        actor = self.actors.actors.get(actor_id)
        if actor is not None:
            text = "The actor is dead because it was killed by `ray.kill`"
            if no_restart:
                self.registry.actor_ends(actor, partial(self._end, actor, True, text, "RAY_KILL"))
            else:
                self._end(actor, False, text, "RAY_KILL")

    def owner_died(self, actor_ids: set[bytes]) -> None:
        """End the actors whose owner process has ended."""
        text = (
            "The actor is dead because its owner has died, the process that created it; "
            "lifetime='detached' keeps it alive"
        )
        for actor_id in sorted(actor_ids):
            actor = self.actors.actors.get(actor_id)
            if actor is not None:
                self.registry.actor_ends(actor, partial(self._end, actor, True, text, "OWNER_DIED"))

    def _end(self, actor: Actor, no_restart: bool, text: str, reason: str) -> None:
        if actor.state == DEAD:
            return
        worker = actor.worker
        if worker is not None:
            worker.ending = Ending("INTENDED_SYSTEM_EXIT", text)
            self.shell(KillWorker(worker.cid))
        elif actor.routed and self.registry.kill_elsewhere(actor, no_restart):
            return
        if no_restart:
            if worker is None:
                self.scheduler.dequeue(actor.creation)
                self.tasks.pop(actor.actor_id, None)
            host, pid = (self.here, worker.pid) if worker is not None else (actor.node, actor.pid)
            place = {} if host is None else host.location(pid)
            self.die(actor, ("ActorDiedError", {"message": text, "reason": reason, **place}))

    def worker_died(
        self, worker: Worker, tasks: list[Task], begun: int, reason: str, actor: Actor | None = None
    ) -> None:
        """Handle the death of an actor's process: restart the actor if allowed, and answer every call in progress."""
        actor = actor or worker.actor
        assert actor is not None
        worker.actor = None
        actor.worker = None
        calls = [task for task in tasks if task.kind == METHOD]
        if actor.state == DEAD:
            for task in calls:
                self.task_manager.fail(task, actor.death or unknown_actor(actor.actor_id))
            return
        if self.node_leaves:
            actor.state = RESTARTING  # on another node
            return
        wanted_end = actor.leaving
        again = actor.restarts_max < 0 or actor.restarts < actor.restarts_max
        environment = (
            worker.kill_reason if worker.kill_reason and worker.kill_reason.error in START_FAILED else None
        )
        if wanted_end or not again or environment is not None:
            if wanted_end:
                text = worker.ending.detail if worker.ending else "it exited on its own"
                fields = {"message": text, "reason": "INTENDED_USER_EXIT", **self.here.location(worker.pid)}
                self.die(actor, ("ActorDiedError", fields), calls)
            elif environment is not None:
                self.die(actor, environment, calls)
            else:
                survival = self.retry_policy
                if died_of_memory(worker):
                    for task in [t for t in calls if worker.had_begun(t.sequence, begun) and not t.cancelled]:
                        calls.remove(task)
                        self.task_manager.fail(task, survival.call_error(actor, task, worker, reason))
                early = frozenset(t.task_id for t in calls if not worker.had_begun(t.sequence, begun))
                self.die(actor, survival.death(actor, worker, reason), calls, early)
            return
        self._restart(actor, calls, begun, reason, worker)

    def _restart(self, actor: Actor, calls: list[Task], begun: int, reason: str, worker: Worker) -> None:
        actor.state = RESTARTING
        actor.restarts += 1
        kept = []
        for task in calls:
            if task.cancelled:
                self.task_manager.fail(task, cancelled_error(task))
            elif not worker.had_begun(task.sequence, begun):
                if self.calls.waits_for_restart(task):
                    kept.append(task)
                else:  # as one that arrives a moment later
                    self.task_manager.fail(
                        task, restarting(actor, f"its process {reason} before the call began")
                    )
            elif task.retries:
                task.retries -= task.retries > 0
                self.task_manager.count_attempt(task)
                if task.origin is not None:
                    self.cluster.task_retried(task)
                kept.append(task)
            else:
                self.task_manager.fail(task, self.retry_policy.call_error(actor, task, worker, reason))
        put_first(actor.queue, kept)
        creation = actor.creation
        creation.attempt += 1
        creation.since = self.task_manager.clock.now
        self.tasks[actor.actor_id] = creation
        self.retry_policy.restart(actor, worker)
        self.registry.report_actor(actor)

    def resume_elsewhere(self, actor: Actor, calls: list[Task], reason: str) -> None:
        """Continue an actor that restarts on another node: retry the calls in progress that allow it."""
        for task in reversed(calls):
            if not task.attempt:
                task.retries = retries_of(task)
            if task.cancelled:
                self.task_manager.fail(task, cancelled_error(task))
            elif task.retries:
                task.retries -= task.retries > 0
                self.task_manager.count_attempt(task)
                task.state = QUEUED
                actor.queue.appendleft(task)
            else:
                text = (
                    f"the actor {actor.describe()} is restarting: it {reason} while "
                    f"{task.template.name} ran, so the call may or may not have taken effect"
                )
                self.task_manager.fail(task, ("ActorUnavailableError", {"message": text}))

    def die(
        self,
        actor: Actor,
        error: ErrorValue,
        calls: list[Task] | None = None,
        early: frozenset[bytes] = frozenset(),
    ) -> None:
        """End an actor for good: free its name and answer all waiting callers; it had not begun the calls in `early`."""
        name, fields = error
        fields = {**fields, "actor_id": actor.actor_id, "class_name": actor.class_name, "name": actor.name}
        actor.state = DEAD
        actor.death = Death(name, fields)
        self.actors.forget_name(actor)
        if actor.owner in self.actors.owned:
            self.actors.owned[actor.owner].discard(actor.actor_id)
        self.cluster.actor_died(actor)
        self.registry.actor_died(actor)
        lined = [task for lane in actor.lanes.values() for task in lane]
        for task in lined:
            task.template.lined -= 1
        unsent = [*actor.queue, *lined]
        early = early.union(task.task_id for task in unsent)
        waiting = [*(calls or ()), *unsent]
        actor.queue.clear()
        actor.lanes.clear()
        worker, actor.worker = actor.worker, None
        if worker is not None:
            for task in worker.outstanding.values():
                if task.kind == METHOD:
                    task.left_actor()
            waiting = [*worker.outstanding.values(), *waiting]
            worker.outstanding.clear()
            self.scheduler.end_lease(worker)
        for task in waiting:
            task.state = QUEUED  # all of them first, since one call may be an argument of another
        actor.creation.state = ENDED
        for task in waiting:
            if task.kind == METHOD:
                died = not_begun(actor.death) if task.task_id in early else actor.death
                self.task_manager.fail(task, cancelled_error(task) if task.cancelled else died)
        self.task_manager.drop_arguments(actor.creation)
        self.tasks.pop(actor.actor_id, None)
        self.cluster.actor_ended(actor)
        self.scheduler.dispatch_all()
