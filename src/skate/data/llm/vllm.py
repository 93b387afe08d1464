"""vLLM as an engine: its asynchronous engine on a loop of its own, so that batches from several threads overlap in it."""

from __future__ import annotations

import asyncio
import importlib.util
import threading
from collections.abc import Sequence
from typing import Any

from skate.data.llm.engine import EngineSpec
from skate.data.source.optional import library

#: What vLLM calls the ways a model can be run, by task.
_RUNNERS = {
    "generate": {"runner": "generate"},
    "embed": {"runner": "pooling", "convert": "embed"},
    "classify": {"runner": "pooling", "convert": "classify"},
    "score": {"runner": "pooling", "convert": "reward"},
}
_WHAT = "vLLMEngineProcessorConfig"


def check() -> None:
    """Raises ImportError unless vLLM and transformers are there."""
    for name in ("vllm", "transformers"):
        if importlib.util.find_spec(name) is None:
            raise ImportError(f"{_WHAT} needs {name}; install it with `pip install {name}`", name=name)


class VllmEngine:
    """A model in vLLM. A row that asks for another `model` gets the LoRA adapter of that name."""

    def __init__(self, spec: EngineSpec) -> None:
        self._spec = spec
        self._number = 0
        self._adapters: dict[str, Any] = {}

    def start(self) -> None:
        """Load the model."""
        self._vllm = library("vllm", _WHAT)
        spec = self._spec
        arguments = {**_RUNNERS[spec.task_type], **spec.kwargs, "model": spec.model}
        # One actor has all GPUs of a copy of the model, so vLLM starts its own processes if there are several.
        arguments.setdefault("disable_log_stats", not spec.log_metrics)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="vllm", daemon=True)
        self._thread.start()
        self._engine = self._called(self._made(arguments))

    async def _made(self, arguments: dict[str, Any]) -> Any:
        given = self._vllm.AsyncEngineArgs(**arguments)
        self._slots: Any = None
        if (self._spec.max_pending_requests or 0) > 0:
            self._slots = asyncio.Semaphore(self._spec.max_pending_requests or 1)
        return self._vllm.AsyncLLMEngine.from_engine_args(given)

    def _called(self, coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    def generate(self, rows: Sequence[dict[str, Any]]) -> Sequence[dict[str, Any] | Exception]:
        """All rows at once; vLLM puts them together as it likes."""
        found: list[dict[str, Any] | Exception] = self._called(self._all(rows))
        return found

    async def _all(self, rows: Sequence[dict[str, Any]]) -> list[Any]:
        found: list[Any] = await asyncio.gather(*map(self._one, rows), return_exceptions=True)
        return found

    async def _one(self, row: dict[str, Any]) -> dict[str, Any]:
        if self._slots is None:
            return await self._run(row)
        async with self._slots:  # as many requests as the engine is to have at once
            return await self._run(row)

    async def _run(self, row: dict[str, Any]) -> dict[str, Any]:
        self._number += 1
        prompt: dict[str, Any] = {"prompt": row.get("prompt")}
        if row.get("tokenized_prompt"):
            prompt = {"prompt_token_ids": list(row["tokenized_prompt"])}
        if row.get("multimodal_data"):
            prompt["multi_modal_data"] = row["multimodal_data"]
        if row.get("mm_processor_kwargs"):
            prompt["mm_processor_kwargs"] = row["mm_processor_kwargs"]
        if row.get("multimodal_uuids"):
            prompt["multi_modal_uuids"] = row["multimodal_uuids"]
        common: dict[str, Any] = {
            "request_id": str(self._number),
            "lora_request": self._adapter(row.get("model")),
        }
        if self._spec.task_type == "generate":
            params = self._vllm.SamplingParams(**self._sampling(row["sampling_params"]))
            stream = self._engine.generate(prompt, params, **common)
        else:
            params = self._vllm.PoolingParams(
                **_given(row.get("pooling_params") or {}), task=self._spec.task_type
            )
            if row.get("tokenization_kwargs"):
                common["tokenization_kwargs"] = _given(row["tokenization_kwargs"])
            stream = self._engine.encode(prompt, params, **common)
        last = None
        async for each in stream:
            last = each
        if last is None:
            raise RuntimeError("vLLM ended a request without a result")
        return _columns(last, self._spec.task_type)

    def _sampling(self, params: dict[str, Any]) -> dict[str, Any]:
        given = _given(params)
        if given.get("structured_outputs"):
            kinds = library("vllm.sampling_params", _WHAT, "vllm")
            given["structured_outputs"] = kinds.StructuredOutputsParams(**_given(given["structured_outputs"]))
        return given

    def _adapter(self, name: str | None) -> Any:
        if name is None or name == self._spec.model:
            return None
        if name not in self._adapters:
            folder = self._spec.dynamic_lora_loading_path
            lora = library("vllm.lora.request", _WHAT, "vllm")
            path = name if folder is None else f"{folder.rstrip('/')}/{name}"
            self._adapters[name] = lora.LoRARequest(name, len(self._adapters) + 1, path)
        return self._adapters[name]

    def stop(self) -> None:
        """End vLLM's processes and the loop."""
        shutdown = getattr(self._engine, "shutdown", None)
        if shutdown is not None:
            shutdown()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)
        if not self._thread.is_alive():
            self._loop.close()


def _given(params: dict[str, Any]) -> dict[str, Any]:
    """What was said; rows of a dataset have the fields of other rows too, as None."""
    return {name: value for name, value in params.items() if value is not None}


def _columns(result: Any, task: str) -> dict[str, Any]:
    tokens = list(result.prompt_token_ids or ())
    found: dict[str, Any] = {"prompt_token_ids": tokens, "num_input_tokens": len(tokens)}
    if task != "generate":
        data = result.outputs.data
        return {**found, "embeddings": data.float().cpu().numpy() if hasattr(data, "cpu") else data}
    best = result.outputs[0]
    generated = list(best.token_ids)
    return {
        **found,
        "generated_tokens": generated,
        "generated_text": best.text,
        "num_generated_tokens": len(generated),
        "logprobs": _logprobs(best.logprobs),
        "prompt_logprobs": _logprobs(getattr(result, "prompt_logprobs", None)),
    }


def _logprobs(given: Any) -> list[dict[int, dict[str, Any]] | None] | None:
    if given is None:
        return None
    return [
        None if each is None else {token: dict(vars(found)) for token, found in each.items()}
        for each in given
    ]
