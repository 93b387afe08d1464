"""The parameters of a new replica, and the interface of a replica for its servers."""

from __future__ import annotations

from typing import Any, Protocol

from skate.serve.config.deployment import DeploymentConfig
from skate.serve.config.http import gRPCOptions
from skate.serve.context import GangContext
from skate.serve.identity import ReplicaID
from skate.serve.replica.concurrency_limiter import ConcurrencyLimiter
from skate.serve.replica.crash_responder import CrashResponder
from skate.serve.replica.servable import Servable
from skate.serve.routing.counter_page import CounterPage
from skate.serve.schema.tracing import TracingConfig


class Order:
    """The parameters of a new replica: plain data, and the code as bytes."""

    def __init__(self, **fields: Any) -> None:
        self.__dict__.update(fields)

    app: str
    name: str
    replica: str
    code: bytes
    version: str
    config: DeploymentConfig
    world_size: int
    #: The replica's place in its gang, or None.
    gang: GangContext | None
    #: HTTP settings for the ingress of an application with a route; None for all others.
    http: dict[str, Any] | None
    grpc: gRPCOptions | None
    grpc_host: str | None
    #: The paths of the deploying program, if it is not the one that started Serve.
    surroundings: Any
    #: A TracingConfig, or None to use the environment.
    tracing: TracingConfig | None


class ReplicaPort(Protocol):
    """A replica with its queue and its code."""

    id: ReplicaID
    order: Order
    counter_page: CounterPage
    limiter: ConcurrencyLimiter
    servable: Servable
    crash_responder: CrashResponder
