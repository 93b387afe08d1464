"""Separate prefill and decode, and data parallel groups: their placement, and the data they exchange."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from pydantic import ValidationError

from skate.llm.engines import register
from skate.llm.openai.model_service import ModelService
from skate.llm.openai.requests import ChatCompletionRequest, CompletionRequest
from skate.llm.openai.responses import CompletionResponse, ErrorInfo, ErrorResponse
from skate.llm.output import Increment, ModelInfo
from skate.serve.config.deployment import GangSchedulingConfig
from skate.serve.llm import (
    LLMConfig,
    build_dp_deployment,
    build_dp_openai_app,
    build_llm_deployment,
    build_pd_openai_app,
)
from skate.serve.llm.data_parallel import in_groups, rank_arguments
from skate.serve.llm.deployment import DPServer, PDDecodeServer, PDPrefillServer
from skate.serve.llm.disaggregation import HAND_OVER, for_prefill
from skate.serve.llm.relay import Outboxes

KEYS = {"remote_engine_id": "e1", "remote_block_ids": [1, 2]}
TRANSFER = {"kv_connector": "NixlConnector", "kv_role": "kv_both"}


@pytest.fixture(autouse=True)
def an_engine_for_gpus() -> None:
    register("gpus", lambda args: None, needs_gpu=True)  # type: ignore[arg-type,return-value]


def config(**engine: Any) -> LLMConfig:
    return LLMConfig(model_loading_config={"model_id": "org/m-1.5"}, llm_engine="gpus", engine_kwargs=engine)


def deployments(app: Any) -> dict[str, Any]:
    """Return the deployments of an application by name, including those in its arguments."""
    found: dict[str, Any] = {}

    def look(each: Any) -> None:
        if isinstance(each, dict):
            for value in each.values():
                look(value)
        elif type(each).__name__ == "Application":
            deployment = each._bound_deployment
            found[deployment.name] = deployment
            look(dict(deployment.init_kwargs))

    look(app)
    return found


def test_prefill_and_decode_are_two_deployments_behind_one_name() -> None:
    one, other = (
        config(kv_transfer_config=TRANSFER, tensor_parallel_size=2),
        config(kv_transfer_config=TRANSFER),
    )
    found = deployments(build_pd_openai_app({"prefill_config": one, "decode_config": other}))
    assert set(found) == {"OpenAiIngress", "Decode:org--m-1_5", "Prefill:org--m-1_5"}
    assert found["Prefill:org--m-1_5"].func_or_class is PDPrefillServer
    assert found["Decode:org--m-1_5"].func_or_class is PDDecodeServer
    assert len(bundles(found["Prefill:org--m-1_5"])) == 2
    assert len(bundles(found["Decode:org--m-1_5"])) == 1


@pytest.mark.parametrize(
    ("decode", "match"),
    [
        ({"model_loading_config": {"model_id": "other"}}, "must have the same model_id"),
        ({"engine_kwargs": {}}, "decode_config requires kv_transfer_config"),
        ({"lora_config": {"dynamic_lora_loading_path": "/x"}}, "same lora_config"),
    ],
)
def test_configs_that_do_not_fit_together_are_named(decode: dict[str, Any], match: str) -> None:
    base = {"model_loading_config": {"model_id": "m"}, "engine_kwargs": {"kv_transfer_config": TRANSFER}}
    with pytest.raises(ValidationError, match=match):
        build_pd_openai_app({"prefill_config": base, "decode_config": {**base, **decode}})


def bundles(deployment: Any) -> list[dict[str, float]]:
    """Return the bundles of a replica's placement group."""
    found: list[dict[str, float]] = deployment._replica.actor_options["placement_group_bundles"]
    return found


class Engine:
    """An engine that records its requests."""

    def __init__(self) -> None:
        self.received: list[Any] = []
        self.text: Any = type("Text", (), {"encode": staticmethod(lambda text, special=True: [1, 2])})()

    def info(self) -> ModelInfo:
        return ModelInfo("m", "none", 100, 1, 10)

    async def generate(self, prompt: Any, params: Any, *_: Any) -> AsyncGenerator[Increment, None]:
        self.received.append(params)
        yield Increment(0, "said", [3], finish_reason="stop", prompt_tokens=2, completion_tokens=1)


class Prefill:
    """A substitute for the handle of the prefill deployment."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.received: list[Any] = []
        self.completions = self

    async def remote(self, request: Any) -> AsyncGenerator[Any, None]:  # type: ignore[misc]
        self.received.append(request)
        yield self.answer


class Bare(PDDecodeServer):
    """A server that has nothing to stop."""

    def __del__(self) -> None:  # type: ignore[override]
        """Do nothing: the real method is a coroutine, which only Serve awaits."""


def received(answer: Any) -> tuple[Engine, Any, list[Any]]:
    server = Bare.__new__(Bare)
    engine, prefill = Engine(), Prefill(answer)
    server._serving = ModelService(engine, "m")  # type: ignore[arg-type]
    server._outboxes, server._prefill = Outboxes(), prefill

    async def run() -> list[Any]:
        request = CompletionRequest(model="m", prompt="ab", max_tokens=9, stream=False, temperature=0)
        return [each async for each in server.completions(request)]

    return engine, prefill, asyncio.run(run())


def test_the_keys_go_from_prefill_to_the_decoding_engine() -> None:
    answer = CompletionResponse(id="1", model="m", choices=[], usage={}, kv_transfer_params=KEYS)  # type: ignore[arg-type]
    engine, prefill, (found,) = received(answer)
    assert prefill.received[0].max_tokens == 1 and prefill.received[0].kv_transfer_params == HAND_OVER
    assert engine.received[0].extra == {"extra_args": {"kv_transfer_params": KEYS}}
    assert engine.received[0].max_tokens == 9 and found.choices[0].text == "said"


def test_what_prefill_refuses_is_the_answer() -> None:
    error = ErrorResponse(error=ErrorInfo(message="too long", type="invalid_request_error"), status=400)
    engine, _, found = received(error)
    assert found == [error] and engine.received == []


def test_a_prompt_alone_is_asked_of_prefill() -> None:
    request = ChatCompletionRequest.model_validate(
        {
            "messages": [{"role": "user", "content": "x"}],
            "stream": True,
            "stream_options": {"include_usage": True},
            "max_completion_tokens": 50,
            "n": 3,
        }
    )
    found = for_prefill(request)
    assert (found.stream, found.stream_options, found.max_tokens, found.n) == (False, None, 1, 1)
    assert found.max_completion_tokens is None and request.n == 3 and request.stream


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({}, {"num_replicas": 4}),
        ({"num_replicas": 3}, {"num_replicas": 12}),
        (
            {"autoscaling_config": {"min_replicas": 1, "max_replicas": 2, "target_ongoing_requests": 5}},
            {"autoscaling_config": {"min_replicas": 4, "max_replicas": 8, "target_ongoing_requests": 5}},
        ),
    ],
)
def test_numbers_of_replicas_count_groups(given: dict[str, Any], wanted: dict[str, Any]) -> None:
    found = in_groups({**given, "placement_group_strategy": "SPREAD"}, 4)
    gang = found.pop("gang_scheduling_config")
    assert isinstance(gang, GangSchedulingConfig) and gang.gang_size == 4
    assert found == wanted
    assert in_groups(given, 1) == given


def test_a_group_is_a_deployment_of_ranks() -> None:
    app = build_dp_deployment(config(data_parallel_size=2, tensor_parallel_size=2))
    (found,) = deployments(app).values()
    assert found.func_or_class is DPServer and found.name == "DPServer:org--m-1_5"
    assert found.num_replicas == 2 and len(bundles(found)) == 2
    assert set(deployments(build_dp_openai_app({"llm_config": config(data_parallel_size=2)}))) == {
        "OpenAiIngress",
        "DPServer:org--m-1_5",
    }
    with pytest.raises(ValueError, match="data_parallel_size"):
        build_dp_deployment(config(data_parallel_size=0))
    assert rank_arguments(1, "10.0.0.1", 77) == {
        "data_parallel_rank": 1,
        "data_parallel_address": "10.0.0.1",
        "data_parallel_rpc_port": 77,
    }


def test_LLM_1_a_replica_is_a_bundle_for_each_gpu_of_tensor_times_pipeline() -> None:
    (found,) = deployments(
        build_llm_deployment(config(tensor_parallel_size=2, pipeline_parallel_size=3))
    ).values()
    assert [each["GPU"] for each in bundles(found)] == [1.0] * 6
    assert found._replica.actor_options["placement_group_strategy"] == "PACK"


def test_an_operator_reaches_the_engine_or_is_told_that_it_cannot() -> None:
    calls: list[Any] = []

    class Controlled(Engine):
        async def control(self, method: str, *args: Any, **kwargs: Any) -> Any:
            calls.append((method, args, kwargs))
            return True

    server = Bare.__new__(Bare)

    async def run() -> None:
        server.engine = Controlled()  # type: ignore[assignment]
        await server.sleep(level=2)
        await server.wakeup(tags=["weights"])
        assert await server.is_sleeping() is True
        await server.collective_rpc("f", args=(1,))
        server.engine = Engine()  # type: ignore[assignment]
        with pytest.raises(NotImplementedError, match="pause_generation"):
            await server.pause()

    asyncio.run(run())
    assert calls == [
        ("sleep", (), {"level": 2}),
        ("wake_up", (), {"tags": ["weights"]}),
        ("is_sleeping", (), {}),
        ("collective_rpc", ("f", None, (1,), None), {}),
    ]
