"""The ingress with endpoints for operators, which control the engines of all replicas of a model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastapi import FastAPI, Query
from pydantic import BaseModel, Field
from starlette.responses import Response

from skate.llm.errors import NotSupported
from skate.llm.openai.app import base_of
from skate.serve.llm.app_builder import openai_app
from skate.serve.llm.configs import IngressClsConfig, LLMServingArgs
from skate.serve.llm.ingress import DEFAULT_ENDPOINTS, OpenAiIngress


class ControlRequest(BaseModel):
    """A request to an engine: the model, and options under the engine's names, such as level=1 of vLLM's sleep."""

    model: str
    options: dict[str, Any] = Field(default_factory=dict)


class CacheRequest(BaseModel):
    """A request to drop the cached prefixes of a model."""

    model: str


class RpcRequest(BaseModel):
    """A call of a method of the engine's workers."""

    model: str
    method: str
    args: list[Any] = Field(default_factory=list)
    kwargs: dict[str, Any] = Field(default_factory=dict)
    timeout: float | None = None


class IsSleeping(BaseModel):
    """True if the engine of any replica sleeps."""

    is_sleeping: bool


class IsPaused(BaseModel):
    """True if the engine of any replica is paused."""

    is_paused: bool


class ReplicaResult(BaseModel):
    """The results of one replica's workers."""

    replica: int
    worker_results: list[Any]


class RpcResponse(BaseModel):
    """The results of all replicas."""

    results: list[ReplicaResult]


#: The routes for operators, beside OpenAI's.
DEV_ENDPOINTS: dict[str, Callable[[FastAPI], Callable[..., Any]]] = {
    "sleep": lambda app: app.post("/sleep"),
    "wakeup": lambda app: app.post("/wakeup"),
    "is_sleeping": lambda app: app.get("/is_sleeping"),
    "pause": lambda app: app.post("/pause"),
    "resume": lambda app: app.post("/resume"),
    "is_paused": lambda app: app.get("/is_paused"),
    "reset_prefix_cache": lambda app: app.post("/reset_prefix_cache"),
    "collective_rpc": lambda app: app.post("/collective_rpc"),
    "start_profile": lambda app: app.post("/start_profile"),
    "stop_profile": lambda app: app.post("/stop_profile"),
    **DEFAULT_ENDPOINTS,
}


class DevIngress(OpenAiIngress):
    """OpenAI's endpoints, and those for operators. Serve it to trusted clients only, or with API keys."""

    async def _all(self, model: str, call: str, /, **kwargs: Any) -> list[Any]:
        """Call a method of all replicas of a model."""
        base, _ = base_of(model, self.handles)
        try:
            return list(await self.handles[base].broadcast(call, **kwargs))
        except NotImplementedError as error:
            raise NotSupported(str(error)) from None

    async def sleep(self, body: ControlRequest) -> Response:
        """Answer POST /sleep: the engines release memory until they are woken up."""
        await self._all(body.model, "sleep", **body.options)
        return Response(status_code=200)

    async def wakeup(self, body: ControlRequest) -> Response:
        """Answer POST /wakeup."""
        await self._all(body.model, "wakeup", **body.options)
        return Response(status_code=200)

    async def is_sleeping(self, model: str = Query(...)) -> IsSleeping:
        """Answer GET /is_sleeping."""
        return IsSleeping(is_sleeping=any(await self._all(model, "is_sleeping")))

    async def pause(self, body: ControlRequest) -> Response:
        """Answer POST /pause: the engines stop generating, and keep the model in memory."""
        await self._all(body.model, "pause", **body.options)
        return Response(status_code=200)

    async def resume(self, body: ControlRequest) -> Response:
        """Answer POST /resume."""
        await self._all(body.model, "resume", **body.options)
        return Response(status_code=200)

    async def is_paused(self, model: str = Query(...)) -> IsPaused:
        """Answer GET /is_paused."""
        return IsPaused(is_paused=any(await self._all(model, "is_paused")))

    async def reset_prefix_cache(self, body: CacheRequest) -> Response:
        """Answer POST /reset_prefix_cache."""
        await self._all(body.model, "reset_prefix_cache")
        return Response(status_code=200)

    async def start_profile(self, body: CacheRequest) -> Response:
        """Answer POST /start_profile. Skate's own."""
        await self._all(body.model, "start_profile")
        return Response(status_code=200)

    async def stop_profile(self, body: CacheRequest) -> Response:
        """Answer POST /stop_profile. Skate's own."""
        await self._all(body.model, "stop_profile")
        return Response(status_code=200)

    async def collective_rpc(self, body: RpcRequest) -> RpcResponse:
        """Answer POST /collective_rpc: call a method in each worker of each replica's engine."""
        found = await self._all(
            body.model,
            "collective_rpc",
            method=body.method,
            timeout=body.timeout,
            args=tuple(body.args),
            kwargs=body.kwargs,
        )
        return RpcResponse(
            results=[
                ReplicaResult(replica=replica, worker_results=list(each or ()))
                for replica, each in enumerate(found)
            ]
        )


def build_dev_openai_app(builder_config: Any) -> Any:
    """Build an application with OpenAI's endpoints and those that control engines.

    Args:
        builder_config: LLMServingArgs, a dict of its fields, or the path of a YAML file with them.

    Raises ValueError for invalid fields, and an error if an engine cannot run here.
    """
    args: LLMServingArgs = LLMServingArgs.of(builder_config)
    chosen = args.ingress_cls_config
    own = IngressClsConfig(
        ingress_cls=chosen.ingress_cls or DevIngress, ingress_extra_kwargs=chosen.ingress_extra_kwargs
    )
    return openai_app(args.model_copy(update={"ingress_cls_config": own}), DEV_ENDPOINTS)
