"""The errors of calls that never reach their actor, and how often a call may be tried again."""

from __future__ import annotations

from skate.core.actor.actor_table import Actor
from skate.core.task.task import Task
from skate.protocol.fields import ErrorValue


def not_begun(error: ErrorValue) -> ErrorValue:
    """The same error, of a call that has certainly not run: it may be made again elsewhere."""
    return error[0], {**error[1], "begun": False}


def restarting(actor: Actor) -> ErrorValue:
    """The error of a call that comes while its actor starts again, and which is not to be tried again."""
    text = (
        f"The actor is temporarily unavailable: the actor is restarting ({actor.describe()}); call it again later, or raise "
        "max_task_retries to have calls wait for it"
    )
    return not_begun(("ActorUnavailableError", {"message": text, "actor_id": actor.actor_id}))


def retries_of(task: Task) -> int:
    """Return how often a call may be tried again, by what its method says, or else its actor."""
    said: int | None = task.template.fields.get("max_task_retries")
    retries: int = task.actor.task_retries if said is None else said
    return retries


def unknown_actor(actor_id: bytes) -> ErrorValue:
    """Return the error of a call to an actor that this node does not know."""
    return (
        "ActorDiedError",
        {"message": f"there is no actor {actor_id.hex()} (any longer)", "actor_id": actor_id},
    )
