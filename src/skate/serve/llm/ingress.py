"""The ingress with OpenAI's endpoints, which forwards each request to the deployment of its model."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Any

from fastapi import FastAPI, HTTPException, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel
from starlette.exceptions import HTTPException as StarletteHTTPException

from skate import serve
from skate.llm.adapter_folder import AdapterFolder
from skate.llm.errors import LLMError, UnknownModel
from skate.llm.openai import failures
from skate.llm.openai.app import RERANK_PATHS, Endpoints, any_error, base_of, http_error
from skate.llm.openai.keys import ApiKeys, KeyCheck
from skate.llm.openai.responses import ModelCard, as_json
from skate.serve.llm.affinity import session_of
from skate.serve.llm.raw_request import RawRequestInfo
from skate.serve.llm.relay import Inbox

#: The header with the session of a request, and the environment variable that sets another header.
SESSION_HEADER = "x-session-id"
SESSION_SETTING = "RAY_SERVE_SESSION_ID_HEADER_KEY"


def _posts(*paths: str) -> Callable[[FastAPI], Callable[..., Any]]:
    """Return a function that returns a decorator for several paths."""

    def of(app: FastAPI) -> Callable[..., Any]:
        def route(endpoint: Any) -> Any:
            for path in paths:
                app.post(path)(endpoint)
            return endpoint

        return route

    return of


#: For each method that is an endpoint, a function that returns its route decorator.
DEFAULT_ENDPOINTS: dict[str, Callable[[FastAPI], Callable[..., Any]]] = {
    "models": lambda app: app.get("/v1/models"),
    "model_data": lambda app: app.get("/v1/models/{model:path}"),
    "chat": lambda app: app.post("/v1/chat/completions"),
    "completions": lambda app: app.post("/v1/completions"),
    "embeddings": lambda app: app.post("/v1/embeddings"),
    "score": lambda app: app.post("/v1/score"),
    "rerank": _posts(*RERANK_PATHS),
    "transcriptions": lambda app: app.post("/v1/audio/transcriptions"),
    "translations": lambda app: app.post("/v1/audio/translations"),
    "tokenize": lambda app: app.post("/tokenize"),
    "detokenize": lambda app: app.post("/detokenize"),
    "health": lambda app: app.get("/health"),
}


class HandleModels:
    """Models in deployments, called through handles."""

    def __init__(
        self, handles: dict[str, Any], cards: dict[str, ModelCard], lora_paths: Mapping[str, str]
    ) -> None:
        self._lora_paths = lora_paths
        self._handles = handles
        self._cards = cards
        self._inbox = Inbox()

    async def cards(self) -> list[ModelCard]:
        """Return the cards of all models."""
        found = list(self._cards.values())
        for base, folder in self._lora_paths.items():
            for name in await asyncio.to_thread(AdapterFolder(folder).names):
                found.append(ModelCard(id=f"{base}:{name}", metadata={"base_model_id": base}))
        return found

    async def card(self, model: str) -> ModelCard:
        """Return the card of a model, or of an adapter that its replicas find. Raises UnknownModel."""
        if model in self._cards:
            return self._cards[model]
        base, adapter = base_of(model, self._handles)
        if not await self._handles[base].has_adapter.remote(adapter):
            raise UnknownModel(model, tuple(self._handles))
        return ModelCard(id=model, metadata={"base_model_id": base})

    def call(
        self, model: str, method: str, request: BaseModel, headers: Mapping[str, str], client: str = ""
    ) -> AsyncGenerator[Any, None]:
        """Yield the response of a replica; for an adapter, replicas that have loaded it are preferred."""
        base, adapter = base_of(model, self._handles)
        options: dict[str, Any] = {"stream": True}
        if adapter is not None:
            options["multiplexed_model_id"] = model
        sent = dict(headers)
        session = session_of(
            sent, getattr(request, "user", None), os.environ.get(SESSION_SETTING, SESSION_HEADER)
        )
        if session:
            options["session_id"] = session
        ask = getattr(self._handles[base].options(**options), method)
        if getattr(request, "stream", False):
            return self._inbox.answers(
                lambda destination: ask.remote(request, RawRequestInfo(sent, destination, client))
            )
        return _answers(ask, request, RawRequestInfo(sent, client=client))

    async def check_health(self) -> None:
        """No-op: the controller checks the replicas, and an ingress that answers is healthy."""


async def _answers(method: Any, request: BaseModel, raw: RawRequestInfo) -> AsyncGenerator[Any, None]:
    answers = method.remote(request, raw)
    ended = False
    try:
        async for each in answers:
            yield each
        ended = True
    finally:
        if not ended:
            answers.cancel()


class OpenAiIngress:
    """The handlers of the endpoints. A subclass may override them, and add others with make_fastapi_ingress.

    Args:
        llm_deployments: handles by model id.
        model_cards: the content of /v1/models, by model id.
        lora_paths: folders of adapters by model id; /v1/models lists what they contain.
        api_keys: each request must send one of these keys; None for open access.
    """

    def __init__(
        self,
        llm_deployments: dict[str, Any],
        model_cards: dict[str, ModelCard],
        *,
        lora_paths: dict[str, str] | None = None,
        api_keys: ApiKeys | None = None,
        **more: Any,
    ) -> None:
        self.lora_paths = lora_paths or {}
        self.api_keys = api_keys
        self.handles = llm_deployments
        self._endpoints = Endpoints(HandleModels(llm_deployments, model_cards, self.lora_paths))

    async def models(self, request: Request) -> Any:
        """Answer GET /v1/models."""
        return await self._endpoints.models(request)

    async def model_data(self, request: Request) -> Any:
        """Answer GET /v1/models/{model}."""
        return await self._endpoints.model(request)

    async def chat(self, request: Request) -> Any:
        """Answer POST /v1/chat/completions."""
        return await self._endpoints.chat(request)

    async def completions(self, request: Request) -> Any:
        """Answer POST /v1/completions."""
        return await self._endpoints.completions(request)

    async def embeddings(self, request: Request) -> Any:
        """Answer POST /v1/embeddings."""
        return await self._endpoints.embeddings(request)

    async def score(self, request: Request) -> Any:
        """Answer POST /v1/score."""
        return await self._endpoints.score(request)

    async def rerank(self, request: Request) -> Any:
        """Answer POST /v1/rerank."""
        return await self._endpoints.rerank(request)

    async def transcriptions(self, request: Request) -> Any:
        """Answer POST /v1/audio/transcriptions."""
        return await self._endpoints.transcriptions(request)

    async def translations(self, request: Request) -> Any:
        """Answer POST /v1/audio/translations."""
        return await self._endpoints.translations(request)

    async def tokenize(self, request: Request) -> Any:
        """Answer POST /tokenize."""
        return await self._endpoints.tokenize(request)

    async def detokenize(self, request: Request) -> Any:
        """Answer POST /detokenize."""
        return await self._endpoints.detokenize(request)

    async def health(self, request: Request) -> Any:
        """Answer GET /health."""
        return await self._endpoints.health(request)

    @classmethod
    def get_deployment_options(cls, llm_configs: list[Any] | None = None) -> dict[str, Any]:
        """Return the options of the ingress deployment, which may scale to zero if all models may."""
        options: dict[str, Any] = {"max_ongoing_requests": 1_000_000}
        scaled = [(each.deployment_config.get("autoscaling_config") or {}) for each in llm_configs or ()]
        if scaled and all(isinstance(each, dict) and each.get("min_replicas") == 0 for each in scaled):
            options["autoscaling_config"] = {"min_replicas": 0}
        return options


async def _invalid(request: Request, error: Exception) -> Any:
    """Return FastAPI's errors of fields in OpenAI's format."""
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    field = ".".join(str(part) for part in first["loc"][1:])
    return as_json(failures.response(400, f"Invalid value for {field}: {first['msg']}", param=field))


#: The name of the ingress in earlier releases.
LLMRouter = OpenAiIngress


def make_fastapi_ingress(
    cls: type,
    *,
    endpoint_map: dict[str, Callable[[FastAPI], Callable[..., Any]]] | None = None,
    app: FastAPI | None = None,
) -> type:
    """Return a class for serve.deployment whose methods are endpoints of a FastAPI app.

    Args:
        cls: the class with the methods.
        endpoint_map: for each method, a function that returns its route decorator; None for OpenAI's endpoints.
        app: an app with other routes; None for a new one.
    """
    endpoints = dict(endpoint_map or DEFAULT_ENDPOINTS)
    missing = [name for name in endpoints if not hasattr(cls, name)]
    if missing:
        raise AttributeError(f"{cls.__name__} has no {', '.join(missing)}, which endpoint_map refers to")

    def build(servable: Any) -> FastAPI:
        # Runs in the replica, because the routes are bound methods of its object and apps are not picklable.
        made = FastAPI(title="OpenAI-compatible API") if app is None else app
        for kind in (HTTPException, StarletteHTTPException):
            made.add_exception_handler(kind, http_error)
        made.add_exception_handler(LLMError, any_error)
        made.add_exception_handler(Exception, any_error)
        made.add_exception_handler(RequestValidationError, _invalid)
        keys = getattr(servable, "api_keys", None)
        if keys:
            made.add_middleware(KeyCheck, keys=keys)
        for name, route in endpoints.items():
            route(made)(getattr(servable, name))
        return made

    found: type = serve.ingress(build)(cls)
    return found
