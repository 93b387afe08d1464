"""The engine "vllm", with a fake vLLM that has only the names used: the calls to it, and the results of rows."""

from __future__ import annotations

import sys
import types
from collections.abc import AsyncIterator, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from skate.data.llm.engine import EngineSpec
from skate.data.llm.row_engines import VllmRows


class FakeEngine:
    """Returns the tokens of a prompt in reverse order."""

    def __init__(self, arguments: Any) -> None:
        self.arguments = arguments
        self.ended = False

    @classmethod
    def from_engine_args(cls, arguments: Any) -> FakeEngine:
        return cls(arguments)

    async def generate(
        self, prompt: Any, params: Any, request_id: str, lora_request: Any
    ) -> AsyncIterator[Any]:
        tokens = prompt.get("prompt_token_ids") or [ord(each) for each in prompt["prompt"]]
        if params.temperature < 0:
            raise ValueError("temperature is 0 or more")
        best = SimpleNamespace(token_ids=tuple(tokens[::-1]), text="text", logprobs=None)
        yield SimpleNamespace(
            prompt_token_ids=tokens, outputs=[SimpleNamespace(token_ids=(), text="", logprobs=None)]
        )
        yield SimpleNamespace(prompt_token_ids=tokens, outputs=[best])

    def shutdown(self) -> None:
        self.ended = True


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Iterator[VllmRows]:
    module: Any = types.ModuleType("vllm")
    module.AsyncEngineArgs = module.SamplingParams = SimpleNamespace
    module.AsyncLLMEngine = FakeEngine
    monkeypatch.setitem(sys.modules, "vllm", module)
    made = VllmRows(EngineSpec("m", kwargs={"seed": 3}, max_pending_requests=1))
    made.start()
    yield made
    made.stop()
    assert made._engine.engine.ended and not made._thread.is_alive()


def test_the_model_is_made_with_what_was_given(engine: VllmRows) -> None:
    found = engine._engine.engine.arguments
    assert (found.model, found.seed, found.runner) == ("m", 3, "generate")


def test_rows_get_the_last_result_and_failures_stay_their_own(engine: VllmRows) -> None:
    first, second, third = engine.generate(
        [
            {"tokenized_prompt": [1, 2], "sampling_params": {"temperature": 0.5, "stop": None}},
            {"prompt": "ab", "sampling_params": {"temperature": -1}},
            {"prompt": "ab", "sampling_params": {"temperature": 0}},
        ]
    )
    assert isinstance(first, dict) and isinstance(third, dict)
    assert (first["generated_tokens"], first["num_input_tokens"], first["num_generated_tokens"]) == (
        [2, 1],
        2,
        2,
    )
    assert isinstance(second, ValueError)
    assert third["generated_tokens"] == [98, 97]
