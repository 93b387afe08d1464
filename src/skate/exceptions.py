"""Everything that Skate raises on its own account, by whose act it was: the remote code's, the caller's, the machine's, ours.

The names, bases and constructors are those of ``ray.exceptions``, so programs catch what they always caught.
"""

from __future__ import annotations

from skate.core.error.task_error import RayError as RayError
from skate.core.error.task_error import RayTaskError as RayTaskError
from skate.core.error.task_error import UnserializableException as UnserializableException

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def _said(error: RayError, default: str) -> str:
    return str(error.args[0]) if error.args else default


# ---------------------------------------------------------------- the remote code's act (and RayTaskError)


class UserCodeException(RayError):
    """A function given to Skate Data raised an exception; the cause holds it."""


class RayActorError(RayError):
    """An actor failed before it finished this call.

    Attributes: actor_id (hex, or None), error_msg, actor_init_failed (the constructor raised), preempted (its
    machine was taken away with notice).
    """

    BASE_ERROR_MSG = "The actor experienced an error before finishing this task."

    def __init__(
        self,
        actor_id: str | None = None,
        error_msg: str = BASE_ERROR_MSG,
        actor_init_failed: bool = False,
        preempted: bool = False,
    ) -> None:
        self.actor_id = actor_id
        self.error_msg = error_msg
        self._actor_init_failed = actor_init_failed
        self._preempted = preempted

    @property
    def actor_init_failed(self) -> bool:
        """True if the actor's constructor raised."""
        return self._actor_init_failed

    @property
    def preempted(self) -> bool:
        """True if the actor's machine was preempted with notice."""
        return self._preempted

    def __str__(self) -> str:
        return self.error_msg


class ActorDeath:
    """The known facts about an actor's death; the usual cause of an ActorDiedError.

    `reason` is one of "CREATION_FAILED", "WORKER_DIED", "NODE_DIED", "OWNER_DIED", "RAY_KILL",
    "OUT_OF_SCOPE", "REF_DELETED", "INTENDED_USER_EXIT", "UNSCHEDULABLE" or "".
    """

    __slots__ = (
        "actor_id",
        "class_name",
        "error_message",
        "name",
        "never_started",
        "node_id",
        "node_ip_address",
        "pid",
        "preempted",
        "ray_namespace",
        "reason",
    )

    def __init__(
        self,
        error_message: str = "",
        *,
        actor_id: str = "",
        class_name: str = "",
        name: str = "",
        ray_namespace: str = "",
        pid: int = 0,
        node_id: str = "",
        node_ip_address: str = "",
        never_started: bool = False,
        preempted: bool = False,
        reason: str = "",
    ) -> None:
        self.error_message = error_message
        self.actor_id = actor_id
        self.class_name = class_name
        self.name = name
        self.ray_namespace = ray_namespace
        self.pid = pid
        self.node_id = node_id
        self.node_ip_address = node_ip_address
        self.never_started = never_started
        self.preempted = preempted
        self.reason = reason

    def __repr__(self) -> str:
        known = ", ".join(f"{k}={getattr(self, k)!r}" for k in self.__slots__ if getattr(self, k))
        return f"ActorDeath({known})"

    def describe(self) -> str:
        """Describe the death: the actor, the cause, and whether it had ever run."""
        who = f"The actor {self.class_name}" if self.class_name else "The actor"
        facts = [f"actor_id={self.actor_id}"] if self.actor_id else []
        if self.name:
            facts.append(f"name={self.name!r}")
        if self.ray_namespace:
            facts.append(f"namespace={self.ray_namespace!r}")
        if self.pid:
            facts.append(f"pid={self.pid}")
        if self.node_ip_address:
            facts.append(f"ip={self.node_ip_address}")
        if facts:
            who += f" ({', '.join(facts)})"
        text = f"{who} {'died before it started' if self.never_started else 'is dead'}"
        if self.reason:
            text += f" [{self.reason}]"
        text += f": {self.error_message}" if self.error_message else "."
        if self.preempted:
            text += " Its machine was taken away with notice (preempted)."
        return text


class ActorDiedError(RayActorError):
    """An actor is dead for good: killed, crashed with no restart left, or failed in its constructor.

    `cause` is the constructor's RayTaskError, an `ActorDeath`, a sentence, or None when nothing is known.
    """

    BASE_ERROR_MSG = "The actor died unexpectedly before finishing this task."

    def __init__(self, cause: RayTaskError | ActorDeath | str | None = None) -> None:
        self.cause = cause
        if isinstance(cause, RayTaskError):
            text = (
                f"The actor died because of an error raised in its creation task (its constructor):\n{cause}"
            )
            super().__init__(cause.actor_id, text, actor_init_failed=True)
        elif isinstance(cause, ActorDeath):
            super().__init__(cause.actor_id or None, cause.describe(), preempted=cause.preempted)
        else:
            super().__init__(None, cause or self.BASE_ERROR_MSG)

    @staticmethod
    def from_task_error(task_error: RayTaskError) -> ActorDiedError:
        """The death of an actor whose constructor failed with `task_error`."""
        return ActorDiedError(task_error)


class ActorUnavailableError(RayActorError):
    """An actor cannot be reached at the moment (for example, it is restarting); a later call may succeed."""

    def __init__(self, error_message: str, actor_id: bytes | None) -> None:
        hex_id = actor_id.hex() if isinstance(actor_id, bytes) else None
        who = f"actor {hex_id}" if hex_id else "actor"
        text = f"The {who} is unavailable: {error_message}. The task may or may not have been executed on the actor."
        super().__init__(hex_id, text)
        self.error_message = error_message


class AsyncioActorExit(RayError):
    """Ends an asyncio actor from inside; raised by ``exit_actor()``."""


class CrossLanguageError(RayError):
    """An exception from code in another language."""

    def __init__(self, ray_exception: Any) -> None:
        text = getattr(ray_exception, "formatted_exception_string", ray_exception)
        super().__init__(f"Code in another language raised an exception:\n{text}")


# ---------------------------------------------------------------- the caller's act


class TaskCancelledError(RayError):
    """The task was cancelled. Attributes: task_id (or None), error_message."""

    def __init__(self, task_id: object = None, error_message: str | None = None) -> None:
        self.task_id = task_id
        self.error_message = error_message

    def __str__(self) -> str:
        text = f"The task {self.task_id} was cancelled." if self.task_id else "The task was cancelled."
        return f"{text} {self.error_message}" if self.error_message else text


class GetTimeoutError(RayError, TimeoutError):
    """``get`` waited for its timeout and the value was not there."""


class PendingCallsLimitExceeded(RayError):
    """The actor has as many waiting calls as its ``max_pending_calls`` allows."""


class ActorAlreadyExistsError(ValueError, RayError):
    """An actor of this name already lives in this namespace."""

    def __init__(self, error_message: str) -> None:
        super().__init__(error_message)
        self.error_message = error_message

    def __str__(self) -> str:
        return self.error_message


class ActorHandleNotFoundError(ValueError, RayError):
    """The handle belongs to no actor of this session."""

    def __init__(self, error_message: str) -> None:
        super().__init__(error_message)
        self.error_message = error_message

    def __str__(self) -> str:
        return self.error_message


class AuthenticationError(RayError):
    """The token was missing or wrong."""

    def __init__(self, message: str) -> None:
        self.message = message
        # What the transport raised says nothing more to the user.
        self.__suppress_context__ = True

    def __str__(self) -> str:
        return self.message


class TaskUnschedulableError(RayError):
    """The task asks for what this cluster can never give."""

    def __init__(self, error_message: str) -> None:
        self.error_message = error_message

    def __str__(self) -> str:
        return f"The task is not schedulable: {self.error_message}"


class ActorUnschedulableError(RayError):
    """The actor asks for what this cluster can never give."""

    def __init__(self, error_message: str) -> None:
        self.error_message = error_message

    def __str__(self) -> str:
        return f"The actor is not schedulable: {self.error_message}"


class TaskPlacementGroupRemoved(RayError):
    """The placement group that the task was to run in, or ran in, was removed."""

    def __str__(self) -> str:
        return _said(self, "The placement group corresponding to this task has been removed.")


class ActorPlacementGroupRemoved(RayError):
    """The placement group that the actor was to live in, or lived in, was removed."""

    def __str__(self) -> str:
        return _said(self, "The placement group corresponding to this Actor has been removed.")


class RuntimeEnvSetupError(RayError):
    """The runtime environment could not be set up; `error_message` says why."""

    def __init__(self, error_message: str | None = None) -> None:
        self.error_message = error_message

    def __str__(self) -> str:
        text = "The runtime environment could not be set up"
        return f"{text}: {self.error_message}" if self.error_message else f"{text}."


class OufOfBandObjectRefSerializationException(RayError):  # sic: the name is public
    """An ObjectRef was pickled outside of Skate, which cannot keep its value alive."""


class ObjectRefStreamEndOfStreamError(RayError):
    """A streaming generator has no more refs."""


# ---------------------------------------------------------------- the machine's act


class WorkerCrashedError(RayError):
    """The worker process died while it ran the task (a signal, ``os._exit``, a segfault)."""

    def __str__(self) -> str:
        return _said(self, "The worker died unexpectedly while executing this task.")


class LocalRayletDiedError(RayError):
    """The node that this process belongs to died."""

    def __str__(self) -> str:
        return _said(self, "The node that this process belongs to died.")


class NodeDiedError(RayError):
    """A node died."""

    def __init__(self, message: str) -> None:
        self.message = message

    def __str__(self) -> str:
        return self.message


class OutOfMemoryError(RayError):
    """The task's worker was ended because its node ran short of memory."""

    def __init__(self, message: str) -> None:
        self.message = message

    def __str__(self) -> str:
        return self.message


class OutOfDiskError(RayError):
    """The local disk is full, so the value could not be spilled."""

    def __str__(self) -> str:
        return super().__str__() or "The disk is full; free space on it, or point spilling elsewhere."


class ObjectStoreFullError(RayError):
    """The object store is full of values in use."""

    def __str__(self) -> str:
        advice = (
            "The object store is full and everything in it is in use; drop refs that are no longer needed, "
            "or start with init(object_store_memory=...) larger."
        )
        return super().__str__() or advice


class PlasmaObjectNotAvailable(RayError):
    """The value was not in the object store in time."""


class ObjectLostError(RayError):
    """A value is lost and cannot be fetched. Attributes: object_ref_hex, owner_address, call_site."""

    _why = "all copies of it have been lost due to node failure"
    detail = ""

    def __init__(self, object_ref_hex: str, owner_address: bytes | None = None, call_site: str = "") -> None:
        self.object_ref_hex = object_ref_hex
        self.owner_address = owner_address
        self.call_site = call_site

    def _reason(self) -> str:
        return f"{self._why} ({self.detail})" if self.detail else self._why

    def __str__(self) -> str:
        made = f" (made at {self.call_site})" if self.call_site else ""
        return f"Failed to retrieve object {self.object_ref_hex}{made}: {self._reason()}."


class ObjectFetchTimedOutError(ObjectLostError):
    """No node reported in time that it holds the value."""

    _why = "no node said in time that it holds it"


class ObjectFreedError(ObjectLostError):
    """The program freed the value by hand."""

    _why = "the program freed it by hand while this ref was still in use"


class OwnerDiedError(ObjectLostError):
    """The process that owned the value died, and with it the record of the value."""

    _why = "its owner, the process that made it, has died"


class ReferenceCountingAssertionError(ObjectLostError, AssertionError):
    """The value was freed although a ref to it was left: a bug in Skate."""

    _why = "it was freed although a ref to it was left, which is a bug in Skate"


class ObjectReconstructionFailedError(ObjectLostError):
    """The value was lost and could not be reconstructed; `reason` (a name) and `reason_message` explain it."""

    REASON_MESSAGES = {
        "OBJECT_UNRECONSTRUCTABLE_MAX_ATTEMPTS_EXCEEDED": "its task ran again as often as max_retries allows",
        "OBJECT_UNRECONSTRUCTABLE_LINEAGE_EVICTED": "the record of its making was dropped to save memory",
        "OBJECT_UNRECONSTRUCTABLE_PUT": "it came from put(), so no task can make it again",
        "OBJECT_UNRECONSTRUCTABLE_RETRIES_DISABLED": "its task has max_retries=0; more would allow it",
        "OBJECT_UNRECONSTRUCTABLE_BORROWED": "only its owner can have it made again, not a borrower",
        "OBJECT_UNRECONSTRUCTABLE_REF_NOT_FOUND": "its owner no longer knows it",
        "OBJECT_UNRECONSTRUCTABLE_TASK_CANCELLED": "the task that would make it was cancelled",
        "OBJECT_UNRECONSTRUCTABLE_LINEAGE_DISABLED": "making lost values again is switched off",
    }

    def __init__(
        self,
        object_ref_hex: str,
        reason: str | None = None,
        reason_message: str | None = None,
        owner_address: bytes | None = None,
        call_site: str = "",
    ) -> None:
        super().__init__(object_ref_hex, owner_address, call_site)
        self.reason = reason
        self.reason_message = reason_message or self.REASON_MESSAGES.get(reason or "", "no reason is known")

    def _reason(self) -> str:
        return f"it was lost, and {self.reason_message}"


class RpcError(RayError):
    """A message to another process could not be delivered. Attributes: message, rpc_code."""

    def __init__(self, message: str, rpc_code: int | None = None) -> None:
        self.message = message
        self.rpc_code = rpc_code

    def __str__(self) -> str:
        return self.message


# ---------------------------------------------------------------- ours


class RaySystemError(RayError):
    """Skate itself failed. Attributes: client_exc (an exception or a sentence), traceback_str."""

    def __init__(self, client_exc: object, traceback_str: str | None = None) -> None:
        self.client_exc = client_exc
        self.traceback_str = traceback_str

    def __str__(self) -> str:
        text = f"System error: {self.client_exc}"
        return f"{text}\n{self.traceback_str}" if self.traceback_str else text


class DeadlockError(RaySystemError):
    """A `get` or `wait` can never end, because it waits for itself through others; the text shows the cycle.

    Raised in one of the waiting calls, so that the others continue. Ray would wait forever.
    """

    def __str__(self) -> str:
        return str(self.client_exc)


class NodeGoneError(RaySystemError, ConnectionError):
    """The node that this driver had joined has ended, or was killed."""

    def __str__(self) -> str:
        return str(self.client_exc)


class StreamingGeneratorReplayInconsistentError(RaySystemError):
    """A generator task that was run again gave another number of values than the first time."""


class RayChannelError(RaySystemError):
    """A channel of a compiled graph failed."""


class RayChannelTimeoutError(RayChannelError, TimeoutError):
    """A channel of a compiled graph was not ready in time."""


class RayCgraphCapacityExceeded(RaySystemError):
    """A compiled graph has as many executions in flight as it can hold."""


class RayDirectTransportError(RaySystemError):
    """A transfer straight between devices failed."""


#: The errors that Ray gives a number each.
RAY_EXCEPTION_TYPES = [
    PlasmaObjectNotAvailable, RayError, RayTaskError, WorkerCrashedError, RayActorError, ObjectStoreFullError, ObjectLostError,
    ObjectFetchTimedOutError, ReferenceCountingAssertionError, ObjectReconstructionFailedError, OwnerDiedError,
    GetTimeoutError, AsyncioActorExit, RuntimeEnvSetupError, TaskPlacementGroupRemoved, ActorPlacementGroupRemoved,
    PendingCallsLimitExceeded, LocalRayletDiedError, TaskUnschedulableError, ActorDiedError, ActorUnschedulableError,
    ActorUnavailableError, RayChannelError, RayChannelTimeoutError, OufOfBandObjectRefSerializationException,
    RayCgraphCapacityExceeded, UnserializableException, ActorAlreadyExistsError, ActorHandleNotFoundError, AuthenticationError,
]  # fmt: skip
