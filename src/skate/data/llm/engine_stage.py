"""The stage that runs a model: batches go to an engine in an actor; failed rows are marked if requested."""

from __future__ import annotations

import time
import uuid
import weakref
from collections.abc import Iterable, Sequence
from typing import Any

from skate.data.llm.engine import EngineFactory, EngineSpec
from skate.data.llm.stage import ERROR, Stage, StageCall

#: The number of characters of a prompt to keep in a failed row.
_PROMPT_SHOWN = 500
#: The columns that every row has after the engine, failed or not, with their defaults.
_NOTHING: dict[str, Any] = {
    "prompt": "",
    "prompt_token_ids": None,
    "num_input_tokens": 0,
    "generated_tokens": [],
    "generated_text": "",
    "num_generated_tokens": 0,
    "embeddings": None,
    "metrics": None,
    "logprobs": None,
    "prompt_logprobs": None,
}


class EngineCall(StageCall):
    """An actor with an engine, which starts with the actor."""

    def __init__(
        self,
        data_column: str,
        expected_input_keys: Sequence[str],
        factory: EngineFactory,
        spec: EngineSpec,
        should_continue_on_error: bool = False,
    ) -> None:
        super().__init__(data_column, expected_input_keys)
        self.should_continue_on_error = should_continue_on_error
        self._requests = 0
        self._engine = factory(spec)
        self._engine.start()
        # Also runs when the process ends, so that no model outlives its worker.
        weakref.finalize(self, self._engine.stop)

    def outputs(self, rows: list[dict[str, Any]]) -> Iterable[dict[str, Any]]:
        """Yield the engine's output for each row, or only the error of a failed row."""
        batch = uuid.uuid4().hex
        for row in rows:
            if not row.get("prompt") and not row.get("tokenized_prompt"):
                raise ValueError(
                    f"each row must have prompt or tokenized_prompt, but a row has only {', '.join(row)}"
                )
        started = time.perf_counter()
        made = self._engine.generate(rows)
        seconds = time.perf_counter() - started
        if len(made) != len(rows):
            raise ValueError(
                f"{type(self._engine).__name__} returned {len(made)} results for {len(rows)} rows"
            )
        first, self._requests = self._requests, self._requests + len(rows)
        for number, (row, result) in enumerate(zip(rows, made, strict=True), first):
            if isinstance(result, Exception):
                if not self.should_continue_on_error:
                    raise result
                yield self._failed(row, result, batch)
                continue
            params = row.get("sampling_params") or row.get("pooling_params")
            yield {
                **_NOTHING,
                "prompt": row.get("prompt") or "",
                **result,
                "request_id": number,
                "batch_uuid": batch,
                "time_taken_llm": seconds,
                "params": str(params or ""),
                ERROR: "",
            }

    def _failed(self, row: dict[str, Any], error: Exception, batch: str) -> dict[str, Any]:
        prompt = row.get("prompt") or ""
        shown = prompt if len(prompt) <= _PROMPT_SHOWN else prompt[:_PROMPT_SHOWN] + "..."
        return {
            **_NOTHING,
            "prompt": shown,
            "request_id": -1,
            "batch_uuid": batch,
            "time_taken_llm": -1.0,
            "params": "",
            ERROR: f"{type(error).__name__}: {error}",
        }


class EngineStage(Stage):
    """A stage that sends rows through an engine."""

    fn = EngineCall

    def get_required_input_keys(self) -> dict[str, str]:
        """Return the sampling parameters, for text generation."""
        if self.fn_constructor_kwargs["spec"].task_type != "generate":
            return {}
        return {"sampling_params": "sampling settings: temperature, max_tokens and so on"}

    def get_optional_input_keys(self) -> dict[str, str]:
        """Return the columns for the prompt, and those that only some models use."""
        return {
            "prompt": "the text; required unless tokenized_prompt is given",
            "tokenized_prompt": "the text's tokens; required unless prompt is given",
            "model": "the name of a LoRA adapter, if the model itself is not used",
            "pooling_params": "how embeddings are pooled",
            "tokenization_kwargs": "how the engine tokenizes a prompt for embedding",
            "multimodal_data": "images, audio and video for multimodal models",
            "mm_processor_kwargs": "arguments of the engine's multimodal processor",
            "multimodal_uuids": "ids of the multimodal data, by which the engine caches it",
        }


class vLLMEngineStage(EngineStage):
    """A stage that sends rows through the engine "vllm"."""


class SGLangEngineStage(EngineStage):
    """A stage that sends rows through the engine "sglang"."""
