"""The exceptions of Skate, grouped by origin: remote code, the caller, the machine, and Skate itself.

Their names, bases and constructors are those of ``ray.exceptions``, so that programs for Ray can catch them.
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


# ---------------------------------------------------------------- caused by remote code (and RayTaskError)


class UserCodeException(RayError):
    """A function passed to Skate Data raised an exception, which is the cause."""


class RayActorError(RayError):
    """An actor failed before it finished this call.

    Attributes: actor_id (hex, or None), error_msg, actor_init_failed (the constructor raised), preempted (its
    machine was preempted with notice).
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


#: Causes of an actor's death that its program did not intend.


class ActorDeath:
    """The known facts about an actor's death; usually the cause of an ActorDiedError.

    `reason` is one of "CREATION_FAILED", "WORKER_DIED", "NODE_DIED", "OWNER_DIED", "RAY_KILL",
    "OUT_OF_SCOPE", "REF_DELETED", "INTENDED_USER_EXIT", "UNSCHEDULABLE" or "".
    """

    __slots__ = (
        "actor_id", "class_name", "error_message", "name", "never_started", "node_id", "node_ip_address", "pid",
        "preempted", "ray_namespace", "reason",
    )  # fmt: skip

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
        return text + (" Its machine was preempted with notice." if self.preempted else "")


class ActorDiedError(RayActorError):
    """An actor has died permanently: killed, crashed with no restarts left, or failed in its constructor.

    `cause` is the constructor's RayTaskError, an `ActorDeath`, a text, or None if nothing is known.
    """

    BASE_ERROR_MSG = "The actor died unexpectedly before finishing this task."

    def __init__(self, cause: RayTaskError | ActorDeath | str | None = None) -> None:
        self.cause = cause
        if isinstance(cause, RayTaskError):
            text = f"The actor died because of an error raised in its creation task, {cause}"
            super().__init__(cause.actor_id, text, actor_init_failed=True)
        elif isinstance(cause, ActorDeath):
            text = f"{self.BASE_ERROR_MSG} {cause.describe()}"
            super().__init__(cause.actor_id or None, text, preempted=cause.preempted)
        else:
            super().__init__(None, cause or self.BASE_ERROR_MSG)

    @staticmethod
    def from_task_error(task_error: RayTaskError) -> ActorDiedError:
        """Build the error of an actor whose constructor failed with `task_error`."""
        return ActorDiedError(task_error)


class ActorUnavailableError(RayActorError):
    """An actor is unreachable at the moment, for example because it is restarting; a later call may succeed."""

    def __init__(self, error_message: str, actor_id: bytes | None) -> None:
        hex_id = actor_id.hex() if isinstance(actor_id, bytes) else None
        who = f"actor {hex_id}" if hex_id else "actor"
        text = f"The {who} is unavailable: {error_message}. The task may or may not have been executed on the actor."
        super().__init__(hex_id, text)
        self.error_message = error_message


class AsyncioActorExit(RayError):
    """Raised by ``exit_actor()`` to end an asyncio actor from inside."""


class CrossLanguageError(RayError):
    """An exception from code in another language."""

    def __init__(self, ray_exception: Any) -> None:
        text = getattr(ray_exception, "formatted_exception_string", ray_exception)
        super().__init__(f"Code in another language raised an exception:\n{text}")


# ---------------------------------------------------------------- caused by the caller


class TaskCancelledError(RayError):
    """The task was cancelled. Attributes: task_id (or None), error_message."""

    def __init__(self, task_id: object = None, error_message: str | None = None) -> None:
        self.task_id = task_id
        self.error_message = error_message

    def __str__(self) -> str:
        text = f"The task {self.task_id} was cancelled." if self.task_id else "The task was cancelled."
        return f"{text} {self.error_message}" if self.error_message else text


class GetTimeoutError(RayError, TimeoutError):
    """``get`` has reached its timeout, and the value is not available."""


class PendingCallsLimitExceeded(RayError):
    """The actor already has as many waiting calls as ``max_pending_calls`` allows."""


class ActorAlreadyExistsError(ValueError, RayError):
    """An actor of this name already exists in this namespace."""

    def __init__(self, error_message: str) -> None:
        super().__init__(error_message)
        self.error_message = error_message

    def __str__(self) -> str:
        return self.error_message


class ActorHandleNotFoundError(ValueError, RayError):
    """The handle does not belong to any actor of this session."""

    def __init__(self, error_message: str) -> None:
        super().__init__(error_message)
        self.error_message = error_message

    def __str__(self) -> str:
        return self.error_message


class AuthenticationError(RayError):
    """The token is missing or wrong."""

    def __init__(self, message: str) -> None:
        self.message = message
        # the transport's own error has no more information for the user
        self.__suppress_context__ = True

    def __str__(self) -> str:
        return self.message


class TaskUnschedulableError(RayError):
    """The task requests resources that this cluster can never provide."""

    def __init__(self, error_message: str) -> None:
        self.error_message = error_message

    def __str__(self) -> str:
        return f"The task is not schedulable: {self.error_message}"


class ActorUnschedulableError(RayError):
    """The actor requests resources that this cluster can never provide."""

    def __init__(self, error_message: str) -> None:
        self.error_message = error_message

    def __str__(self) -> str:
        return f"The actor is not schedulable: {self.error_message}"


class TaskPlacementGroupRemoved(RayError):
    """The placement group of the task was removed."""

    def __str__(self) -> str:
        return _said(self, "The placement group corresponding to this task has been removed.")


class ActorPlacementGroupRemoved(RayError):
    """The placement group of the actor was removed."""

    def __str__(self) -> str:
        return _said(self, "The placement group corresponding to this Actor has been removed.")


class RuntimeEnvSetupError(RayError):
    """The runtime environment could not be set up; `error_message` has the reason."""

    def __init__(self, error_message: str | None = None) -> None:
        self.error_message = error_message

    def __str__(self) -> str:
        text = "The runtime environment could not be set up"
        return f"{text}: {self.error_message}" if self.error_message else f"{text}."


class OufOfBandObjectRefSerializationException(RayError):  # the public name is misspelt
    """An ObjectRef was pickled outside of Skate, which cannot keep its value alive."""


class ObjectRefStreamEndOfStreamError(RayError):
    """A streaming generator has no more refs."""


# ---------------------------------------------------------------- caused by the machine


class WorkerCrashedError(RayError):
    """The worker process died while it ran the task, for example by a signal, ``os._exit`` or a segmentation fault."""

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
    """The task's worker was killed because its node ran short of memory."""

    def __init__(self, message: str) -> None:
        self.message = message

    def __str__(self) -> str:
        return self.message


class OutOfDiskError(RayError):
    """The local disk is full, so values cannot be spilled."""

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
    """The value was not available in the object store in time."""


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
    """No node reported in time that it has the value."""

    _why = "no node reported in time that it has the object"


class ObjectFreedError(ObjectLostError):
    """The program freed the value explicitly."""

    _why = "the program freed it explicitly while this ref was still in use"


class OwnerDiedError(ObjectLostError):
    """The process that owned the value has died, and the record of the value with it."""

    _why = "its owner, the process that made it, has died"


class ReferenceCountingAssertionError(ObjectLostError, AssertionError):
    """The value was freed although it was still referenced, because a lost process or node had passed on the ref."""

    _why = "it was freed although it was still referenced"


class ObjectReconstructionFailedError(ObjectLostError):
    """The value was lost and not reconstructed; `reason` (a name) and `reason_message` have the cause."""

    REASON_MESSAGES = {
        "OBJECT_UNRECONSTRUCTABLE_MAX_ATTEMPTS_EXCEEDED": "its task has already been retried as often as max_retries allows",
        "OBJECT_UNRECONSTRUCTABLE_LINEAGE_EVICTED": "its lineage was dropped to save memory",
        "OBJECT_UNRECONSTRUCTABLE_PUT": "it was created by put(), so no task can recreate it",
        "OBJECT_UNRECONSTRUCTABLE_RETRIES_DISABLED": "its task has max_retries=0; a larger number allows it",
        "OBJECT_UNRECONSTRUCTABLE_BORROWED": "only its owner can reconstruct it, not a borrower",
        "OBJECT_UNRECONSTRUCTABLE_REF_NOT_FOUND": "its owner no longer has a record of it",
        "OBJECT_UNRECONSTRUCTABLE_TASK_CANCELLED": "the task that creates it was cancelled",
        "OBJECT_UNRECONSTRUCTABLE_LINEAGE_DISABLED": "reconstruction of lost values is disabled",
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
        self.reason_message = reason_message or self.REASON_MESSAGES.get(reason or "", "no cause is known")

    def _reason(self) -> str:
        return f"it was lost, and {self.reason_message}"


class RpcError(RayError):
    """A message to another process could not be delivered. Attributes: message, rpc_code."""

    def __init__(self, message: str, rpc_code: int | None = None) -> None:
        self.message = message
        self.rpc_code = rpc_code

    def __str__(self) -> str:
        return self.message


# ---------------------------------------------------------------- caused by Skate


class RaySystemError(RayError):
    """Skate itself failed. Attributes: client_exc (an exception or a text), traceback_str."""

    def __init__(self, client_exc: object, traceback_str: str | None = None) -> None:
        self.client_exc = client_exc
        self.traceback_str = traceback_str

    def __str__(self) -> str:
        text = f"System error: {self.client_exc}"
        return f"{text}\n{self.traceback_str}" if self.traceback_str else text


class DeadlockError(RaySystemError):
    """A `get` or `wait` can never end, because it indirectly waits for itself; the message shows the cycle.

    Raised in one of the waiting calls, so that the others continue. Ray would wait forever.
    """

    def __str__(self) -> str:
        return str(self.client_exc)


class NodeGoneError(RaySystemError, ConnectionError):
    """The node that this driver has joined ended or was killed."""

    def __str__(self) -> str:
        return str(self.client_exc)


class StreamingGeneratorReplayInconsistentError(RaySystemError):
    """A generator task that was run again returned a different number of values than the first time."""


class RayChannelError(RaySystemError):
    """A channel of a compiled graph failed."""


class RayChannelTimeoutError(RayChannelError, TimeoutError):
    """A channel of a compiled graph was not ready in time."""


class RayCgraphCapacityExceeded(RaySystemError):
    """A compiled graph has reached its limit of executions in flight."""


class RayDirectTransportError(RaySystemError):
    """A direct transfer between devices failed."""


#: The errors that have a number in Ray.
RAY_EXCEPTION_TYPES = [
    PlasmaObjectNotAvailable, RayError, RayTaskError, WorkerCrashedError, RayActorError, ObjectStoreFullError, ObjectLostError,
    ObjectFetchTimedOutError, ReferenceCountingAssertionError, ObjectReconstructionFailedError, OwnerDiedError,
    GetTimeoutError, AsyncioActorExit, RuntimeEnvSetupError, TaskPlacementGroupRemoved, ActorPlacementGroupRemoved,
    PendingCallsLimitExceeded, LocalRayletDiedError, TaskUnschedulableError, ActorDiedError, ActorUnschedulableError,
    ActorUnavailableError, RayChannelError, RayChannelTimeoutError, OufOfBandObjectRefSerializationException,
    RayCgraphCapacityExceeded, UnserializableException, ActorAlreadyExistsError, ActorHandleNotFoundError, AuthenticationError,
]  # fmt: skip
