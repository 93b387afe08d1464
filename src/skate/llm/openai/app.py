"""OpenAI's endpoints as an ASGI app over any number of models, regardless of where their engines run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Collection, Mapping
from contextlib import aclosing
from typing import Any, Protocol

from pydantic import BaseModel, ValidationError
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from skate.llm.errors import BadRequest, UnknownModel
from skate.llm.openai import failures
from skate.llm.openai.body import TooLarge, read_form, read_json
from skate.llm.openai.client_identity import client_of
from skate.llm.openai.keys import ApiKeys, KeyCheck
from skate.llm.openai.model_service import ModelService
from skate.llm.openai.requests import (
    AudioRequest,
    ChatCompletionRequest,
    CompletionRequest,
    DetokenizeRequest,
    EmbeddingChatRequest,
    EmbeddingCompletionRequest,
    RerankRequest,
    ScoreRequest,
    TokenizeChatRequest,
    TokenizeCompletionRequest,
)
from skate.llm.openai.responses import ModelCard, ModelList, as_json
from skate.llm.openai.unread_body import UnreadBody

#: The paths of vLLM for one endpoint.
RERANK_PATHS = ("/rerank", "/v1/rerank", "/v2/rerank")


class Models(Protocol):
    """The models behind the endpoints."""

    async def cards(self) -> list[ModelCard]:
        """Return the cards of all models."""

    async def card(self, model: str) -> ModelCard:
        """Return the card of a model or of an unlisted adapter. Raises UnknownModel."""

    def call(
        self, model: str, method: str, request: BaseModel, headers: Mapping[str, str], client: str = ""
    ) -> AsyncGenerator[Any, None]:
        """Yield a model's response to a client's request. Raises UnknownModel."""

    async def check_health(self) -> None:
        """Raise an exception if a model does not answer."""


def base_of(model: str, known: Collection[str]) -> tuple[str, str | None]:
    """Split `base` or `base:adapter` into the model and the adapter or None. Raises UnknownModel."""
    if model in known:
        return model, None
    found = [base for base in known if model.startswith(base + ":") and len(model) > len(base) + 1]
    if not found:
        raise UnknownModel(model, tuple(sorted(known)))
    base = max(found, key=len)
    return base, model[len(base) + 1 :]


class LocalModels:
    """Models whose engines run in this process."""

    def __init__(self, servings: Collection[ModelService]) -> None:
        self._servings = {each.model: each for each in servings}
        self._cards = {name: ModelCard(id=name) for name in self._servings}

    async def cards(self) -> list[ModelCard]:
        """Return the cards of all models."""
        return list(self._cards.values())

    async def card(self, model: str) -> ModelCard:
        """Return the card of a model or adapter."""
        if model in self._cards:
            return self._cards[model]
        base, adapter = base_of(model, self._servings)
        if not self._servings[base].has_adapter(adapter):
            raise UnknownModel(model, tuple(self._servings))
        return ModelCard(id=model, metadata={"base_model_id": base})

    def call(
        self, model: str, method: str, request: BaseModel, headers: Mapping[str, str], client: str = ""
    ) -> AsyncGenerator[Any, None]:
        """Yield the response of a model."""
        base, _ = base_of(model, self._servings)
        found: AsyncGenerator[Any, None] = getattr(self._servings[base], method)(request, client)
        return found

    async def check_health(self) -> None:
        """Check the health of each engine."""
        for each in self._servings.values():
            await each.engine.check_health()


def build_app(models: Models, *, api_keys: Collection[str] = (), metrics: bool = True) -> Starlette:
    """Build the app. With `api_keys`, all paths except /health and /metrics require one as bearer token."""
    endpoints = Endpoints(models)
    routes = [
        Route("/v1/chat/completions", endpoints.chat, methods=["POST"]),
        Route("/v1/completions", endpoints.completions, methods=["POST"]),
        Route("/v1/embeddings", endpoints.embeddings, methods=["POST"]),
        Route("/v1/models", endpoints.models, methods=["GET"]),
        Route("/v1/models/{model:path}", endpoints.model, methods=["GET"]),
        Route("/v1/score", endpoints.score, methods=["POST"]),
        *(Route(path, endpoints.rerank, methods=["POST"]) for path in RERANK_PATHS),
        Route("/v1/audio/transcriptions", endpoints.transcriptions, methods=["POST"]),
        Route("/v1/audio/translations", endpoints.translations, methods=["POST"]),
        Route("/tokenize", endpoints.tokenize, methods=["POST"]),
        Route("/detokenize", endpoints.detokenize, methods=["POST"]),
        Route("/health", endpoints.health, methods=["GET"]),
    ]
    if metrics:
        routes.append(Route("/metrics", _metrics, methods=["GET"]))
    app = Starlette(routes=routes, exception_handlers={HTTPException: http_error, Exception: any_error})
    if api_keys:
        app.add_middleware(KeyCheck, keys=ApiKeys(api_keys))
    return app


class Endpoints:
    """The handlers of the routes."""

    def __init__(self, models: Models) -> None:
        self._models = models

    async def chat(self, request: Request) -> Response:
        """Answer POST /v1/chat/completions."""
        return await self._answer(request, "chat", ChatCompletionRequest)

    async def completions(self, request: Request) -> Response:
        """Answer POST /v1/completions."""
        return await self._answer(request, "completions", CompletionRequest)

    async def embeddings(self, request: Request) -> Response:
        """Answer POST /v1/embeddings."""
        return await self._answer(request, "embeddings", EmbeddingCompletionRequest, EmbeddingChatRequest)

    async def score(self, request: Request) -> Response:
        """Answer POST /v1/score."""
        return await self._answer(request, "score", ScoreRequest)

    async def rerank(self, request: Request) -> Response:
        """Answer POST /v1/rerank."""
        return await self._answer(request, "rerank", RerankRequest)

    async def transcriptions(self, request: Request) -> Response:
        """Answer POST /v1/audio/transcriptions."""
        return await self._answer_to_audio(request, "transcriptions")

    async def translations(self, request: Request) -> Response:
        """Answer POST /v1/audio/translations."""
        return await self._answer_to_audio(request, "translations")

    async def tokenize(self, request: Request) -> Response:
        """Answer POST /tokenize."""
        return await self._answer(request, "tokenize", TokenizeCompletionRequest, TokenizeChatRequest)

    async def detokenize(self, request: Request) -> Response:
        """Answer POST /detokenize."""
        return await self._answer(request, "detokenize", DetokenizeRequest)

    async def models(self, request: Request) -> Response:
        """Answer GET /v1/models."""
        return as_json(ModelList(data=await self._models.cards()))

    async def model(self, request: Request) -> Response:
        """Answer GET /v1/models/{id}."""
        try:
            return as_json(await self._models.card(request.path_params["model"]))
        except UnknownModel as error:
            return as_json(failures.of(error))

    async def health(self, request: Request) -> Response:
        """Answer GET /health."""
        try:
            await self._models.check_health()
        except Exception as error:  # any error means that a model is not healthy
            return as_json(failures.response(503, f"not healthy: {error}", "server_error"))
        return JSONResponse({"status": "ok"})

    async def _answer(
        self, request: Request, method: str, kind: type[BaseModel], of_chat: type[BaseModel] | None = None
    ) -> Response:
        async def parsed() -> BaseModel:
            body = await read_json(request)
            model = of_chat if of_chat is not None and "messages" in body else kind
            return model.model_validate(body)

        return await self._answer_to(request, method, parsed)

    async def _answer_to_audio(self, request: Request, method: str) -> Response:
        async def parsed() -> BaseModel:
            audio, fields = await read_form(request)
            own = {name: fields.pop(name) for name in ("model", "user") if name in fields}
            stream = fields.get("stream", False)
            return AudioRequest.model_validate({**own, "stream": stream, "audio": audio, "fields": fields})

        return await self._answer_to(request, method, parsed)

    async def _answer_to(
        self, request: Request, method: str, parse: Callable[[], Awaitable[BaseModel]]
    ) -> Response:
        try:
            parsed: Any = await parse()
            if parsed.model is None:
                parsed.model = await self._only_model()
            if getattr(parsed, "request_id", "") is None:
                parsed.request_id = request.headers.get("x-request-id")
            found = self._models.call(parsed.model, method, parsed, request.headers, client_of(request.scope))
        except TooLarge as error:
            return UnreadBody(failures.response(413, str(error), code="request_too_large"))
        except (BadRequest, ValidationError) as error:
            return as_json(failures.of(error))
        return Answer(found)

    async def _only_model(self) -> str:
        cards = [each for each in await self._models.cards() if "base_model_id" not in each.metadata]
        if len(cards) != 1:
            raise BadRequest("you must provide a model parameter", "model")
        return cards[0].id


class Answer(Response):
    """The response with a ModelService's output: one JSON object, or events. The work ends if the client disconnects."""

    def __init__(self, found: AsyncGenerator[Any, None]) -> None:
        # Response.__init__ is not called, because status and headers depend on the first output. The base class
        # makes FastAPI return the object unchanged.
        self._found = found
        self.background = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response."""
        work = asyncio.ensure_future(self._send(scope, receive, send))
        disconnect = asyncio.ensure_future(_disconnected(receive))
        try:
            await asyncio.wait({work, disconnect}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            disconnect.cancel()
            if not work.done():
                work.cancel()
            await asyncio.gather(work, disconnect, return_exceptions=True)
        if work.cancelled():
            return
        error = work.exception()
        if error is not None and not isinstance(
            error, OSError
        ):  # OSError: the client disconnected during a send
            raise error

    async def _send(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with aclosing(self._found) as found:
            try:
                first = await anext(found)
            except StopAsyncIteration:
                first = failures.response(500, "the model gave no answer", "server_error")
            except Exception as error:  # a handle may raise anything; the client receives a response
                first = failures.of(error)
            if isinstance(first, (str, bytes)):
                await _events(first, found, send)
                return
            await as_json(first)(scope, receive, send)


async def _events(first: str | bytes, rest: AsyncIterator[Any], send: Send) -> None:
    headers = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"cache-control", b"no-cache")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": _bytes(first), "more_body": True})
    try:
        async for event in rest:
            await send({"type": "http.response.body", "body": _bytes(event), "more_body": True})
    except OSError:
        raise
    except Exception as error:  # the response has begun, so the error can only be sent as an event
        event = f"data: {failures.of(error).model_dump_json()}\n\n"
        await send({"type": "http.response.body", "body": event.encode(), "more_body": True})
    await send({"type": "http.response.body", "body": b"", "more_body": False})


def _bytes(event: str | bytes) -> bytes:
    return event.encode() if isinstance(event, str) else event


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def http_error(request: Request, error: Exception) -> Response:
    """Return 404 or 405 in OpenAI's format."""
    assert isinstance(error, HTTPException)
    message = f"{request.method} {request.url.path}: {error.detail}"
    return as_json(failures.response(error.status_code, message, code=None))


async def any_error(request: Request, error: Exception) -> Response:
    """Return an unexpected error, in OpenAI's format."""
    return as_json(failures.of(error))


async def _metrics(request: Request) -> Response:
    import prometheus_client  # imported only when metrics are requested

    return Response(prometheus_client.generate_latest(), media_type="text/plain; version=0.0.4")
