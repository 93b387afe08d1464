"""One model for OpenAI's endpoints: converts requests for its engine, and results to OpenAI's formats."""

from __future__ import annotations

import asyncio
import os
import time
import uuid
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from typing import Any

from skate.llm.engine import Engine, embeds_for, generates_for, reads_audio, takes_media
from skate.llm.errors import BadRequest, NotSupported, PromptTooLong, UnknownModel
from skate.llm.increment_batcher import AT_THE_END
from skate.llm.media import MediaPrompt
from skate.llm.openai import beam_search, failures, logprobs, request_checks, scores, vectors
from skate.llm.openai.answers import collected, merged, prompt_alone, usage_of
from skate.llm.openai.beam_search import BeamSearch
from skate.llm.openai.chat_turn import ChatTurn, ChatTurns, of_tools
from skate.llm.openai.events import DONE, Events
from skate.llm.openai.metrics import Metrics
from skate.llm.openai.requests import (
    AudioRequest,
    ChatCompletionRequest,
    CompletionRequest,
    ConversationRequest,
    DetokenizeRequest,
    EmbeddingChatRequest,
    EmbeddingRequest,
    GenerateRequest,
    RerankRequest,
    ScoreRequest,
    TokenizeCompletionRequest,
    TokenizeRequest,
)
from skate.llm.openai.responses import (
    AnswerMessage,
    AudioResponse,
    ChatChoice,
    ChatCompletionResponse,
    CompletionChoice,
    CompletionResponse,
    DetokenizeResponse,
    EmbeddingData,
    EmbeddingResponse,
    EmbeddingUsage,
    TokenizeResponse,
    Usage,
)
from skate.llm.output import Embedding, Increment
from skate.llm.prompt_texts import Arranged, PromptTexts
from skate.llm.sampling import SamplingParams
from skate.llm.tool_calls.options import ToolOptions

Prompt = str | list[int]


class ModelService:
    """The methods that HTTP and handles call. Each yields one response, one error, or the events of a stream.

    Args:
        engine: an engine that has started.
        model: the model's name for clients.
        adapters: True if `model:adapter` selects a LoRA adapter of the engine.
        metrics: the metrics to record; None for none.
        stream_interval_s: the tokens of a stream within this many seconds are sent as one event, but the first token
            immediately; 0 for one event per token.
        trust_request_chat_template: True to accept chat templates in requests; they are programs of unlimited run time.
        tools: how the model calls tools; None if it may not choose to. Raises ValueError for unknown parsers.
    """

    def __init__(
        self,
        engine: Engine,
        model: str,
        *,
        adapters: bool = False,
        metrics: Metrics | None = None,
        stream_interval_s: float = 0.0,
        trust_request_chat_template: bool = False,
        tools: ToolOptions | None = None,
    ) -> None:
        self._turns = ChatTurns(engine, model, tools or ToolOptions(), trust_request_chat_template)
        self._trusts_templates = trust_request_chat_template
        self._interval_s = stream_interval_s
        self.engine = engine
        self.model = model
        self._adapters = adapters
        self._metrics = metrics
        self._texts = PromptTexts(lambda: engine.text, lambda: engine.info().max_model_len)

    def chat(self, request: ChatCompletionRequest, client: str = "") -> AsyncGenerator[Any, None]:
        """Answer POST /v1/chat/completions."""
        return self._answered(request, of_tools(request, self._chat(request, time.perf_counter(), client)))

    def completions(self, request: CompletionRequest, client: str = "") -> AsyncGenerator[Any, None]:
        """Answer POST /v1/completions."""
        return self._answered(request, self._completions(request, time.perf_counter(), client))

    def embeddings(self, request: EmbeddingRequest, client: str = "") -> AsyncGenerator[Any, None]:
        """Answer POST /v1/embeddings."""
        return self._answered(request, self._embeddings(request, client))

    async def tokenize(self, request: TokenizeRequest, client: str = "") -> AsyncGenerator[Any, None]:
        """Answer POST /tokenize."""
        try:
            yield await self._tokenized(request, client)
        except Exception as error:  # the caller receives the error as a response
            yield failures.of(error)

    async def detokenize(self, request: DetokenizeRequest, client: str = "") -> AsyncGenerator[Any, None]:
        """Answer POST /detokenize."""
        try:
            text = await self._texts.apart(
                len(request.tokens), lambda: self.engine.text.decode(request.tokens, False), client
            )
            yield DetokenizeResponse(prompt=text)
        except Exception as error:  # tokens may be any numbers
            yield failures.of(BadRequest(f"tokens must be tokens of the model: {error}", "tokens"))

    async def _answered(self, request: Any, work: AsyncGenerator[Any, None]) -> AsyncGenerator[Any, None]:
        """Yield the results or the error, as an event if a stream has begun."""
        metrics = self._metrics
        ended, began = "aborted", False
        if metrics is not None:
            metrics.running.inc()
        try:
            async with aclosing(work):
                async for each in work:
                    began = True
                    yield each
            ended = "ok"
        except Exception as error:  # the caller receives any error in OpenAI's format
            found = failures.of(error)
            ended = "error"
            if began:
                yield f"data: {found.model_dump_json()}\n\n" + DONE
            else:
                yield found
        finally:
            if metrics is not None:
                metrics.running.dec()
                metrics.end(ended)

    def has_adapter(self, name: str | None) -> bool:
        """Return True if the model can answer requests to `model:name`."""
        finds = getattr(self.engine, "has_adapter", None)
        return name is None or (self._adapters and finds is not None and bool(finds(name)))

    def _adapter(self, requested: str | None) -> str | None:
        if requested is None or requested == self.model:
            return None
        if requested.startswith(self.model + ":") and self._adapters:
            return requested[len(self.model) + 1 :]
        raise UnknownModel(requested, (self.model,))

    async def _tokens(self, prompts: Sequence[Prompt], client: str) -> list[list[int]]:
        return [
            await self._texts.encode(each, client=client) if isinstance(each, str) else each
            for each in prompts
        ]

    async def _embed(
        self, prompts: Sequence[list[int]], request_id: str, adapter: str | None, client: str
    ) -> list[Embedding]:
        embed = embeds_for(client, self.engine)
        return await asyncio.gather(
            *(embed(each, f"{request_id}-{at}", adapter) for at, each in enumerate(prompts))
        )

    async def _increments(
        self,
        prompts: Sequence[Prompt],
        params: SamplingParams,
        request: GenerateRequest,
        request_id: str,
        started: float,
        client: str,
    ) -> AsyncGenerator[tuple[int, Increment], None]:
        """Yield increments of the answers to all prompts, each with the number of its answer among all."""
        adapter = self._adapter(request.model)
        tokens = await self._tokens(prompts, client)
        limit = self.engine.info().max_model_len
        for each in tokens:
            if params.max_tokens is not None and len(each) + params.max_tokens > limit and len(each) < limit:
                raise PromptTooLong(len(each), limit, params.max_tokens)
        every_s = self._interval_s if request.stream else AT_THE_END
        requested_at = time.perf_counter()
        generate = generates_for(client, self.engine)
        names = [f"{request_id}-{number}-{os.urandom(4).hex()}" for number in range(len(tokens))]
        if request.use_beam_search:
            streams = [
                self._beams(generate, each, params, request, name, adapter)
                for each, name in zip(tokens, names, strict=True)
            ]
        else:
            streams = [
                generate(each, params, name, adapter, every_s)
                for each, name in zip(tokens, names, strict=True)
            ]
        if request.max_tokens == 0:
            streams = list(map(prompt_alone, streams))
        first, ends = True, {}
        async with aclosing(merged(streams)) as found:
            async for number, new in found:
                if first and self._metrics is not None:
                    # Without streaming, no client waits for the first token.
                    back = time.perf_counter() - requested_at if request.stream else new.ttft_s or 0.0
                    self._metrics.first(requested_at - started + back, new.ttft_s)
                first = False
                at = number * params.n + new.index
                if new.finish_reason is not None:
                    ends[at] = new
                yield at, new
        if self._metrics is not None:
            self._metrics.prompt.inc(sum(map(len, tokens)))
            generated = sum(each.completion_tokens for each in ends.values())
            self._metrics.generated.inc(generated)
            self._metrics.speed.observe(generated / (time.perf_counter() - started))

    def _beams(
        self,
        generate: Callable[..., AsyncGenerator[Increment, None]],
        prompt: list[int],
        params: SamplingParams,
        request: GenerateRequest,
        request_id: str,
        adapter: str | None,
    ) -> AsyncGenerator[Increment, None]:
        limit = self.engine.info().max_model_len
        if len(prompt) >= limit:
            raise PromptTooLong(len(prompt), limit)
        if isinstance(prompt, MediaPrompt):
            raise BadRequest("use_beam_search does not work with media in messages", "use_beam_search")
        left = limit - len(prompt)
        return BeamSearch(
            lambda tokens, step, number: generate(
                tokens, step, f"{request_id}-{number}", adapter, AT_THE_END
            ),
            prompt,
            params,
            length_penalty=request.length_penalty,
            ends=beam_search.ends_of(self.engine),
            most=left if params.max_tokens is None else min(params.max_tokens, left),
            decode=self.engine.text.decode,
        ).answers()

    async def _chat(
        self, request: ChatCompletionRequest, started: float, client: str
    ) -> AsyncGenerator[Any, None]:
        turn = self._turns.turn(request)
        text = self.engine.text
        tokens = await self._conversation(turn.messages, turn.template, turn.options, client, turn.arranged)
        request_id = f"chatcmpl-{request.request_id or uuid.uuid4().hex}"
        found = self._increments([tokens], turn.params, request, request_id, started, client)
        count = turn.params.n
        turn.begin(tokens)
        if request.stream:
            async with aclosing(
                self._streamed(found, request, request_id, len(tokens), count, turn=turn)
            ) as events:
                async for event in events:
                    yield event
            return
        answers = await collected(found, count)
        yield ChatCompletionResponse(
            id=request_id,
            model=request.model or self.model,
            choices=[
                ChatChoice(
                    index=index,
                    message=AnswerMessage(**turn.message(index, answers.texts[index], answers.tokens[index])),
                    logprobs=logprobs.of_chat(answers.logprobs[index], text) if request.logprobs else None,
                    finish_reason=turn.finish_reason(end),
                    stop_reason=end.stop_reason,
                )
                for index, end in enumerate(answers.ends)
                if end is not None
            ],
            usage=usage_of(len(tokens), answers),
            prompt_logprobs=logprobs.of_vllm(answers.prompt_logprobs.get(0), text),
            kv_transfer_params=answers.kv_transfer_params,
        )

    async def _conversation(
        self,
        messages: Sequence[dict[str, Any]],
        template: str | None,
        options: dict[str, Any],
        client: str,
        arranged: Arranged | None = None,
    ) -> list[int]:
        """Return the tokens of a conversation; a model that takes media has a renderer for all of them."""
        render = self.engine.render if takes_media(self.engine) else None
        return await self._texts.chat(messages, template, options, client, arranged, render)

    async def _unanswered(
        self, request: ConversationRequest, client: str, generation_prompt: bool
    ) -> list[int]:
        """Return the tokens of a conversation that is not answered, with the prompt for an answer by default or not."""
        takes = self.engine.media if takes_media(self.engine) else frozenset()
        messages = request_checks.plain_messages(request.messages, request.model or self.model, takes)
        options = request_checks.conversation_options(request, self._trusts_templates, generation_prompt)
        return await self._conversation(messages, options.pop("chat_template", None), options, client)

    async def _completions(
        self, request: CompletionRequest, started: float, client: str
    ) -> AsyncGenerator[Any, None]:
        params = request_checks.completion_params(request)
        text = self.engine.text
        given = request_checks.prompts_of(request.prompt, "prompt")
        tokens = await self._tokens(given, client)
        echoed = [""] * len(given)
        if request.echo:
            echoed = [each if isinstance(each, str) else text.decode(each) for each in given]
        request_id = f"cmpl-{request.request_id or uuid.uuid4().hex}"
        found = self._increments(tokens, params, request, request_id, started, client)
        count, prompt_tokens = len(given) * params.n, sum(map(len, tokens))
        if request.stream:
            stream = self._streamed(found, request, request_id, prompt_tokens, count, echoed, tokens)
            async with aclosing(stream) as events:
                async for event in events:
                    yield event
            return
        answers = await collected(found, count)
        of_prompts = {
            at // params.n: logprobs.of_vllm(each, text) for at, each in answers.prompt_logprobs.items()
        }
        yield CompletionResponse(
            id=request_id,
            model=request.model or self.model,
            choices=[
                CompletionChoice(
                    index=index,
                    text=echoed[index // params.n] + answers.texts[index],
                    logprobs=None
                    if request.logprobs is None
                    else logprobs.of_whole(
                        tokens[index // params.n],
                        answers.prompt_logprobs.get(index // params.n * params.n) if request.echo else None,
                        answers.logprobs[index],
                        text,
                        request.logprobs,
                    ),
                    finish_reason=end.finish_reason,
                    stop_reason=end.stop_reason,
                    prompt_logprobs=of_prompts.get(index // params.n),
                )
                for index, end in enumerate(answers.ends)
                if end is not None
            ],
            usage=usage_of(prompt_tokens, answers),
            kv_transfer_params=answers.kv_transfer_params,
        )

    async def _streamed(
        self,
        found: AsyncGenerator[tuple[int, Increment], None],
        request: ChatCompletionRequest | CompletionRequest,
        request_id: str,
        prompt_tokens: int,
        count: int,
        echoed: Sequence[str] = (),
        tokens: Sequence[list[int]] = (),
        turn: ChatTurn | None = None,
    ) -> AsyncGenerator[str, None]:
        """Yield the events of all answers."""
        chat = isinstance(request, ChatCompletionRequest)
        with_usage = request.stream_options is not None and request.stream_options.include_usage
        kind = "chat.completion.chunk" if chat else "text_completion"
        events = Events(kind, request_id, request.model or self.model, with_usage)
        begun = [False] * count
        offsets = [0] * count
        generated = [0] * count
        cached = 0
        async with aclosing(found):
            async for at, new in found:
                before, generated[at] = "", new.completion_tokens
                cached += new.cached_tokens
                if not begun[at]:
                    begun[at] = True
                    if chat:
                        before = events.first(at)
                    elif any(echoed):
                        number = at * len(echoed) // count
                        of_prompt = None
                        if new.prompt_logprobs is not None:
                            of_prompt, offsets[at] = logprobs.of_prompt(
                                tokens[number], new.prompt_logprobs, self.engine.text, request.logprobs or 0
                            )
                        before = events.text(at, echoed[number], of_prompt, None, None)
                logs = None
                if new.logprobs is not None:
                    if chat:
                        logs = logprobs.of_chat(new.logprobs, self.engine.text)
                    else:
                        logs, offsets[at] = logprobs.of_completion(
                            new.logprobs, self.engine.text, offsets[at]
                        )
                if turn is not None and turn.reads:
                    delta = turn.delta(new)
                    if delta or new.finish_reason is not None or logs is not None:
                        end = turn.finish_reason(new)
                        yield before + events.delta(at, delta, logs, end, new.stop_reason)
                    elif before:
                        yield before
                elif new.text or new.finish_reason is not None or logs is not None:
                    yield before + events.text(at, new.text, logs, new.finish_reason, new.stop_reason)
                elif before:
                    yield before
        last = Usage.of(prompt_tokens, sum(generated), cached).model_dump()
        yield (events.usage(last) if with_usage else "") + DONE

    async def _embeddings(self, request: EmbeddingRequest, client: str) -> AsyncGenerator[Any, None]:
        if isinstance(request, EmbeddingChatRequest):
            tokens = [await self._unanswered(request, client, generation_prompt=False)]
        else:
            given = request_checks.prompts_of(request.input, "input")
            if any(not each for each in given):
                raise BadRequest("input contains an empty text", "input")
            tokens = await self._tokens(given, client)
        if not all(tokens):
            raise BadRequest("the chat template leaves nothing of these messages", "messages")
        adapter = self._adapter(request.model)
        request_id = f"embd-{request.request_id or uuid.uuid4().hex}"
        made = await self._embed(tokens, request_id, adapter, client)
        if request.dimensions is not None:
            made = [vectors.shortened(each, request.dimensions) for each in made]
        packed = request.encoding_format == "base64"
        count = sum(each.prompt_tokens for each in made)
        yield EmbeddingResponse(
            id=request_id,
            model=request.model or self.model,
            data=[
                EmbeddingData(index=index, embedding=vectors.packed(each.vector) if packed else each.vector)
                for index, each in enumerate(made)
            ],
            usage=EmbeddingUsage(prompt_tokens=count, total_tokens=count),
        )
        if self._metrics is not None:
            self._metrics.prompt.inc(count)

    def transcriptions(self, request: AudioRequest, client: str = "") -> AsyncGenerator[Any, None]:
        """Answer POST /v1/audio/transcriptions."""
        return self._answered(request, self._text_of_audio(request, "transcribe"))

    def translations(self, request: AudioRequest, client: str = "") -> AsyncGenerator[Any, None]:
        """Answer POST /v1/audio/translations."""
        return self._answered(request, self._text_of_audio(request, "translate"))

    async def _text_of_audio(self, request: AudioRequest, task: str) -> AsyncGenerator[Any, None]:
        model = request.model or self.model
        if self._adapter(request.model) is not None or not reads_audio(self.engine):
            raise NotSupported(
                f"the model {model!r} gives no text of audio; serve a model that does, such as Whisper, with the engine "
                "vLLM",
                "model",
            )
        async with aclosing(self.engine.text_of_audio(task, request.audio, request.fields, model)) as found:
            async for each in found:
                yield AudioResponse.model_validate(each) if isinstance(each, dict) else each

    def score(self, request: ScoreRequest, client: str = "") -> AsyncGenerator[Any, None]:
        """Answer POST /v1/score."""
        return self._answered(request, self._scored(request, scores.of_pairs, client))

    def rerank(self, request: RerankRequest, client: str = "") -> AsyncGenerator[Any, None]:
        """Answer POST /v1/rerank."""
        return self._answered(request, self._scored(request, scores.of_documents, client))

    async def _scored(
        self, request: ScoreRequest | RerankRequest, answer: Callable[..., Any], client: str
    ) -> AsyncGenerator[Any, None]:
        async def tokens(texts: Sequence[str]) -> list[list[int]]:
            return await self._tokens(texts, client)

        yield await answer(
            request, scores.Scorer(self.engine, tokens, self._adapter(request.model), client), self.model
        )

    async def _tokenized(self, request: TokenizeRequest, client: str) -> TokenizeResponse:
        text = self.engine.text
        if isinstance(request, TokenizeCompletionRequest):
            tokens = await self._texts.encode(request.prompt, request.add_special_tokens, client)
        else:
            tokens = await self._unanswered(request, client, generation_prompt=True)
        strings = None
        if request.return_token_strs:
            strings = await self._texts.apart(
                len(tokens), lambda: [text.token(each) for each in tokens], client
            )
        return TokenizeResponse(
            tokens=tokens,
            count=len(tokens),
            max_model_len=self.engine.info().max_model_len,
            token_strs=strings,
        )
