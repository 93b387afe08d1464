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
        rare=True,
    ),
    Bug(
        "a call overtakes one that waits for its argument",
        "skate.core.actor.actor_calls:ActorCalls._line_up",
        "elif task.missing or (actor.in_order and task.client in actor.lanes):",
        "elif task.missing:",
    ),
    Bug(
        "a call to an actor that is still starting goes behind a later one",
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
        "the name of a restarting actor is released",
        "skate.core.actor.actor_manager:ActorManager._restart",
        "actor.state = RESTARTING",
        "actor.state = RESTARTING; self.actors.forget_name(actor)",
    ),
    Bug(
        "a taken name goes to the last claimant",
        "skate.core.cluster.head_actors:HeadActors._enter",
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
        "the last handle goes while the actor is busy, and the actor stays alive",
        "skate.core.actor.actor_calls:ActorCalls.answered",
        "not worker.outstanding",
        "worker.outstanding",
    ),
    Bug(
        "the last handle goes while the actor is being created, and the actor stays alive",
        "skate.core.actor.actor_manager:ActorManager.constructed",
        "self.end_if_unwanted(actor)",
        "pass",
    ),
    Bug(
        "the process that held an actor ends, and the actor stays alive",
        "skate.core.actor.actor_manager:ActorManager.forget_client",
        "self.end_if_unwanted(actor)",
        "pass",
    ),
    Bug(
        "an actor killed with no_restart restarts",
        "skate.core.actor.actor_manager:ActorManager._end",
        "if no_restart:",
        "if no_restart and worker is None:",
    ),
    Bug(
        "an actor that exited on its own restarts",
        "skate.core.actor.actor_manager:ActorManager.worker_died",
        "if wanted_end or not again",
        "if not again",
    ),
    Bug(
        "an exiting actor is sent calls",
        "skate.core.actor.actor_calls:ActorCalls._ready",
        "elif actor.state == ALIVE and not actor.leaving:",
        "elif actor.state == ALIVE:",
        rare=True,
    ),
)
