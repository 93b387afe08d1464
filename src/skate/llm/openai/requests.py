"""OpenAI's requests, with vLLM's additional sampling fields. Unknown fields are rejected, as OpenAI does."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator

Tokens = list[int]
#: The most messages of a conversation, parts of a message, and prompts or inputs of a request.
MESSAGES_MAX, PARTS_MAX, PROMPTS_MAX = 4096, 1024, 2048


def _number(value: Any) -> Any:
    """Reject values that pydantic would convert to a number: booleans and strings."""
    if isinstance(value, (bool, str)):
        raise ValueError("it must be a number")
    return value


Int = Annotated[int, BeforeValidator(_number)]
Float = Annotated[float, BeforeValidator(_number)]


class Request(BaseModel):
    """Base class of requests. Rejects unknown fields."""

    model_config = ConfigDict(extra="forbid", protected_namespaces=())

    model: str | None = None
    user: str | None = None


class StreamOptions(BaseModel):
    """Options of a stream."""

    model_config = ConfigDict(extra="ignore")

    include_usage: bool = False


class GenerateRequest(Request):
    """Base class of generation requests."""

    stream: bool = False
    stream_options: StreamOptions | None = None
    n: Int = Field(1, ge=1, le=128)
    max_tokens: Int | None = Field(None, ge=1)
    temperature: Float | None = Field(None, ge=0, le=2)
    top_p: Float | None = Field(None, ge=0, le=1)
    seed: Int | None = None
    stop: str | list[str] | None = None
    presence_penalty: Float | None = Field(None, ge=-2, le=2)
    frequency_penalty: Float | None = Field(None, ge=-2, le=2)
    logit_bias: dict[int, Float] | None = None
    # vLLM's.
    top_k: Int | None = None
    min_p: Float | None = None
    repetition_penalty: Float | None = None
    min_tokens: Int | None = None
    stop_token_ids: list[int] | None = None
    ignore_eos: bool | None = None
    include_stop_str_in_output: bool | None = None
    skip_special_tokens: bool | None = None
    request_id: str | None = None
    kv_transfer_params: dict[str, Any] | None = None
    structured_outputs: dict[str, Any] | None = None
    prompt_logprobs: Int | None = Field(None, ge=-1)
    use_beam_search: bool = False
    length_penalty: Float = Field(1.0, ge=-100, le=100)

    @field_validator("stop")
    @classmethod
    def _few_stops(cls, value: Any) -> Any:
        if isinstance(value, list) and len(value) > 16:
            raise ValueError("stop may contain at most 16 strings")
        return value

    @field_validator("stream_options")
    @classmethod
    def _only_streams(cls, value: Any, info: Any) -> Any:
        if value is not None and not info.data.get("stream"):
            raise ValueError("stream_options requires stream=true")
        return value


class ContentPart(BaseModel):
    """A part of a message."""

    model_config = ConfigDict(extra="allow")

    type: str
    text: str | None = None


class ChatMessage(BaseModel):
    """A message. The chat template receives additional fields unchanged."""

    model_config = ConfigDict(extra="allow")

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: str | Annotated[list[ContentPart], Field(max_length=PARTS_MAX)] | None = None
    name: str | None = None


class ChatCompletionRequest(GenerateRequest):
    """POST /v1/chat/completions."""

    messages: list[ChatMessage] = Field(min_length=1, max_length=MESSAGES_MAX)
    max_completion_tokens: Int | None = Field(None, ge=1)
    logprobs: bool | None = None
    top_logprobs: Int | None = Field(None, ge=0, le=20)
    tools: list[dict[str, Any]] | None = None
    tool_choice: str | dict[str, Any] | None = None
    parallel_tool_calls: bool | None = None
    functions: list[dict[str, Any]] | None = None
    function_call: str | dict[str, Any] | None = None
    response_format: dict[str, Any] | None = None
    modalities: list[str] | None = None
    audio: dict[str, Any] | None = None
    prediction: dict[str, Any] | None = None
    web_search_options: dict[str, Any] | None = None
    # Accepted without effect.
    metadata: dict[str, Any] | None = None
    store: bool | None = None
    service_tier: str | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None
    prompt_cache_retention: str | None = None
    reasoning_effort: str | None = None
    verbosity: str | None = None
    # vLLM's.
    chat_template: str | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    add_generation_prompt: bool | None = None
    continue_final_message: bool | None = None


class CompletionRequest(GenerateRequest):
    """POST /v1/completions."""

    prompt: str | Tokens | list[str] | list[Tokens]
    max_tokens: Int | None = Field(16, ge=0)
    logprobs: Int | None = Field(None, ge=0, le=5)
    echo: bool = False
    best_of: Int | None = None
    suffix: str | None = None


class EmbeddingCompletionRequest(Request):
    """POST /v1/embeddings."""

    input: str | Tokens | list[str] | list[Tokens]
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: Int | None = Field(None, ge=1)
    request_id: str | None = None


class ConversationRequest(Request):
    """Base class of requests that need the tokens of a conversation, but no answer to it."""

    messages: list[ChatMessage] = Field(min_length=1, max_length=MESSAGES_MAX)
    add_generation_prompt: bool | None = None
    continue_final_message: bool = False
    chat_template: str | None = None
    chat_template_kwargs: dict[str, Any] | None = None


class EmbeddingChatRequest(ConversationRequest):
    """POST /v1/embeddings for a conversation; without the prompt for an answer, unless requested."""

    encoding_format: Literal["float", "base64"] = "float"
    dimensions: Int | None = Field(None, ge=1)
    request_id: str | None = None


EmbeddingRequest = EmbeddingCompletionRequest | EmbeddingChatRequest


class ScoreRequest(Request):
    """POST /v1/score: the similarity of one text to each of several, or of pairs of texts."""

    text_1: str | list[str]
    text_2: str | list[str]
    encoding_format: Literal["float"] = "float"
    request_id: str | None = None


class RerankRequest(Request):
    """POST /v1/rerank: documents by their relevance for a query; `top_n` of 0 returns all."""

    query: str
    documents: str | list[str]
    top_n: Int = Field(0, ge=0)
    request_id: str | None = None


class AudioRequest(Request):
    """POST /v1/audio/transcriptions and /v1/audio/translations.

    Args:
        audio: the content of the file.
        fields: the other fields, which the engine checks.
    """

    audio: bytes
    fields: dict[str, Any] = Field(default_factory=dict)
    stream: bool = False


class TokenizeCompletionRequest(Request):
    """POST /tokenize for a text."""

    prompt: str
    add_special_tokens: bool = True
    return_token_strs: bool = False


class TokenizeChatRequest(ConversationRequest):
    """POST /tokenize for a conversation; with the prompt for an answer, unless it continues the last message."""

    return_token_strs: bool = False


TokenizeRequest = TokenizeCompletionRequest | TokenizeChatRequest


class DetokenizeRequest(Request):
    """POST /detokenize."""

    tokens: Tokens
