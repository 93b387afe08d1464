"""Errors of calls that never reach their actor, and the number of retries of a call."""

from __future__ import annotations

from skate.core.actor.actor_table import Actor
from skate.core.task.task import Task
from skate.protocol.fields import ErrorValue


def not_begun(error: ErrorValue) -> ErrorValue:
    """Mark the error as one of a call that has certainly not run, so that another node may retry it."""
    return error[0], {**error[1], "begun": False}


def restarting(actor: Actor, cause: str = "") -> ErrorValue:
    """Return the error of a call without retries that has not begun when its actor restarts; `cause` says why it does."""
    text = (
        f"The actor is temporarily unavailable: the actor is restarting ({actor.describe()}){cause and f': {cause}'}; call it "
        "again later, or raise max_task_retries to have calls wait for it"
    )
    return not_begun(("ActorUnavailableError", {"message": text, "actor_id": actor.actor_id}))


def retries_of(task: Task) -> int:
    """Return the number of retries of a call, as set on its method or else on its actor."""
    option: int | None = task.template.fields.get("max_task_retries")
    retries: int = task.actor.task_retries if option is None else option
    return retries


def unknown_actor(actor_id: bytes) -> ErrorValue:
    """Return the error of a call to an actor that this node does not know."""
    return (
        "ActorDiedError",
        {"message": f"there is no actor {actor_id.hex()}; it may have ended", "actor_id": actor_id},
    )
