"""The interface to model engines: an engine is started in a worker, given rows and stopped."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol


@dataclass(frozen=True)
class EngineSpec:
    """The parameters of an engine: a model, a task and the user's engine arguments."""

    model: str
    task_type: str = "generate"
    kwargs: dict[str, Any] = field(default_factory=dict)
    max_pending_requests: int | None = None
    dynamic_lora_loading_path: str | None = None
    log_metrics: bool = True


class Engine(Protocol):
    """Runs a model in a worker. Several threads may pass batches at the same time."""

    def start(self) -> None:
        """Load the model; returns once it accepts requests."""

    def generate(self, rows: Sequence[dict[str, Any]]) -> Sequence[dict[str, Any] | Exception]:
        """Return the result of each row, in order: columns to add to it, or the error.

        A row has `prompt` or `tokenized_prompt`, and `sampling_params` or `pooling_params`. Results have
        generated_text, generated_tokens, num_generated_tokens, num_input_tokens, prompt, prompt_token_ids,
        embeddings, metrics, logprobs and prompt_logprobs, as far as the engine knows them. An exception fails
        the worker's batch.
        """

    def stop(self) -> None:
        """Release the resources of the model."""


class TextModel(Protocol):
    """Converts messages to prompts and text to tokens for a model."""

    def chat(self, messages: list[dict[str, Any]], template: str | None, kwargs: dict[str, Any]) -> str:
        """Format messages in OpenAI's format as one prompt."""

    def encode(self, texts: list[str]) -> list[list[int]]:
        """Return the tokens of each text."""

    def decode(self, tokens: list[list[int]]) -> list[str]:
        """Return the text of each list of tokens, without special tokens."""


EngineFactory = Callable[[EngineSpec], Engine]
#: Called with the model's name or path, and True if code that comes with it may run.
TextModelFactory = Callable[[str, bool], TextModel]
