"""Actors at work: creation, calls in order, restarts, the end."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from skate.core.actor.actor_table import Actor
from skate.core.schedule.feasibility import refusal
from skate.core.schedule.worker_record import START_FAILED, Worker
from skate.core.task.retry_policy import died_of_memory, put_first
from skate.core.task.task import Task
from skate.core.task.task_manager import cancelled_error
from skate.protocol import messages as m
from skate.protocol.effects import KillWorker
from skate.protocol.fields import ConstructFields, Death, ErrorValue
from skate.protocol.states import (
    ALIVE,
    CREATION,
    DEAD,
    ENDED,
    METHOD,
    PENDING,
    QUEUED,
    RESTARTING,
    SENT,
    WAITING,
)

if TYPE_CHECKING:
    from skate.core.node import NodeCore


def not_begun(error: ErrorValue) -> ErrorValue:
    """The same error, of a call that has certainly not run: it may be made again elsewhere."""
    return error[0], {**error[1], "begun": False}


class ActorManager:
    """Moves the actors of a node, and the calls to them, through their states."""

    def __init__(self, node: NodeCore) -> None:
        self.node = node
        #: Calls wait for an actor that starts again, also those that are not to be tried again.
        self.patient = False

    # -- creation

    def create(self, cid: int, message: m.CreateActor) -> None:
        """CREATE_ACTOR: an actor is born; its constructor runs once arguments and resources are there."""
        _, actor_id, key, args, deps, held, parent, fields = message
        node = self.node
        client = node.clients.get(cid)
        if client is not None and not client.is_driver and not fields.get("detached"):
            node.actors.owned.setdefault(cid, set()).add(actor_id)
        if node.peers.head is not None:
            node.actor_directory.create_at_head(cid, message)
            return
        actor = Actor(
            Task(actor_id, CREATION, cid, node.templates[key], args, deps, held, parent), fields, cid
        )
        actor.holders[cid] = 1
        self.enter(actor)

    def enter(self, actor: Actor) -> None:
        """A new actor: take its arguments, and start it if it can be."""
        node = self.node
        task = actor.creation
        task.actor = actor
        taken = (
            not actor.hosted
            and bool(actor.name)
            and node.actors.named(actor.namespace, actor.name) is not None
        )
        if actor.hosted:  # its name is the head's business
            node.actors.actors[actor.actor_id] = actor
        else:
            node.actors.add(actor)
        node.tasks[actor.actor_id] = task
        node.task_manager.take_arguments(task)
        refused = None if actor.hosted else refusal(node, task)
        if taken:  # by another process, since this one asked
            text = f"The name {actor.name} (namespace={actor.namespace}) is already taken by an actor that lives; choose another"
            refused = ("ActorDiedError", {"message": text})
        if refused is not None:
            self.refuse(task, refused)
        elif not task.missing:
            failed = node.task_manager.failed_argument(task)
            if failed is not None:
                self.arguments_failed(task, failed)
            else:
                node.admit(task)

    def refuse(self, task: Task, error: ErrorValue) -> None:
        """An actor can never be started."""
        self.node.tasks.pop(task.task_id, None)
        self.die(task.actor, error)

    def arguments_failed(self, task: Task, error: ErrorValue) -> None:
        """An argument of the constructor could not be computed: the actor dies before it lives."""
        self.node.tasks.pop(task.task_id, None)
        self.die(task.actor, ("ActorDiedError", {"message": "", "init_error": error, "init_failed": True}))

    def construct(self, task: Task, deps: tuple[Any, ...]) -> None:
        """The actor has a worker: have it run the constructor."""
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
        self.node.emit(
            worker.cid, m.Construct(m.CONSTRUCT, task.task_id, task.template.key, task.args, deps, fields)
        )

    def constructed(self, task: Task, worker: Worker, status: int, returns: Any) -> None:
        """The constructor has ended, well or not."""
        actor = task.actor
        node = self.node
        node.tasks.pop(actor.actor_id, None)
        task.state = WAITING
        task.worker = None
        if status != m.OK:
            fields = {"message": "", "init_error": returns, "init_failed": True}
            worker.leaving = True
            node.emit(worker.cid, m.Exit(m.EXIT, "constructor failed"))
            self.die(actor, ("ActorDiedError", fields))
            return
        actor.state = ALIVE
        if node.peers.active:
            node.actor_directory.report(actor)
        self.flush(actor)
        self.end_if_unwanted(actor)

    def flush(self, actor: Actor) -> None:
        """Send the calls that waited for the actor to be up."""
        queue, actor.queue = actor.queue, deque()
        stalled: dict[int | bytes, list[Task]] = {}
        for call in queue:
            key = actor.lane_of(call)
            if key in stalled:
                call.state = WAITING
                stalled[key].append(call)
            elif not self._send(actor, call):
                stalled[key] = [call]
        for key, calls in stalled.items():
            actor.lanes.setdefault(key, deque()).extendleft(reversed(calls))

    def creation_died(self, task: Task, worker: Worker, reason: str) -> None:
        """The worker was lost before the constructor was sent or answered."""
        task.actor.worker = worker
        self.worker_died(worker, [task], 1 << 62, reason, task.actor)

    # -- calls

    def call(self, cid: int, message: m.Call) -> None:
        """CALL: a method call, in the caller's order unless the actor runs calls side by side."""
        _, task_id, actor_id, key, args, deps, held, parent = message
        node = self.node
        task = Task(task_id, METHOD, cid, node.templates[key], args, deps, held, parent)
        node.tasks[task_id] = task
        self.enter_call(task, actor_id)

    def enter_call(self, task: Task, actor_id: bytes) -> None:
        """A new call: it goes to the actor as soon as it can."""
        node = self.node
        actor = node.actors.actors.get(actor_id)
        if node.peers.active:
            if actor is None:
                actor = node.actor_directory.entry(actor_id)
            if task.origin is not None and actor is not None and not node.actor_directory.is_here(actor):
                actor = None
        task.actor = actor
        if task.deps or task.held:
            node.task_manager.take_arguments(task)
        if actor is not None:
            task.retries = retries_of(task)
            if task.attempt and task.origin is not None:
                task.retries = task.origin["retries"]
        self._line_up(task, actor, actor_id)

    def again(self, task: Task) -> None:
        """A call whose results were lost is made once more, if its actor lives."""
        actor_id: bytes = task.actor.actor_id
        actor = self.node.actors.actors.get(actor_id)
        if actor is None and self.node.peers.active:
            actor = self.node.actor_directory.entry(actor_id)
        if actor is not None:
            task.actor = actor
        self._line_up(task, actor, actor_id)

    def _line_up(self, task: Task, actor: Actor | None, actor_id: bytes) -> None:
        if actor is None or actor.state == DEAD:
            error = actor.death if actor is not None and actor.death else unknown_actor(actor_id)
            self.node.task_manager.fail(task, not_begun(error))
        elif task.missing or (actor.in_order and task.client in actor.lanes):
            actor.lanes.setdefault(actor.lane_of(task), deque()).append(task)
        else:
            self._ready(actor, task)

    def arguments_ready(self, task: Task) -> None:
        """The arguments of a call are there: it may go, and with it those that waited behind it."""
        actor = task.actor
        self._advance(actor, actor.lane_of(task))
        self.end_if_unwanted(actor)

    def _advance(self, actor: Actor, key: int | bytes) -> None:
        """Let the calls at the head of a lane go whose arguments are there."""
        lane = actor.lanes.get(key)
        if lane is None:
            return
        while lane and not lane[0].missing:
            self._ready(actor, lane.popleft())
        if not lane:
            actor.lanes.pop(key, None)

    def _ready(self, actor: Actor, task: Task) -> None:
        failed = self.node.task_manager.failed_argument(task) if task.deps else None
        if failed is not None:
            self.node.task_manager.fail(task, failed)
        elif actor.state == ALIVE and not actor.leaving:
            self._send_or_stall(actor, task)
        elif actor.state == RESTARTING and not (task.retries or task.attempt or self.patient):
            self.node.task_manager.fail(task, restarting(actor))
        else:
            task.state = QUEUED
            actor.queue.append(task)

    def _send_or_stall(self, actor: Actor, task: Task) -> None:
        if not self._send(actor, task):
            actor.lanes.setdefault(actor.lane_of(task), deque()).appendleft(task)

    def _send(self, actor: Actor, task: Task) -> bool:
        """Send a call to the actor; False if it has to wait for an argument that is not here in memory."""
        worker = actor.worker
        if worker is None:
            self.node.task_forwarder.forward(task, actor.node)
            return True
        if task.deps and (self.node.peers.active or self.node.spill_manager.used_once):
            if self.node.remote_objects.bring(task):
                return False
            failed = self.node.task_manager.failed_argument(task)
            if failed is not None:  # it was lost meanwhile, and could not be made again
                self.node.task_manager.fail(task, failed)
                return True
        task.state = SENT
        task.worker = worker
        worker.sent += 1
        task.sequence = worker.sent
        if not worker.outstanding:
            worker.progress = self.node.now
        worker.outstanding[task.task_id] = task
        self.node.task_manager.start(task)
        return True

    def retry(self, task: Task) -> None:
        """Retry a failed call whose caller requested retries for the error."""
        self._ready(task.actor, task)  # which may be on its way out by now

    def answered(self, worker: Worker) -> None:
        """A call has been answered: the actor may be done for good."""
        worker.progress = self.node.now
        if worker.actor is not None and not worker.outstanding:
            self.end_if_unwanted(worker.actor)

    def dequeue(self, task: Task) -> None:
        """Take a call out that was not sent."""
        actor = task.actor
        if task in actor.queue:
            actor.queue.remove(task)
        key = actor.lane_of(task)
        lane = actor.lanes.get(key)
        if lane and task in lane:
            lane.remove(task)
            self._advance(actor, key)

    # -- the end

    def end_if_unwanted(self, actor: Actor) -> None:
        """End an actor that no process can call any more, once its calls are answered."""
        if actor.routed:
            self.node.actor_directory.sync(actor)
            if actor.worker is None:
                return
        if actor.wanted or actor.state == DEAD or actor.leaving or actor.queue or actor.lanes:
            return
        if actor.state == PENDING or actor.state == RESTARTING:
            return
        if actor.worker is not None and actor.worker.outstanding:
            return
        self._leave(actor)
        self.node.emit(actor.worker.cid, m.Exit(m.EXIT, "out of scope"))

    def _leave(self, actor: Actor) -> None:
        """Mark an actor as leaving: its name is released."""
        actor.leaving = True
        actor.worker.leaving = True
        self.node.actors.forget_name(actor)

    def exiting(self, cid: int, message: m.Exiting) -> None:
        """EXITING: the actor leaves by its own will."""
        worker = self.node.scheduler.workers.get(cid)
        if worker is not None and worker.actor is not None and worker.actor.worker is worker:
            self._leave(worker.actor)

    def kill(self, cid: int, message: m.Kill) -> None:
        """KILL: end an actor's process now; with no_restart for good."""
        _, actor_id, no_restart = message
        actor = self.node.actors.actors.get(actor_id)
        if actor is not None:
            self._end(actor, no_restart, "it was killed by ray.kill", "RAY_KILL")

    def owner_died(self, actor_ids: set[bytes]) -> None:
        """The process that made some actors is gone: they end with it."""
        text = "The actor is dead because its owner has died, the process that made it; lifetime='detached' lets it live on"
        for actor_id in sorted(actor_ids):
            actor = self.node.actors.actors.get(actor_id)
            if actor is not None:
                self._end(actor, True, text, "OWNER_DIED")

    def _end(self, actor: Actor, no_restart: bool, text: str, reason: str) -> None:
        if actor.state == DEAD:
            return
        worker = actor.worker
        if worker is not None:
            self.node.shell(KillWorker(worker.cid))
        elif actor.routed and self.node.actor_directory.kill_elsewhere(actor, no_restart):
            return
        if no_restart:
            if worker is None:
                self.node.scheduler.dequeue(actor.creation)
                self.node.tasks.pop(actor.actor_id, None)
            self.die(actor, ("ActorDiedError", {"message": text, "reason": reason}))

    def worker_died(
        self, worker: Worker, tasks: list[Task], begun: int, reason: str, actor: Actor | None = None
    ) -> None:
        """Handle the death of an actor's process: restart it if allowed, and answer every call in progress."""
        actor = actor or worker.actor
        assert actor is not None
        worker.actor = None
        actor.worker = None
        calls = [task for task in tasks if task.kind == METHOD]
        if actor.state == DEAD:
            for task in calls:
                self.node.task_manager.fail(task, actor.death or unknown_actor(actor.actor_id))
            return
        wanted_end = actor.leaving
        again = actor.restarts_max < 0 or actor.restarts < actor.restarts_max
        environment = (
            worker.kill_reason if worker.kill_reason and worker.kill_reason.error in START_FAILED else None
        )
        if wanted_end or not again or environment is not None:
            if wanted_end:
                text = "it has exited by its own will or because nobody could call it any more"
                self.die(actor, ("ActorDiedError", {"message": text, "reason": "INTENDED_USER_EXIT"}), calls)
            elif environment is not None:
                self.die(actor, environment, calls)
            else:
                survival = self.node.retry_policy
                if died_of_memory(worker):
                    for task in [t for t in calls if worker.had_begun(t.sequence, begun) and not t.cancelled]:
                        calls.remove(task)
                        self.node.task_manager.fail(task, survival.call_error(actor, task, worker, reason))
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
                self.node.task_manager.fail(task, cancelled_error(task))
            elif not worker.had_begun(task.sequence, begun):
                kept.append(task)
            elif task.retries:
                task.retries -= task.retries > 0
                task.attempt += 1
                if task.origin is not None:
                    self.node.task_forwarder.tell_retried(task)
                kept.append(task)
            else:
                self.node.task_manager.fail(
                    task, self.node.retry_policy.call_error(actor, task, worker, reason)
                )
        put_first(actor.queue, kept)
        creation = actor.creation
        creation.attempt += 1
        self.node.tasks[actor.actor_id] = creation
        self.node.retry_policy.restart(actor, worker)
        if self.node.peers.active:
            self.node.actor_directory.report(actor)

    def resume_elsewhere(self, actor: Actor, calls: list[Task], reason: str) -> None:
        """The actor starts again on another node: calls that were under way are tried again if they may be."""
        for task in reversed(calls):
            if not task.attempt:
                task.retries = retries_of(task)
            if task.cancelled:
                self.node.task_manager.fail(task, cancelled_error(task))
            elif task.retries:
                task.retries -= task.retries > 0
                task.attempt += 1
                task.state = QUEUED
                actor.queue.appendleft(task)
            else:
                text = (
                    f"the actor {actor.describe()} is restarting: it {reason} while {task.template.name} ran, which may or may "
                    "not have had its effect"
                )
                self.node.task_manager.fail(task, ("ActorUnavailableError", {"message": text}))

    def die(
        self,
        actor: Actor,
        error: ErrorValue,
        calls: list[Task] | None = None,
        early: frozenset[bytes] = frozenset(),
    ) -> None:
        """An actor ends for good: its name is free, every waiting caller is answered; `early` are calls it had not begun."""
        name, fields = error
        fields = {**fields, "actor_id": actor.actor_id, "class_name": actor.class_name, "name": actor.name}
        actor.state = DEAD
        actor.death = Death(name, fields)
        self.node.actors.forget_name(actor)
        if actor.owner in self.node.actors.owned:
            self.node.actors.owned[actor.owner].discard(actor.actor_id)
        if not self.node.peers.active:
            self.node.actors.bury(actor)
        unsent = [*actor.queue, *(task for lane in actor.lanes.values() for task in lane)]
        early = early.union(task.task_id for task in unsent)
        waiting = [*(calls or ()), *unsent]
        actor.queue.clear()
        actor.lanes.clear()
        worker, actor.worker = actor.worker, None
        if worker is not None:
            waiting = [*worker.outstanding.values(), *waiting]
            worker.outstanding.clear()
            self.node.scheduler.end_lease(worker)
        for task in waiting:
            task.state = QUEUED  # all of them first: the end of one may be the argument of another
        actor.creation.state = ENDED
        for task in waiting:
            if task.kind == METHOD:
                died = not_begun(actor.death) if task.task_id in early else actor.death
                self.node.task_manager.fail(task, cancelled_error(task) if task.cancelled else died)
        self.node.task_manager.drop_arguments(actor.creation)
        self.node.tasks.pop(actor.actor_id, None)
        if self.node.peers.active:
            self.node.peers.unwait(actor.creation)
            self.node.task_forwarder.answered(actor.creation)
            self.node.actor_directory.report(actor)
        self.node.scheduler.dispatch_all()


def restarting(actor: Actor) -> ErrorValue:
    """The error of a call that comes while its actor starts again, and which is not to be tried again."""
    text = (
        f"The actor is temporarily unavailable: the actor is restarting ({actor.describe()}); call it again later, or raise "
        "max_task_retries to have calls wait for it"
    )
    return not_begun(("ActorUnavailableError", {"message": text, "actor_id": actor.actor_id}))


def retries_of(task: Task) -> int:
    """How often a call may be tried again, by what its method says, or else its actor."""
    said: int | None = task.template.fields.get("max_task_retries")
    retries: int = task.actor.task_retries if said is None else said
    return retries


def unknown_actor(actor_id: bytes) -> ErrorValue:
    """The error of a call to an actor that this node does not know."""
    return (
        "ActorDiedError",
        {"message": f"there is no actor {actor_id.hex()} (any longer)", "actor_id": actor_id},
    )
