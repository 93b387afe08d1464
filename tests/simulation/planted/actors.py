"""Actors: the order of their calls, their names, their end."""

from __future__ import annotations

from tests.simulation.planted.bug import Bug

BOTH = ("node", "cluster")
CLUSTER = ("cluster",)

BUGS = (
    Bug(
        "calls that had not begun come back in another order after a restart",
        "skate.core.task.retry_policy:put_first",
        "extendleft(reversed(tasks))",
        "extendleft(tasks)",
    ),
    Bug(
        "a call overtakes one that waits for its argument",
        "skate.core.actor.actor_calls:ActorCalls._line_up",
        "elif task.missing or (actor.in_order and task.client in actor.lanes):",
        "elif task.missing:",
    ),
    Bug(
        "a call goes behind one that came later when the actor is not up yet",
        "skate.core.actor.actor_calls:ActorCalls._ready",
        "actor.queue.append(task)",
        "actor.queue.appendleft(task)",
    ),
    Bug(
        "the name of a dead actor is kept",
        "skate.core.actor.actor_manager:ActorManager.die",
        "self.actors.forget_name(actor)",
        "pass",
    ),
    Bug(
        "the name of an actor that restarts is free for others",
        "skate.core.actor.actor_manager:ActorManager._restart",
        "actor.state = RESTARTING",
        "actor.state = RESTARTING; self.actors.forget_name(actor)",
    ),
    Bug(
        "a name that is taken goes to the last who asks for it",
        "skate.core.actor.actor_manager:ActorManager.enter",
        "if taken:",
        "if taken and not actor.name:",
    ),
    Bug(
        "an actor that leaves is still found by its name",
        "skate.core.actor.actor_manager:ActorManager._leave",
        "self.actors.forget_name(actor)",
        "pass",
    ),
    Bug(
        "an actor is ended while a handle to it is inside an object",
        "skate.core.actor.actor_table:Actor.wanted",
        " or self.pins > 0",
        "",
        BOTH,
        rare=True,
    ),
    Bug(
        "a detached actor is ended when its last handle goes",
        "skate.core.actor.actor_table:Actor.wanted",
        "self.detached or ",
        "",
    ),
    Bug(
        "an actor is ended while calls to it wait for arguments",
        "skate.core.actor.actor_manager:ActorManager.end_if_unwanted",
        " or actor.queue or actor.lanes",
        " or actor.queue",
    ),
    Bug(
        "an actor is ended while a call to it runs",
        "skate.core.actor.actor_manager:ActorManager.end_if_unwanted",
        "if actor.worker is not None and actor.worker.outstanding:",
        "if actor.worker is None:",
    ),
    Bug(
        "the last handle goes while the actor is busy, and it lives on",
        "skate.core.actor.actor_calls:ActorCalls.answered",
        "not worker.outstanding",
        "worker.outstanding",
    ),
    Bug(
        "the last handle goes while the actor is being made, and it lives on",
        "skate.core.actor.actor_manager:ActorManager.constructed",
        "self.end_if_unwanted(actor)",
        "pass",
    ),
    Bug(
        "the process that held an actor is gone, and the actor lives on",
        "skate.core.actor.actor_manager:ActorManager.forget_client",
        "if actor.holders.pop(cid, None) is not None:",
        "if actor.holders.pop(cid, None) is None:",
    ),
    Bug(
        "an actor that was killed for good restarts",
        "skate.core.actor.actor_manager:ActorManager._end",
        "if no_restart:",
        "if no_restart and worker is None:",
    ),
    Bug(
        "an actor that left by its own will restarts",
        "skate.core.actor.actor_manager:ActorManager.worker_died",
        "if wanted_end or not again",
        "if not again",
    ),
    Bug(
        "an actor on its way out is sent calls",
        "skate.core.actor.actor_calls:ActorCalls._ready",
        "elif actor.state == ALIVE and not actor.leaving:",
        "elif actor.state == ALIVE:",
        rare=True,
    ),
)
