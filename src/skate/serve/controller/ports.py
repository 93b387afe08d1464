"""The interface of the controller for its own parts."""

from __future__ import annotations

from collections.abc import Coroutine, Iterable
from typing import Any, Protocol

from skate.serve.config.http import HTTPOptions, gRPCOptions
from skate.serve.controller.actions import Action
from skate.serve.controller.machine import Machine
from skate.serve.controller.records import Key
from skate.serve.ingress.socket_owner import SocketOwner


class BackgroundTasks(Protocol):
    """Runner of background tasks."""

    actors: dict[str, Any]

    def later(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine in the background."""


class NodeLoads(Protocol):
    """Reports of other nodes."""

    #: Ids of the proxy on each other node.
    known: dict[str, dict[str, Any]]

    def load(self, replica: str, node: str) -> int:
        """Return the last reported number of requests at a replica of another node."""


class ControllerPort(Protocol):
    """The state of the controller, and the operations that its parts need."""

    machine: Machine
    options: HTTPOptions
    grpc_options: gRPCOptions | None
    tracing: Any
    logging: Any
    own_path: tuple[str, ...]
    codes: dict[str, Any]
    keeper: SocketOwner | None
    location: str
    demands: dict[str, dict[Key, int]]
    deployed: dict[str, Any]
    started: float
    looped: float
    loops: int
    pass_seconds: float

    @property
    def proxies(self) -> NodeLoads:
        """The proxies on other nodes."""

    @property
    def pool(self) -> BackgroundTasks:
        """The running tasks."""

    def do(self, actions: Iterable[Action]) -> None:
        """Execute actions of the machine."""

    def publish(self) -> None:
        """Publish changes to all watchers."""

    def update_free(self) -> None:
        """Update the machine's view of free resources."""

    def forget_watcher(self, name: str) -> None:
        """Remove a process that has ended from the watchers."""

    async def await_watchers(self) -> None:
        """Wait until all watchers have the current table."""

    def _take_demand(self, watcher: str, waiting: dict[Key, int]) -> None: ...
