"""Adapter from the engines of skate.llm to stages: many concurrent rows on a separate event loop, so that
batches overlap.
"""

from __future__ import annotations

import asyncio
import threading
import uuid
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

from skate.data.llm.engine import EngineSpec
from skate.llm.engine import EngineArgs
from skate.llm.engines import find
from skate.llm.output import TokenLogprob
from skate.llm.sampling import SamplingParams
from skate.llm.vllm import VllmEngine

T = TypeVar("T")


class RowEngine:
    """Base class with the loop and the limit on concurrent requests. Subclasses run one row."""

    def __init__(self, spec: EngineSpec) -> None:
        self._spec = spec
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="skate-llm-rows", daemon=True)
        self._slots: asyncio.Semaphore | None = None

    def start(self) -> None:
        """Start the event loop and load the model."""
        self._thread.start()
        self._called(self._began())

    async def _began(self) -> None:
        if (self._spec.max_pending_requests or 0) > 0:
            self._slots = asyncio.Semaphore(self._spec.max_pending_requests or 1)
        await self._load()

    def _called(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    def _args(self) -> EngineArgs:
        """The engine's arguments; the task is passed separately."""
        spec = self._spec
        return EngineArgs(
            spec.model,
            kwargs=dict(spec.kwargs),
            task=spec.task_type,
            lora_folder=spec.dynamic_lora_loading_path,
            log_stats=spec.log_metrics,
        )

    def generate(self, rows: Sequence[dict[str, Any]]) -> Sequence[dict[str, Any] | Exception]:
        """Run all rows concurrently; the engine batches them."""
        return self._called(self._all(rows))

    async def _all(self, rows: Sequence[dict[str, Any]]) -> list[Any]:
        found: list[Any] = await asyncio.gather(*map(self._one, rows), return_exceptions=True)
        return found

    async def _one(self, row: dict[str, Any]) -> dict[str, Any]:
        if self._slots is None:
            return await self._run(row)
        async with self._slots:  # the number of concurrent requests of the engine
            return await self._run(row)

    def _adapter(self, row: dict[str, Any]) -> str | None:
        name = row.get("model")
        return None if name == self._spec.model else name

    async def _load(self) -> None:
        raise NotImplementedError

    async def _run(self, row: dict[str, Any]) -> dict[str, Any]:
        raise NotImplementedError

    async def _end(self) -> None:
        raise NotImplementedError

    def stop(self) -> None:
        """Release the model's resources, and end the loop."""
        if not self._thread.is_alive():
            return
        self._called(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)
        if not self._thread.is_alive():
            self._loop.close()


class VllmRows(RowEngine):
    """A model in vLLM. A row with another `model` uses the LoRA adapter of that name."""

    async def _load(self) -> None:
        self._engine = VllmEngine(self._args())
        await self._engine.start()

    async def _run(self, row: dict[str, Any]) -> dict[str, Any]:
        prompt: dict[str, Any] = {"prompt": row.get("prompt")}
        if row.get("tokenized_prompt"):
            prompt = {"prompt_token_ids": list(row["tokenized_prompt"])}
        if row.get("multimodal_data"):
            prompt["multi_modal_data"] = row["multimodal_data"]
        if row.get("mm_processor_kwargs"):
            prompt["mm_processor_kwargs"] = row["mm_processor_kwargs"]
        if row.get("multimodal_uuids"):
            prompt["multi_modal_uuids"] = row["multimodal_uuids"]
        more = {}
        if self._spec.task_type == "generate":
            params = self._engine.sampling(_given(row["sampling_params"]))
        else:
            params = self._engine.pooling(_given(row.get("pooling_params") or {}))
            if row.get("tokenization_kwargs"):
                more["tokenization_kwargs"] = _given(row["tokenization_kwargs"])
        last = None
        async for each in self._engine.outputs(prompt, params, uuid.uuid4().hex, self._adapter(row), **more):
            last = each
        if last is None:
            raise RuntimeError("vLLM ended a request without a result")
        return _columns(last, self._spec.task_type)

    async def _end(self) -> None:
        await self._engine.stop()


class EmbeddedRows(RowEngine):
    """A model in the embedded engine, on the worker's CPUs."""

    async def _load(self) -> None:
        self._engine = find("embedded").factory(self._args())
        await self._engine.start()

    async def _run(self, row: dict[str, Any]) -> dict[str, Any]:
        strange = [name for name in ("multimodal_data", "pooling_params") if row.get(name)]
        if strange:
            raise ValueError(
                f"the embedded engine supports only text, but a row has {strange[0]}; use vLLM on a GPU"
            )
        text = self._engine.text
        tokens = list(row.get("tokenized_prompt") or text.encode(row["prompt"], special=False))
        found: dict[str, Any] = {"prompt_token_ids": tokens, "num_input_tokens": len(tokens)}
        adapter, number = self._adapter(row), uuid.uuid4().hex
        if self._spec.task_type != "generate":
            return {**found, "embeddings": (await self._engine.embed(tokens, number, adapter)).vector}
        given = _given(row["sampling_params"])
        given.pop("detokenize", None)
        params = SamplingParams.of(given)
        made: list[int] = []
        logprobs: list[TokenLogprob] = []
        generated, of_prompt = "", None
        async for new in self._engine.generate(tokens, params, number, adapter):
            if new.index == 0:
                made += new.token_ids
                logprobs += new.logprobs or []
                generated += new.text
                of_prompt = new.prompt_logprobs or of_prompt
        return {
            **found,
            "generated_tokens": made,
            "generated_text": generated,
            "num_generated_tokens": len(made),
            "logprobs": None if params.logprobs is None else [_ranked(each) for each in logprobs],
            "prompt_logprobs": of_prompt and [None if each is None else _ranked(each) for each in of_prompt],
        }

    async def _end(self) -> None:
        await self._engine.stop()


def _given(params: dict[str, Any]) -> dict[str, Any]:
    """Drop None values: rows of a dataset have the fields of other rows as None."""
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


def _ranked(found: TokenLogprob) -> dict[int, dict[str, Any]]:
    """Return logprobs in vLLM's form: the chosen token and the most likely ones, by id."""
    numbers = found.ranks or range(1, len(found.top) + 1)
    ranked = zip(numbers, found.top, strict=True)
    ranks = {token: {"logprob": value, "rank": rank} for rank, (token, value) in ranked}
    return {found.token: {"logprob": found.logprob, "rank": None}, **ranks}
