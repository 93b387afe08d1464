"""The interface of engines. The layers above use every engine through it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol, TypeGuard

from skate.llm.adapter_folder import AdapterFolder
from skate.llm.output import Embedding, Increment, ModelInfo, Score
from skate.llm.sampling import SamplingParams


@dataclass(frozen=True)
class EngineArgs:
    """The arguments of an engine.

    Args:
        model: a name or folder of weights.
        tokenizer: the tokenizer's location if it is not stored with the model.
        kwargs: the engine's own arguments, under vLLM's names.
        task: "generate", "embed", "classify" or "score".
        lora_folder: the folder of adapters, each in a subfolder of its name.
        max_loras: the number of adapters held at once.
        lora_timeout_s: the timeout of an adapter download in seconds; None for no limit.
        lora_tries: the number of download attempts.
        log_stats: True if the engine logs its own statistics.
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
        """Return the folder of adapters."""
        return AdapterFolder(self.lora_folder, self.lora_tries)


class Text(Protocol):
    """A model's tokenizer."""

    def encode(self, text: str, special: bool = True) -> list[int]:
        """Return the tokens of a text, including the model's leading special tokens if `special`."""

    def decode(self, tokens: Sequence[int], skip_special: bool = True) -> str:
        """Return the text of tokens."""

    def chat(self, messages: Sequence[dict[str, Any]], template: str | None = None, **options: Any) -> str:
        """Return messages as one prompt that includes the special tokens. Raises BadRequest without a template."""

    def token(self, token: int) -> str:
        """Return the text of a single token."""

    def token_bytes(self, token: int) -> list[int] | None:
        """Return the bytes of a token, or None if they are not known."""


class Engine(Protocol):
    """Runs a model for many requests at once. Any event loop of its process may call its methods."""

    @property
    def text(self) -> Text:
        """The model's tokenizer, available after `start`."""

    async def start(self) -> None:
        """Load the model and return once it accepts requests. Raises an error for a bad model or bad arguments."""

    def generate(
        self,
        prompt: str | Sequence[int],
        params: SamplingParams,
        request_id: str,
        adapter: str | None = None,
        every_s: float = 0.0,
    ) -> AsyncGenerator[Increment, None]:
        """Yield increments of the answers until each has a finish reason.

        Increments within `every_s` seconds are merged (see skate.llm.increment_batcher.IncrementBatcher).

        A MediaPrompt is a prompt only for the engine that has rendered it.
        Closing the iterator aborts the request. Raises BadRequest, Overloaded or EngineStopped.
        """

    async def embed(
        self, prompt: str | Sequence[int], request_id: str, adapter: str | None = None
    ) -> Embedding:
        """Compute the embedding of a prompt."""

    async def abort(self, request_id: str) -> None:
        """Abort a request; its iterator yields an increment with the finish reason "abort". Unknown ids are ignored."""

    async def check_health(self) -> None:
        """Raise EngineStopped if the engine no longer answers requests."""

    def info(self) -> ModelInfo:
        """Return the properties of the model."""

    async def stop(self) -> None:
        """Release the model's resources. Requests in progress end with EngineStopped."""


class SharedEngine(Engine, Protocol):
    """An engine that shares its steps between clients, so that the delay one client causes another is bounded."""

    shares_by_client: bool

    def generate(
        self,
        prompt: str | Sequence[int],
        params: SamplingParams,
        request_id: str,
        adapter: str | None = None,
        every_s: float = 0.0,
        client: str = "",
    ) -> AsyncGenerator[Increment, None]:
        """Yield increments of the answers for a client. All callers in the same process share the client ""."""

    async def embed(
        self, prompt: str | Sequence[int], request_id: str, adapter: str | None = None, client: str = ""
    ) -> Embedding:
        """Compute the embedding of a prompt for a client."""


class MediaEngine(Engine, Protocol):
    """An engine whose models may take images and other media in messages."""

    @property
    def media(self) -> frozenset[str]:
        """The kinds of media that this model takes: "image", "audio" and "video"; none for a model of texts."""

    async def render(
        self, messages: Sequence[dict[str, Any]], template: str | None, options: dict[str, Any]
    ) -> list[int]:
        """Return the tokens of a conversation by a chat template, the model's if None, with the template's options.

        If messages have media, the tokens are a MediaPrompt. Raises BadRequest.
        """


class AudioEngine(Engine, Protocol):
    """An engine whose model may write down what it hears."""

    @property
    def reads_audio(self) -> bool:
        """True if this model does."""

    def text_of_audio(
        self, task: str, audio: bytes, fields: dict[str, Any], model: str
    ) -> AsyncGenerator[str | dict[str, Any], None]:
        """Yield the response to a request, or the events of a stream. Raises BadRequest.

        Args:
            task: "transcribe", or "translate" for English text.
            audio: the content of an audio file.
            fields: the other fields of the request; `stream` requests events.
            model: the model's name for clients.
        """


class PairEngine(Engine, Protocol):
    """An engine whose model may score pairs of texts itself."""

    @property
    def scores_pairs(self) -> bool:
        """True if this model does."""

    async def score(self, one: str, other: str, request_id: str, adapter: str | None = None) -> Score:
        """Compute the score of a pair of texts."""


def takes_media(engine: Engine) -> TypeGuard[MediaEngine]:
    """Return True if an engine's model takes media in messages."""
    return bool(getattr(engine, "media", None))


def reads_audio(engine: Engine) -> TypeGuard[AudioEngine]:
    """Return True if an engine's model transcribes audio."""
    return bool(getattr(engine, "reads_audio", False))


def scores_pairs(engine: Engine) -> TypeGuard[PairEngine]:
    """Return True if an engine's model scores pairs of texts itself."""
    return bool(getattr(engine, "scores_pairs", False))


def shares_by_client(engine: Engine) -> TypeGuard[SharedEngine]:
    """Return True if an engine accepts the client of a request."""
    return bool(getattr(engine, "shares_by_client", False))


def generates_for(client: str, engine: Engine) -> Callable[..., AsyncGenerator[Increment, None]]:
    """Return the engine's `generate`, bound to the client if the engine accepts one."""
    return partial(engine.generate, client=client) if shares_by_client(engine) else engine.generate


def embeds_for(client: str, engine: Engine) -> Callable[..., Coroutine[Any, Any, Embedding]]:
    """Return the engine's `embed`, bound to the client if the engine accepts one."""
    return partial(engine.embed, client=client) if shares_by_client(engine) else engine.embed


EngineFactory = Callable[[EngineArgs], Engine]
