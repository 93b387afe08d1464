"""The replica of a model, which starts an engine and answers OpenAI's requests by handle."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from typing import Any

from skate.llm.engine import Engine, EngineArgs
from skate.llm.engines import SETTING, Choice, choose, find
from skate.llm.openai.metrics import Metrics
from skate.llm.openai.model_service import ModelService
from skate.llm.openai.requests import (
    AudioRequest,
    ChatCompletionRequest,
    CompletionRequest,
    DetokenizeRequest,
    EmbeddingRequest,
    RerankRequest,
    ScoreRequest,
    TokenizeRequest,
)
from skate.llm.tool_calls.options import NOT_OF_ENGINES, ToolOptions
from skate.serve.llm import model_state
from skate.serve.llm.configs import LLMConfig
from skate.serve.llm.controls import EngineControls
from skate.serve.llm.kv_transfer import prepared
from skate.serve.llm.placement import deployment_options, device, workers
from skate.serve.llm.raw_request import RawRequestInfo
from skate.serve.llm.relay import Outboxes

_log = logging.getLogger("skate.llm")
#: The default interval of a stream's events; tokens within it are sent together, to save messages.
STREAM_INTERVAL_MS = 50.0
#: The key of engine_kwargs that allows chat templates in requests.
TRUST_TEMPLATE = "trust_request_chat_template"
#: Engine arguments for GPUs, which are ignored if SKATE_LLM_ENGINE replaces the engine.
_OF_GPUS = ("tensor_parallel_size", "pipeline_parallel_size", "quantization", "gpu_memory_utilization")


class LLMServer(EngineControls):
    """A model behind a handle. Its methods yield one response, one ErrorResponse, or the events of a stream."""

    async def __init__(  # type: ignore[misc]
        self, llm_config: LLMConfig, *, engine_cls: Any = None, model_downloader: Any = None
    ) -> None:
        self._config = llm_config
        if model_downloader is not None:
            raise NotImplementedError(
                "model_downloader is not supported yet; set dynamic_lora_loading_path of lora_config instead"
            )
        args = engine_args(llm_config)
        args = replace(args, kwargs=prepared(args.kwargs))
        if engine_cls is not None:
            self.engine: Engine = engine_cls(args)
        else:
            self.engine = find(chosen(llm_config, log=False).engine).factory(args)
        began = time.perf_counter()
        await self.engine.start()
        info = self.engine.info()
        _log.info(
            "%s: %s by the engine %s, context %d, ready after %.1f s",
            llm_config.model_id,
            info.model,
            info.engine,
            info.max_model_len,
            time.perf_counter() - began,
        )
        self._outboxes = Outboxes()
        experimental = llm_config.experimental_configs
        metrics = Metrics(llm_config.model_id)
        model_state.begin(llm_config.model_id, info, self.engine, metrics)
        self._serving = ModelService(
            self.engine,
            llm_config.model_id,
            adapters=llm_config.lora_config is not None,
            metrics=metrics,
            stream_interval_s=float(experimental.get("stream_batching_interval_ms", STREAM_INTERVAL_MS))
            / 1000,
            trust_request_chat_template=bool(llm_config.engine_kwargs.get(TRUST_TEMPLATE, False)),
            tools=ToolOptions.of(llm_config.engine_kwargs),
        )

    async def chat(
        self, request: ChatCompletionRequest, raw_request_info: RawRequestInfo | None = None
    ) -> AsyncGenerator[Any, None]:
        """Answer a chat request."""
        async with aclosing(
            self._sent(self._serving.chat(request, _client(raw_request_info)), raw_request_info)
        ) as found:
            async for each in found:
                yield each

    async def completions(
        self, request: CompletionRequest, raw_request_info: RawRequestInfo | None = None
    ) -> AsyncGenerator[Any, None]:
        """Answer a completion request."""
        async with aclosing(
            self._sent(self._serving.completions(request, _client(raw_request_info)), raw_request_info)
        ) as found:
            async for each in found:
                yield each

    def _sent(
        self, found: AsyncGenerator[Any, None], raw: RawRequestInfo | None
    ) -> AsyncGenerator[Any, None]:
        return self._outboxes.sent(found, getattr(raw, "destination", None))

    async def embeddings(
        self, request: EmbeddingRequest, raw_request_info: RawRequestInfo | None = None
    ) -> AsyncGenerator[Any, None]:
        """Compute embeddings of texts."""
        async with aclosing(self._serving.embeddings(request, _client(raw_request_info))) as found:
            async for each in found:
                yield each

    async def score(
        self, request: ScoreRequest, raw_request_info: RawRequestInfo | None = None
    ) -> AsyncGenerator[Any, None]:
        """Score the similarity of texts."""
        async with aclosing(self._serving.score(request, _client(raw_request_info))) as found:
            async for each in found:
                yield each

    async def rerank(
        self, request: RerankRequest, raw_request_info: RawRequestInfo | None = None
    ) -> AsyncGenerator[Any, None]:
        """Order documents by their relevance for a query."""
        async with aclosing(self._serving.rerank(request, _client(raw_request_info))) as found:
            async for each in found:
                yield each

    async def transcriptions(
        self, request: AudioRequest, raw_request_info: RawRequestInfo | None = None
    ) -> AsyncGenerator[Any, None]:
        """Write down audio."""
        async with aclosing(
            self._sent(self._serving.transcriptions(request, _client(raw_request_info)), raw_request_info)
        ) as found:
            async for each in found:
                yield each

    async def translations(
        self, request: AudioRequest, raw_request_info: RawRequestInfo | None = None
    ) -> AsyncGenerator[Any, None]:
        """Write down audio in English."""
        async with aclosing(
            self._sent(self._serving.translations(request, _client(raw_request_info)), raw_request_info)
        ) as found:
            async for each in found:
                yield each

    async def reset_prefix_cache(self) -> None:
        """Drop the cached prefixes of earlier prompts; no-op with engines that do not support it."""
        reset = getattr(self.engine, "reset_prefix_cache", None)
        if reset is not None:
            await reset()

    async def tokenize(
        self, request: TokenizeRequest, raw_request_info: RawRequestInfo | None = None
    ) -> AsyncGenerator[Any, None]:
        """Convert a text to tokens."""
        async for each in self._serving.tokenize(request, _client(raw_request_info)):
            yield each

    async def detokenize(
        self, request: DetokenizeRequest, raw_request_info: RawRequestInfo | None = None
    ) -> AsyncGenerator[Any, None]:
        """Convert tokens to text."""
        async for each in self._serving.detokenize(request, _client(raw_request_info)):
            yield each

    async def check_health(self) -> None:
        """Raise an exception if the engine no longer answers."""
        await self.engine.check_health()

    async def has_adapter(self, name: str) -> bool:
        """Return True if the model can answer requests to `model_id:name`."""
        return self._serving.has_adapter(name)

    async def load(self) -> tuple[int, int]:
        """Return the numbers of running and of waiting answers; (0, 0) if the engine does not report them."""
        load = getattr(self.engine, "load", None)
        return (0, 0) if load is None else load()

    async def llm_config(self) -> LLMConfig:
        """Return the config of the server."""
        return self._config

    async def __del__(self) -> None:
        outboxes, engine = getattr(self, "_outboxes", None), getattr(self, "engine", None)
        if outboxes is not None:
            await outboxes.close()
        if engine is not None:
            await engine.stop()

    @classmethod
    def get_deployment_options(cls, llm_config: LLMConfig) -> dict[str, Any]:
        """Return the options of a deployment of this class. Raises an error if the engine cannot run here."""
        return deployment_options(llm_config, chosen(llm_config).on_gpus)


def _client(raw: RawRequestInfo | None) -> str:
    """Return the client of a request; all callers by handle share the client ""."""
    return getattr(raw, "client", "")


def chosen(config: LLMConfig, log: bool = True) -> Choice:
    """Return the engine of a config, and whether it needs GPUs; see skate.llm.engines.decided."""
    return choose(
        config.llm_engine, device=device(config), parallel=workers(config) > 1, gpus=cluster_gpus(), log=log
    )


def engine_args(config: LLMConfig) -> EngineArgs:
    """Return the arguments of the engine."""
    kwargs = dict(config.engine_kwargs)
    for name in (TRUST_TEMPLATE, *NOT_OF_ENGINES):  # arguments of the server, not of the engine
        kwargs.pop(name, None)
    if os.environ.get(SETTING):
        dropped = [name for name in _OF_GPUS if kwargs.pop(name, None) is not None]
        if dropped:
            _log.warning("%s is set: %s of engine_kwargs are ignored", SETTING, ", ".join(dropped))
    lora = config.lora_config
    return EngineArgs(
        config.model_loading_config.source(),
        config.model_loading_config.tokenizer_source,
        kwargs,
        str(kwargs.pop("task", "generate")),
        None if lora is None else lora.dynamic_lora_loading_path,
        16 if lora is None else lora.max_num_adapters_per_replica,
        None if lora is None else lora.download_timeout_s,
        3 if lora is None else lora.max_download_tries,
        bool(config.log_engine_metrics),
    )


def cluster_gpus() -> float:
    """Return the number of GPUs of the cluster, or of this machine if no session runs."""
    import skate  # imported here because building a config does not need it

    if skate.is_initialized():
        return float(skate.cluster_resources().get("GPU", 0))
    return float(sum(name[6:].isdigit() for name in os.listdir("/dev") if name.startswith("nvidia")))
