"""The embedded engine: transformers on the CPU, with the same interface as vLLM."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import AsyncGenerator, Sequence

from skate.llm.detokenizer import Detokenizer, StopTexts
from skate.llm.embedded.answer import Answer
from skate.llm.embedded.arguments import EmbeddedArguments
from skate.llm.embedded.batcher import Batcher, EmbedRequest
from skate.llm.embedded.model import Model
from skate.llm.embedded.sampler import Choice
from skate.llm.embedded.stream import Stream
from skate.llm.embedded.structured_output import Form, Forms
from skate.llm.engine import EngineArgs
from skate.llm.errors import BadRequest, EngineStopped, NotSupported, PromptTooLong
from skate.llm.output import Embedding, Increment, ModelInfo
from skate.llm.sampling import TOP_LOGPROBS_MAX, SamplingParams
from skate.llm.tokenizer import TransformersText


class EmbeddedEngine:
    """A transformers model with continuous batching in its own thread.

    The constructor raises ValueError for unsupported arguments, and `start` the errors of loading the model.
    """

    shares_by_client = True

    def __init__(self, args: EngineArgs) -> None:
        self._args = args
        self._given = EmbeddedArguments.of(args.kwargs)
        self._batcher = Batcher(self._load, num_threads=self._given.num_threads)
        self._numbers = itertools.count()
        self._own_ids: dict[str, list[str]] = {}
        self._folder = args.adapters()

    def _load(self) -> Model:
        source = self._args.tokenizer or self._args.model
        self.text = TransformersText(source, self._given.trust_remote_code)
        if self._given.chat_template is not None:
            self.text.tokenizer.chat_template = _template(self._given.chat_template)
        return Model(self._args, self._given, self._folder)

    async def start(self) -> None:
        """Load the model."""
        self._model = model = await asyncio.to_thread(self._batcher.start)
        self._forms = Forms(self.text.tokenizer, model.vocabulary, model.end_tokens)

    def info(self) -> ModelInfo:
        """Return the properties of the model."""
        model = self._model
        return ModelInfo(
            self._args.model,
            "embedded",
            model.limit,
            1 if model.embeds else model.cache.slots,
            model.vocabulary,
            tuple(model.end_tokens),
            model.adapters.names,
            model.parameters,
        )

    async def generate(
        self,
        prompt: str | Sequence[int],
        params: SamplingParams,
        request_id: str,
        adapter: str | None = None,
        every_s: float = 0.0,
        client: str = "",
    ) -> AsyncGenerator[Increment, None]:
        """Yield increments of the answers. Clients share the model's steps."""
        tokens = self._tokens(prompt)
        self._check(tokens, params)
        await self._fetched(adapter)
        forms: list[Form | None] = [None] * params.n
        form = params.extra.get("structured_outputs")
        if form:
            # Reading the tokenizer takes a second, and a malicious schema may take long.
            forms = await asyncio.to_thread(lambda: [self._forms.form(form) for _ in forms])
        stream = Stream(params.n, every_s)
        # Two callers may use the same id at once, and an abort of one must not reach the other.
        own_id = f"{request_id}#{next(self._numbers)}"
        answers = [
            self._answer(own_id, index, tokens, params, stream, form) for index, form in enumerate(forms)
        ]
        for each in answers:
            each.adapter, each.client = adapter, client
            each.prompt_logprobs = params.extra.get("prompt_logprobs")
        self._own_ids.setdefault(request_id, []).append(own_id)
        try:
            self._batcher.add(answers)
            while not stream.ended:
                yield await stream.next()
        finally:
            self._own_ids[request_id].remove(own_id)
            if not self._own_ids[request_id]:
                del self._own_ids[request_id]
            if not stream.ended:
                self._batcher.abort(own_id)

    def _answer(
        self,
        request_id: str,
        index: int,
        prompt: list[int],
        params: SamplingParams,
        stream: Stream,
        form: Form | None,
    ) -> Answer:
        model = self._model
        seed = params.seed if params.seed is not None else self._given.seed
        # Each of the n answers has its own random numbers, and they depend only on the request.
        mixed = None if seed is None else (seed << 16) + index
        skip = params.skip_special_tokens
        room = model.limit - len(prompt)
        return Answer(
            request_id,
            index,
            prompt,
            Choice(params, prompt, model.vocabulary, mixed, form),
            room if params.max_tokens is None else min(params.max_tokens, room),
            frozenset() if params.ignore_eos else model.end_tokens,
            frozenset(each for each in params.stop_token_ids if 0 <= each < model.vocabulary),
            Detokenizer(lambda tokens: self.text.decode(tokens, skip)),
            StopTexts(params.stop, params.include_stop_str_in_output),
            stream,
            arrived=self._batcher.clock(),
        )

    def _tokens(self, prompt: str | Sequence[int]) -> list[int]:
        tokens = self.text.encode(prompt) if isinstance(prompt, str) else list(prompt)
        if not tokens:
            raise BadRequest("the prompt is empty", "prompt")
        strange = [token for token in tokens if not 0 <= token < self._model.vocabulary]
        if strange:
            raise BadRequest(
                f"token {strange[0]} is not among the model's {self._model.vocabulary} tokens", "prompt"
            )
        return tokens

    def _check(self, tokens: list[int], params: SamplingParams) -> None:
        if not self._batcher.alive:
            raise EngineStopped("the engine is not running")
        if self._model.embeds:
            raise NotSupported("this model computes embeddings; it does not generate text", "model")
        names = sorted(set(params.extra) - {"structured_outputs", "prompt_logprobs"})
        if names:
            raise NotSupported(f"the embedded engine does not support {', '.join(names)}", names[0])
        scored = params.extra.get("prompt_logprobs", 0)
        if not isinstance(scored, int) or not 0 <= scored <= TOP_LOGPROBS_MAX:
            raise BadRequest(
                f"prompt_logprobs must be from 0 to {TOP_LOGPROBS_MAX} with the embedded engine, got {scored!r}",
                "prompt_logprobs",
            )
        limit = self._model.limit
        if len(tokens) >= limit:
            raise PromptTooLong(len(tokens), limit)
        for token in params.logit_bias or ():
            if not 0 <= token < self._model.vocabulary:
                raise BadRequest(f"logit_bias: there is no token {token}", "logit_bias")

    async def embed(
        self, prompt: str | Sequence[int], request_id: str, adapter: str | None = None, client: str = ""
    ) -> Embedding:
        """Return the mean of the last layer over the prompt's tokens, normalized to length 1."""
        tokens = self._tokens(prompt)
        if len(tokens) > self._model.limit:
            raise PromptTooLong(len(tokens), self._model.limit)
        if not self._batcher.alive:
            raise EngineStopped("the engine is not running")
        await self._fetched(adapter)
        loop = asyncio.get_running_loop()
        found: asyncio.Future[list[float]] = loop.create_future()

        def settle(result: list[float] | Exception) -> None:
            if found.done():
                return
            if isinstance(result, Exception):
                found.set_exception(result)
            else:
                found.set_result(result)

        def done(result: list[float] | Exception) -> None:
            try:
                loop.call_soon_threadsafe(settle, result)
            except RuntimeError:
                pass  # the loop is closed, so nothing waits for the result

        self._batcher.embed(EmbedRequest(tokens, adapter, done, client, request_id.rpartition("-")[0]))
        return Embedding(await found, len(tokens))

    async def reset_prefix_cache(self) -> None:
        """Drop the cached prefixes of earlier prompts."""
        self._batcher.forget()

    async def abort(self, request_id: str) -> None:
        """Abort a request."""
        for own_id in list(self._own_ids.get(request_id, ())):
            self._batcher.abort(own_id)

    async def check_health(self) -> None:
        """Raise EngineStopped if the thread has ended."""
        if not self._batcher.alive:
            raise EngineStopped("the engine's thread has ended")

    def has_adapter(self, name: str) -> bool:
        """Return True if there is a LoRA adapter with that name."""
        return self._folder.has(name)

    async def _fetched(self, adapter: str | None) -> None:
        """Download an adapter, so that no step waits for it."""
        if adapter is not None:
            path = asyncio.to_thread(self._folder.path, adapter)
            await asyncio.wait_for(path, self._args.lora_timeout_s)

    def load(self) -> tuple[int, int]:
        """Return the numbers of running and of waiting answers."""
        return self._batcher.load

    def figures(self) -> dict[str, float]:
        """Return the use of slots and cache."""
        return self._batcher.figures

    async def stop(self) -> None:
        """End the thread."""
        await asyncio.to_thread(self._batcher.stop)
        self._folder.close()


def _template(given: str) -> str:
    if "{" not in given and os.path.isfile(given):
        with open(given) as file:
            return file.read()
    return given
