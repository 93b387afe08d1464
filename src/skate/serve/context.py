"""The replica and the request that the calling code belongs to."""

from __future__ import annotations

import contextvars
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from skate import lazy_loader
from skate.serve.exceptions import RayServeException
from skate.serve.identity import DeploymentID, ReplicaID


class ReplicaRank(NamedTuple):
    """The rank of a replica within its deployment."""

    rank: int
    node_rank: int = 0
    local_rank: int = 0


@dataclass
class GangContext:
    """The place of a replica in its gang.

    `member_replica_ids` has the unique ids of all its replicas, by rank; `pg_name` is the name of their placement group.
    """

    gang_id: str
    rank: int
    world_size: int
    member_replica_ids: list[str]
    pg_name: str = ""


@dataclass
class ReplicaContext:
    """The replica that the code runs in."""

    replica_id: ReplicaID
    servable_object: Any
    _deployment_config: Any
    rank: ReplicaRank
    world_size: int
    gang_context: GangContext | None = None
    code_version: str | None = None
    _callbacks: list[Callable[..., Any]] = field(default_factory=list)

    @property
    def app_name(self) -> str:
        """The name of the application."""
        return self.replica_id.deployment_id.app_name

    @property
    def deployment(self) -> str:
        """The deployment's name."""
        return self.replica_id.deployment_id.name

    @property
    def replica_tag(self) -> str:
        """The unique name of the replica within its deployment."""
        return self.replica_id.unique_id


@dataclass(frozen=True)
class DeploymentActorContext:
    """The deployment that an actor of `deployment_actors` belongs to."""

    deployment_id: DeploymentID
    actor_name: str
    code_version: str | None = None

    @property
    def app_name(self) -> str:
        """The name of the application."""
        return self.deployment_id.app_name

    @property
    def deployment(self) -> str:
        """The deployment's name."""
        return self.deployment_id.name


class RequestContext(NamedTuple):
    """The properties of the current request."""

    request_id: str = ""
    route: str = ""
    app_name: str = ""
    multiplexed_model_id: str = ""
    session_id: str = ""
    #: Responses of handle calls made for this request, which are cancelled with it.
    children: Any = None
    deployment: str = ""
    #: The trace of this request, in a process that creates no spans itself.
    trace: Any = None


_new_tuple = tuple.__new__


def of_call(meta: tuple[Any, ...], deployment: str) -> RequestContext:
    """Return the request context of a handle call."""
    trace = meta[6] if len(meta) > 6 else None
    return _new_tuple(RequestContext, (meta[0], meta[2], meta[3], meta[4], meta[5], set(), deployment, trace))


NO_REQUEST = RequestContext()
request: contextvars.ContextVar[RequestContext] = contextvars.ContextVar(
    "skate_serve_request", default=NO_REQUEST
)
#: The user's object that serves the current request. A process has several if deployments share it.
servable: contextvars.ContextVar[Any] = contextvars.ContextVar("skate_serve_servable", default=None)
_replica: list[ReplicaContext] = []
inner: contextvars.ContextVar[ReplicaContext | None] = contextvars.ContextVar(
    "skate_serve_replica", default=None
)


def enter_replica(context: ReplicaContext) -> None:
    """Register this process as a replica."""
    _replica[:] = [context]


def current_replica() -> ReplicaContext | None:
    """Return the replica of this process, or None."""
    return inner.get() or (_replica[0] if _replica else None)


def get_replica_context() -> ReplicaContext:
    """Return the replica that the calling code runs in. Raises RayServeException outside of replicas."""
    found = current_replica()
    if found is None:
        raise RayServeException(
            "`serve.get_replica_context()` may only be called from within a Ray Serve deployment. "
            "The calling code does not run in a replica"
        )
    return found


# Private names of Ray, which its documentation and many programs use.
_serve_request_context = request


__getattr__ = lazy_loader.getter(globals(), {"skate.private_names.serve_client": ["_get_global_client"]})


def _get_internal_replica_context() -> ReplicaContext | None:
    return current_replica()


def _get_serve_request_context() -> RequestContext:
    return request.get()


def get_multiplexed_model_id() -> str:
    """Return the model that the current request names; empty if it names none."""
    return request.get().multiplexed_model_id


def get_trace_context() -> Any:
    """Return the OpenTelemetry context of the current request; None if OpenTelemetry is not installed."""
    try:
        from opentelemetry import context  # optional
    except ImportError:
        return None
    return context.get_current()


async def current_servable() -> Any:
    """Return the user's object that serves the current request; FastAPI routes receive it as `self`."""
    return servable.get()
