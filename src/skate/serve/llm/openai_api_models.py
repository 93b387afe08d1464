"""The classes of OpenAI's requests and responses."""

from __future__ import annotations

from skate.llm.openai.requests import (
    ChatCompletionRequest,
    CompletionRequest,
    DetokenizeRequest,
    EmbeddingChatRequest,
    EmbeddingCompletionRequest,
    EmbeddingRequest,
    ScoreRequest,
    TokenizeChatRequest,
    TokenizeCompletionRequest,
)
from skate.llm.openai.responses import (
    ChatCompletionResponse,
    ChatCompletionStreamResponse,
    CompletionResponse,
    CompletionStreamResponse,
    DetokenizeResponse,
    EmbeddingResponse,
    ErrorInfo,
    ErrorResponse,
    ModelCard,
    ModelList,
    ScoreResponse,
    TokenizeResponse,
)

__all__ = [
    "ChatCompletionRequest",
    "ChatCompletionResponse",
    "ChatCompletionStreamResponse",
    "CompletionRequest",
    "CompletionResponse",
    "CompletionStreamResponse",
    "DetokenizeRequest",
    "DetokenizeResponse",
    "EmbeddingChatRequest",
    "EmbeddingCompletionRequest",
    "EmbeddingRequest",
    "EmbeddingResponse",
    "ErrorInfo",
    "ErrorResponse",
    "ModelCard",
    "ModelList",
    "ScoreRequest",
    "ScoreResponse",
    "TokenizeChatRequest",
    "TokenizeCompletionRequest",
    "TokenizeResponse",
]
