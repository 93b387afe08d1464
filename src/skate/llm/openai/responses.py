"""OpenAI's responses and errors."""

from __future__ import annotations

import time
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, SerializerFunctionWrapHandler, model_serializer
from starlette.responses import Response


def _now() -> int:
    return int(time.time())


class ErrorInfo(BaseModel):
    """The content of an error."""

    message: str
    type: str
    param: str | None = None
    code: str | int | None = None


class ErrorResponse(BaseModel):
    """An error in OpenAI's format. `status` is the HTTP status; the body excludes it."""

    error: ErrorInfo
    status: int = Field(500, exclude=True)


class PromptTokensDetails(BaseModel):
    """The number of prompt tokens found in the cache."""

    cached_tokens: int = 0


class Usage(BaseModel):
    """The token counts of a request."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    total_tokens: int = 0
    prompt_tokens_details: PromptTokensDetails | None = None

    @classmethod
    def of(cls, prompt: int, completion: int, cached: int = 0) -> Usage:
        """Return the usage with the total."""
        details = PromptTokensDetails(cached_tokens=cached) if cached else None
        return cls(
            prompt_tokens=prompt,
            completion_tokens=completion,
            total_tokens=prompt + completion,
            prompt_tokens_details=details,
        )


class AnswerMessage(BaseModel):
    """The model's message. Calls and reasoning are left out if there are none."""

    role: str = "assistant"
    content: str | None = None
    refusal: str | None = None
    tool_calls: list[dict[str, Any]] | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None

    @model_serializer(mode="wrap")
    def _without_absent(self, serialized: SerializerFunctionWrapHandler) -> dict[str, Any]:
        found: dict[str, Any] = serialized(self)
        for name in ("tool_calls", "reasoning", "reasoning_content"):
            if found[name] is None:
                del found[name]
        return found


class ChatChoice(BaseModel):
    """One of n answers."""

    index: int
    message: AnswerMessage
    logprobs: dict[str, Any] | None = None
    finish_reason: str | None = None
    stop_reason: str | int | None = None


class ChatCompletionResponse(BaseModel):
    """The response to a ChatCompletionRequest without streaming."""

    id: str
    object: str = "chat.completion"
    created: int = Field(default_factory=_now)
    model: str
    choices: list[ChatChoice]
    usage: Usage
    prompt_logprobs: list[dict[str, Any] | None] | None = None
    kv_transfer_params: dict[str, Any] | None = None


class ChatCompletionStreamResponse(BaseModel):
    """One event of a stream."""

    id: str
    object: str = "chat.completion.chunk"
    created: int = Field(default_factory=_now)
    model: str
    choices: list[dict[str, Any]]
    usage: Usage | None = None


class CompletionChoice(BaseModel):
    """One of n answers to one of the prompts."""

    index: int
    text: str
    logprobs: dict[str, Any] | None = None
    finish_reason: str | None = None
    stop_reason: str | int | None = None
    prompt_logprobs: list[dict[str, Any] | None] | None = None


class CompletionResponse(BaseModel):
    """The response to a CompletionRequest without streaming."""

    id: str
    object: str = "text_completion"
    created: int = Field(default_factory=_now)
    model: str
    choices: list[CompletionChoice]
    usage: Usage
    kv_transfer_params: dict[str, Any] | None = None


class CompletionStreamResponse(BaseModel):
    """One event of a stream."""

    id: str
    object: str = "text_completion"
    created: int = Field(default_factory=_now)
    model: str
    choices: list[dict[str, Any]]
    usage: Usage | None = None


class EmbeddingData(BaseModel):
    """The vector of one input; base64 of little-endian float32 if requested."""

    object: str = "embedding"
    index: int
    embedding: list[float] | str


class EmbeddingUsage(BaseModel):
    """The token counts of the inputs."""

    prompt_tokens: int
    total_tokens: int


class EmbeddingResponse(BaseModel):
    """The response to an EmbeddingRequest."""

    id: str
    object: str = "list"
    model: str
    data: list[EmbeddingData]
    usage: EmbeddingUsage


class ScoreData(BaseModel):
    """The similarity of two texts, from -1 to 1 by embeddings."""

    index: int
    object: str = "score"
    score: float


class ScoreResponse(BaseModel):
    """The response to a ScoreRequest."""

    id: str
    object: str = "list"
    created: int = Field(default_factory=_now)
    model: str
    data: list[ScoreData]
    usage: Usage


class RerankDocument(BaseModel):
    """The text of a document."""

    text: str


class RerankResult(BaseModel):
    """A document with its place in the request, and its score."""

    index: int
    document: RerankDocument
    relevance_score: float


class RerankUsage(BaseModel):
    """The token counts of a rerank request."""

    prompt_tokens: int
    total_tokens: int


class RerankResponse(BaseModel):
    """The response to a RerankRequest, the most relevant document first."""

    id: str
    model: str
    usage: RerankUsage
    results: list[RerankResult]


class TokenizeResponse(BaseModel):
    """The tokens of a text."""

    tokens: list[int]
    count: int
    max_model_len: int
    token_strs: list[str] | None = None


class DetokenizeResponse(BaseModel):
    """The text of tokens."""

    prompt: str


class ModelCard(BaseModel):
    """An available model."""

    id: str
    object: str = "model"
    created: int = Field(default_factory=_now)
    owned_by: str = "skate"
    permission: list[str] = []
    metadata: dict[str, Any] = {}


class ModelList(BaseModel):
    """All available models."""

    object: str = "list"
    data: list[ModelCard]


class AudioResponse(BaseModel):
    """The text of audio, with the other fields of vLLM's response, such as segments of verbose ones."""

    model_config = ConfigDict(extra="allow")

    text: str


def as_json(found: Any) -> Response:
    """Convert to an HTTP response."""
    status = found.status if isinstance(found, ErrorResponse) else 200
    headers = {"retry-after": "1"} if status in (429, 503) else None
    return Response(found.model_dump_json(), status, headers, "application/json")
