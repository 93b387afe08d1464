"""vLLM's asynchronous engine behind the engine interface, with its parallel workers and LoRA adapters."""

from __future__ import annotations

import asyncio
import glob
import os
import time
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import fields, replace
from functools import cached_property
from typing import Any

from skate.installed import is_installed, missing, require
from skate.llm.engine import EngineArgs, Text
from skate.llm.errors import BadRequest, EngineStopped, NotSupported, Overloaded, PromptTooLong
from skate.llm.increment_batcher import AT_THE_END, IncrementBatcher
from skate.llm.media import MediaPrompt
from skate.llm.output import Embedding, Increment, ModelInfo, Score, TokenLogprob
from skate.llm.sampling import SamplingParams
from skate.llm.tokenizer import TransformersText
from skate.llm.tool_calls.options import ToolOptions
from skate.llm.vllm_answers import VllmAnswers
from skate.llm.vllm_build import vllm_build
from skate.llm.vllm_media import VllmMedia
from skate.llm.vllm_speech import VllmSpeech
from skate.llm.vllm_stage import PipelineStage

#: vLLM's arguments for each task.
RUNNERS = {
    "generate": {"runner": "generate"},
    "embed": {"runner": "pooling", "convert": "embed"},
    "classify": {"runner": "pooling", "convert": "classify"},
    "score": {"runner": "pooling", "convert": "classify"},
}
#: vLLM's names of the tasks of pooling models. A score is a classification with one class.
POOLING_TASKS = {"embed": "embed", "classify": "classify", "score": "classify"}
_WHAT = "the engine vLLM"
#: vLLM's environment variable for the cores of each worker.
_BINDING = "VLLM_CPU_OMP_THREADS_BIND"
_STAGE = f"{PipelineStage.__module__}.{PipelineStage.__qualname__}"


def check() -> None:
    """Raise ImportError unless vLLM and transformers are installed."""
    for name in ("vllm", "transformers"):
        if not is_installed(name):
            raise missing(name, _WHAT)


class VllmEngine:
    """A model in vLLM. It belongs to the event loop that starts it, as vLLM's engine does."""

    def __init__(self, args: EngineArgs) -> None:
        self._args = args
        self._adapters: dict[str, Any] = {}
        self._folder = args.adapters()
        self._ends_with_prompt_logprobs = False
        self._speech: VllmSpeech | None = None

    @cached_property
    def text(self) -> Text:
        """The tokenizer, loaded on first use, because batch inference does not need it."""
        trusts = bool(self._args.kwargs.get("trust_remote_code"))
        return TransformersText(self._args.tokenizer or self._args.model, trusts)

    async def start(self) -> None:
        """Load the model."""
        check()
        self._vllm = require("vllm", _WHAT)
        args = self._args
        given = {**RUNNERS[args.task], **args.kwargs, "model": args.model}
        # A replica has all GPUs of one copy of the model, so vLLM starts its own processes if there are several.
        given.setdefault("disable_log_stats", not args.log_stats)
        if args.tokenizer is not None:
            given["tokenizer"] = args.tokenizer
        if args.lora_folder is not None:
            given.setdefault("enable_lora", True)
            given.setdefault("max_loras", args.max_loras)
        forms = given.get("structured_outputs_config")
        if isinstance(forms, dict):  # other settings may be dicts of vLLM, this one may not
            given["structured_outputs_config"] = require(
                "vllm.config", _WHAT, "vllm"
            ).StructuredOutputsConfig(**forms)
        # With adapters, vLLM 0.32 on CPUs fails in a step with such a request and any other one.
        self._ends_with_prompt_logprobs = bool(given.get("enable_lora")) and vllm_build() == "cpu"
        stages, extended = int(given.get("pipeline_parallel_size", 1)), False
        if vllm_build() == "cpu":
            bind_workers(int(given.get("tensor_parallel_size", 1)) * stages)
            extended = stages > 1 and given.setdefault("worker_extension_cls", _STAGE) == _STAGE
        self.engine = self._vllm.AsyncLLMEngine.from_engine_args(self._vllm.AsyncEngineArgs(**given))
        self._media = VllmMedia(self.engine)
        supported = getattr(self.engine, "get_supported_tasks", None)
        if supported is not None and "transcription" in await supported():
            self._speech = VllmSpeech(self.engine)
        if extended:
            await self.engine.collective_rpc(PipelineStage.create_stage_input.__name__)

    @property
    def media(self) -> frozenset[str]:
        """The kinds of media that the model takes, after `start`."""
        return self._media.kinds

    async def render(
        self, messages: Sequence[dict[str, Any]], template: str | None, options: dict[str, Any]
    ) -> list[int]:
        """Return the tokens of a conversation by vLLM's renderer, with its media."""
        with self._errors():
            return await self._media.render(messages, template, options)

    @property
    def reads_audio(self) -> bool:
        """True if the model transcribes audio, as Whisper does."""
        return self._speech is not None

    async def text_of_audio(
        self, task: str, audio: bytes, fields: dict[str, Any], model: str
    ) -> AsyncGenerator[str | dict[str, Any], None]:
        """Yield the text of audio by vLLM's own server."""
        assert self._speech is not None
        with self._errors():
            async with aclosing(self._speech.text_of(task, audio, fields, model)) as found:
                async for each in found:
                    yield each

    def outputs(
        self,
        prompt: dict[str, Any],
        params: Any,
        request_id: str,
        adapter: str | None = None,
        **more: Any,
    ) -> AsyncGenerator[Any, None]:
        """Yield vLLM's outputs for a prompt in its format; `params` are its SamplingParams or PoolingParams."""
        call = self.engine.generate if self._args.task == "generate" else self.engine.encode
        lora = None if adapter is None else self._lora(adapter)
        found: AsyncGenerator[Any, None] = call(
            prompt, params, request_id=request_id, lora_request=lora, **more
        )
        return found

    def sampling(self, given: dict[str, Any]) -> Any:
        """Build vLLM's SamplingParams from a dict, including constraints of the answer's form."""
        given = dict(given)
        form = given.get("structured_outputs")
        if form:
            kinds = require("vllm.sampling_params", _WHAT, "vllm")
            constraints = {name: value for name, value in form.items() if value is not None}
            given["structured_outputs"] = kinds.StructuredOutputsParams(**constraints)
        return self._vllm.SamplingParams(**given)

    def pooling(self, given: dict[str, Any]) -> Any:
        """Build vLLM's PoolingParams for the engine's task."""
        return self._vllm.PoolingParams(**given, task=POOLING_TASKS[self._args.task])

    async def generate(
        self,
        prompt: str | Sequence[int],
        params: SamplingParams,
        request_id: str,
        adapter: str | None = None,
        every_s: float = 0.0,
    ) -> AsyncGenerator[Increment, None]:
        """Yield increments of the answers."""
        kinds = require("vllm.sampling_params", _WHAT, "vllm")
        given = {each.name: getattr(params, each.name) for each in fields(params) if each.name != "extra"}
        given["stop"], given["stop_token_ids"] = list(params.stop), list(params.stop_token_ids)
        if "prompt_logprobs" in params.extra and self._ends_with_prompt_logprobs:
            raise NotSupported(
                "this server has no log probabilities of prompts (prompt_logprobs, or echo with logprobs): vLLM on CPUs "
                "ends when two requests want them and adapters are enabled; serve the model without lora_config",
                "prompt_logprobs",
            )
        counts = [0] * params.n
        engine_prompt = _engine_prompt(prompt)
        batcher, first = IncrementBatcher(every_s), True
        of_prompt: list[TokenLogprob | None] | None = None
        await self._fetched(adapter)
        kind = "FINAL_ONLY" if every_s == AT_THE_END else "DELTA"
        with self._errors(prompt):
            sampling = self.sampling({**given, **params.extra, "output_kind": kinds.RequestOutputKind[kind]})
            async with aclosing(self.outputs(engine_prompt, sampling, request_id, adapter)) as found:
                async for output in found:
                    if of_prompt is None and not all(counts):
                        # All answers have the same ones. vLLM may lose those of the later ones if it merges outputs.
                        of_prompt = _prompt_logprobs(output)
                    for each in output.outputs:
                        before, counts[each.index] = (
                            counts[each.index],
                            counts[each.index] + len(each.token_ids),
                        )
                        new = _increment(each, len(output.prompt_token_ids or ()), counts[each.index])
                        if first:
                            first, new.ttft_s = False, _ttft(output)
                            new.cached_tokens = getattr(output, "num_cached_tokens", None) or 0
                        new.prompt_logprobs = None if before else of_prompt
                        new.kv_transfer_params = getattr(output, "kv_transfer_params", None)
                        batcher.add(new)
                    for new in batcher.take(time.perf_counter()):
                        yield new

    @contextmanager
    def _errors(self, prompt: str | Sequence[int] = "") -> Iterator[None]:
        """Raise vLLM's errors as those of the interface."""
        try:
            yield
        except ValueError as error:
            raise self._refused(error, prompt) from error
        except Exception as error:
            # By name, because the location of the classes differs between vLLM's releases.
            kinds = {each.__name__ for each in type(error).__mro__}
            if "VLLMClientError" in kinds:
                raise self._refused(error, prompt) from error
            if kinds & {"EngineDeadError", "AsyncEngineDeadError"}:
                raise EngineStopped(f"vLLM's engine has died: {error}") from error
            if kinds & {"QueueOverflowError", "MaxQueuedTokensError"}:
                raise Overloaded(str(error)) from error
            raise

    def _refused(self, error: Exception, prompt: str | Sequence[int]) -> BadRequest:
        if isinstance(error, BadRequest):
            return error
        limit = self.info().max_model_len
        if not isinstance(prompt, str) and limit and len(prompt) >= limit:
            return PromptTooLong(len(prompt), limit)
        parameter = getattr(error, "parameter", None)
        if parameter == "input_tokens":  # vLLM's renderer counts only as far as it has to
            return PromptTooLong(getattr(error, "value", limit + 1), limit, at_least=True)
        return BadRequest(str(error), parameter)

    async def embed(
        self, prompt: str | Sequence[int], request_id: str, adapter: str | None = None
    ) -> Embedding:
        """Compute the embedding of a prompt."""
        engine_prompt = _engine_prompt(prompt)
        if self._args.task != "embed":
            raise BadRequest(
                "this model generates text; vLLM computes embeddings only with task 'embed'", "model"
            )
        with self._errors(prompt):
            last = await self._pooled(engine_prompt, self.pooling({}), request_id, adapter)
        return Embedding(last.outputs.data.float().tolist(), len(last.prompt_token_ids or ()))

    @property
    def scores_pairs(self) -> bool:
        """True if the model scores pairs of texts itself, as cross-encoders do."""
        return self._args.task == "score"

    async def score(self, one: str, other: str, request_id: str, adapter: str | None = None) -> Score:
        """Compute the model's score of a pair of texts, such as a query and a document."""
        tokenizer, given = self.engine.get_tokenizer(), {}
        if getattr(self.engine.model_config, "use_sep_token", True):
            tokens = await asyncio.to_thread(tokenizer, text=one, text_pair=other)
        else:
            tokens = await asyncio.to_thread(tokenizer, text=one + other)
        kinds = tokens.get("token_type_ids")
        if kinds is not None and 1 in kinds:
            # vLLM wants only the place where the second text begins.
            given["extra_kwargs"] = {"compressed_token_type_ids": kinds.index(1)}
        prompt = list(tokens["input_ids"])
        with self._errors(prompt):
            last = await self._pooled({"prompt_token_ids": prompt}, self.pooling(given), request_id, adapter)
        return Score(float(last.outputs.data.squeeze()), len(prompt))

    async def _pooled(self, prompt: dict[str, Any], params: Any, request_id: str, adapter: str | None) -> Any:
        last = None
        async for output in self.outputs(prompt, params, request_id, adapter):
            last = output
        if last is None:
            raise EngineStopped("vLLM ended a request without a result")
        return last

    def answer_parsers(self, options: ToolOptions) -> VllmAnswers:
        """Return vLLM's parsers of calls and reasoning, after `start`. Raises ValueError for unknown ones."""
        return VllmAnswers(
            options,
            lambda: getattr(self.text, "tokenizer", None),
            self._args.model,
            getattr(self.engine, "model_config", None),
        )

    async def reset_prefix_cache(self) -> None:
        """Drop the cached prefixes of earlier prompts."""
        await self.engine.reset_prefix_cache()

    async def control(self, method: str, *args: Any, **kwargs: Any) -> Any:
        """Call a method of vLLM's engine by name."""
        return await getattr(self.engine, method)(*args, **kwargs)

    async def abort(self, request_id: str) -> None:
        """Abort a request."""
        await self.engine.abort(request_id)

    def load(self) -> tuple[int, int]:
        """Return the number of unfinished requests; vLLM does not tell which of them wait."""
        return int(self.engine.get_num_unfinished_requests()), 0

    async def check_health(self) -> None:
        """Raise EngineStopped if vLLM reports that it is not healthy."""
        try:
            await self.engine.check_health()
        except Exception as error:  # as in generate, the location of its errors differs
            raise EngineStopped(f"vLLM is not healthy: {error}") from error

    def info(self) -> ModelInfo:
        """Return the properties of the model."""
        config = getattr(self.engine, "model_config", None)
        scheduler = getattr(getattr(self.engine, "vllm_config", None), "scheduler_config", None)
        vocabulary = config.get_vocab_size() if config is not None else 0
        return ModelInfo(
            self._args.model,
            "vllm",
            int(getattr(config, "max_model_len", 0) or 0),
            int(getattr(scheduler, "max_num_seqs", 0) or 0),
            int(vocabulary),
            adapters=tuple(self._adapters),
        )

    async def _fetched(self, adapter: str | None) -> None:
        """Download an adapter in a thread, so that the event loop does not wait for it."""
        if adapter is not None:
            await asyncio.wait_for(asyncio.to_thread(self._lora, adapter), self._args.lora_timeout_s)

    def has_adapter(self, name: str) -> bool:
        """Return True if there is a LoRA adapter with that name."""
        return self._args.lora_folder is None or self._folder.has(name)

    def _lora(self, name: str) -> Any:
        if name not in self._adapters:
            # Without a folder, vLLM looks up the names.
            path = name if self._args.lora_folder is None else self._folder.path(name)
            lora = require("vllm.lora.request", _WHAT, "vllm")
            self._adapters[name] = lora.LoRARequest(name, len(self._adapters) + 1, path)
        return self._adapters[name]

    async def stop(self) -> None:
        """End vLLM's processes."""
        self._folder.close()
        if self._speech is not None:
            self._speech.close()
        shutdown = getattr(self.engine, "shutdown", None)
        if shutdown is not None:
            shutdown()


def _engine_prompt(prompt: str | Sequence[int]) -> dict[str, Any]:
    if isinstance(prompt, MediaPrompt):
        rendered: dict[str, Any] = prompt.rendered
        return rendered
    return {"prompt": prompt} if isinstance(prompt, str) else {"prompt_token_ids": list(prompt)}


def bind_workers(workers: int) -> None:
    """Divide this machine's cores among workers, unless the environment does; vLLM wants a NUMA node for each worker."""
    nodes = len(glob.glob("/sys/devices/system/node/node[0-9]*"))
    if workers <= max(1, nodes) or _BINDING in os.environ:
        return
    cores = sorted(os.sched_getaffinity(0))
    share = len(cores) // workers
    parts = [cores[at * share : (at + 1) * share] for at in range(workers)]
    os.environ[_BINDING] = "|".join(",".join(map(str, part)) for part in parts) if share else "nobind"


def _increment(output: Any, prompt_tokens: int, count: int) -> Increment:
    found = None
    if output.logprobs is not None:
        found = [
            _logprob(token, likely) for token, likely in zip(output.token_ids, output.logprobs, strict=True)
        ]
    return Increment(
        output.index,
        output.text,
        list(output.token_ids),
        found,
        output.finish_reason,
        output.stop_reason,
        prompt_tokens,
        count,
    )


def _logprob(token: int, likely: Mapping[int, Any]) -> TokenLogprob:
    ranked = sorted(likely.items(), key=lambda each: -each[1].logprob)
    return TokenLogprob(token, likely[token].logprob, tuple((other, each.logprob) for other, each in ranked))


def _prompt_logprobs(output: object) -> list[TokenLogprob | None] | None:
    """Return the log probabilities of the prompt's tokens if they were requested; None stands for the first."""
    given = getattr(output, "prompt_logprobs", None)
    if not given:
        return None
    tokens = zip(getattr(output, "prompt_token_ids", ()), given, strict=True)
    return [None if likely is None else _ranked_logprob(token, likely) for token, likely in tokens]


def _ranked_logprob(token: int, likely: Mapping[int, Any]) -> TokenLogprob:
    found = _logprob(token, likely)
    return replace(found, ranks=tuple(likely[other].rank for other, _ in found.top))


def _ttft(output: Any) -> float | None:
    """Return vLLM's time to the first token in seconds; None if its statistics are disabled."""
    found = getattr(getattr(output, "metrics", None), "first_token_latency", None)
    return found or None
