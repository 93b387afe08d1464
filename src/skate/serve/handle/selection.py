"""Selection of a replica before a request is sent."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator
from typing import Any

from skate.serve import context
from skate.serve.exceptions import DeploymentUnavailableError, ReplicaUnavailableError
from skate.serve.handle.response import DeploymentResponse, DeploymentResponseGenerator
from skate.serve.identity import DeploymentID
from skate.serve.routing.call import Call

_LOOK_SECONDS = 0.003


class ReplicaSelection:
    """A replica with a reserved place for one request."""

    def __init__(self, router: Any, target: Any, meta: tuple[Any, ...]) -> None:
        entry = target.entry
        self.replica_id: str = entry.replica
        self.node_id: str = entry.node
        self.node_ip: str = entry.node_ip
        self.port: int | None = None
        self.availability_zone: str | None = None
        self.replica_metadata: dict[str, Any] = dict(entry.metadata or {})
        self._router = router
        self._target = target
        self._meta = meta
        self._open = True

    def _send(self, args: tuple[Any, ...], kwargs: dict[str, Any], stream: bool) -> Any:
        if not self._open:
            raise RuntimeError(
                "a chosen replica can be used for one request only; choose again for the next one"
            )
        if self._target not in self._router._ready:
            raise ReplicaUnavailableError(self.replica_id)
        self._open = False
        call = Call(self._meta, args, kwargs, stream)
        made: Any = DeploymentResponseGenerator if stream else DeploymentResponse
        answer = made(call, self._router)
        self._router._send(self._target, call, counted=True)
        return answer

    def _release(self) -> None:
        if self._open:
            self._open = False
            self._target.inflight -= 1


@contextlib.asynccontextmanager
async def chosen(
    handle: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> AsyncIterator[ReplicaSelection]:
    """Choose a replica with room, through the deployment's router and for these arguments; wait while all are full.

    Raise DeploymentUnavailableError if there is no such deployment, or it has failed.
    """
    router = handle._way()
    around = context.request.get()
    settings = handle._settings()
    meta = (
        around.request_id or os.urandom(16).hex(),
        settings["method_name"],
        around.route,
        handle.app_name,
        settings["multiplexed_model_id"] or "",
        settings["session_id"] or around.session_id,
    )
    call = Call(meta, args, kwargs, settings["stream"])
    while True:
        deployment = router.deployment
        if router.gone or (deployment is not None and deployment.failed):
            raise DeploymentUnavailableError(DeploymentID(handle.deployment_name, handle.app_name))
        target = None if deployment is None else router._choose(call, deployment)
        if target is not None:
            target.inflight += 1
            break
        await asyncio.sleep(_LOOK_SECONDS)
    selection = ReplicaSelection(router, target, meta)
    try:
        yield selection
    finally:
        selection._release()
