"""OpenAI's requests and answers, as classes."""

from __future__ import annotations

from skate.llm.openai.requests import (
    ChatCompletionRequest,
    CompletionRequest,
    DetokenizeRequest,
    EmbeddingChatRequest,
    EmbeddingCompletionRequest,
    EmbeddingRequest,
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
    "TokenizeChatRequest",
    "TokenizeCompletionRequest",
    "TokenizeResponse",
]
