"""The seam to what runs a model: everything above asks an engine through this, whichever it is."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from skate.llm.adapter_folder import AdapterFolder
from skate.llm.output import Embedding, Increment, ModelInfo
from skate.llm.sampling import SamplingParams


@dataclass(frozen=True)
class EngineArgs:
    """What an engine is made of.

    Args:
        model: a name or folder of weights.
        tokenizer: where the tokenizer is, if not with the model.
        kwargs: the engine's own arguments, as vLLM names them.
        task: "generate", "embed", "classify" or "score".
        lora_folder: where adapters are, each in a folder of its name.
        max_loras: how many adapters are held at once.
        lora_timeout_s: a download of an adapter may take; None for any time.
        lora_tries: how often it is tried.
        log_stats: whether the engine logs figures of its own.
    """

    model: str
    tokenizer: str | None = None
    kwargs: dict[str, Any] = field(default_factory=dict)
    task: str = "generate"
    lora_folder: str | None = None
    max_loras: int = 16
    lora_timeout_s: float | None = None
    lora_tries: int = 3
    log_stats: bool = False

    def adapters(self) -> AdapterFolder:
        """Where adapters lie."""
        return AdapterFolder(self.lora_folder, self.lora_tries)


class Text(Protocol):
    """A model's tokenizer."""

    def encode(self, text: str, special: bool = True) -> list[int]:
        """The tokens of a text; with those that the model wants in front of every text if `special`."""

    def decode(self, tokens: Sequence[int], skip_special: bool = True) -> str:
        """The text of tokens."""

    def chat(self, messages: Sequence[dict[str, Any]], template: str | None = None, **options: Any) -> str:
        """Messages as one prompt, which has the special tokens in it. Raises BadRequest without a template."""

    def token(self, token: int) -> str:
        """The text of one token alone."""

    def token_bytes(self, token: int) -> list[int] | None:
        """The bytes that a token stands for, if they are known."""


class Engine(Protocol):
    """What runs a model for many requests at once. Its methods are called from any event loop of its process."""

    @property
    def text(self) -> Text:
        """The model's tokenizer, from `start` on."""

    async def start(self) -> None:
        """Load the model; returns when requests can come. Raises what is wrong with the model or the arguments."""

    def generate(
        self,
        prompt: str | Sequence[int],
        params: SamplingParams,
        request_id: str,
        adapter: str | None = None,
        every_s: float = 0.0,
    ) -> AsyncGenerator[Increment, None]:
        """Yield increments of the answers until each has a finish reason.

        Increments within `every_s` seconds are put together (see skate.llm.pacing.Pace).

        Closing the iterator aborts the request. Raises BadRequest, Overloaded or EngineStopped.
        """

    async def embed(
        self, prompt: str | Sequence[int], request_id: str, adapter: str | None = None
    ) -> Embedding:
        """A prompt as a vector."""

    async def abort(self, request_id: str) -> None:
        """End a request; its iterator gets an increment with the finish reason "abort". Unknown ids are nothing."""

    async def check_health(self) -> None:
        """Raises EngineStopped if requests get no answer any more."""

    def info(self) -> ModelInfo:
        """What is known of the model."""

    async def stop(self) -> None:
        """Give back what the model took. Requests under way end with EngineStopped."""


EngineFactory = Callable[[EngineArgs], Engine]
