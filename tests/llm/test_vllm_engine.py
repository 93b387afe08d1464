"""The engine vLLM behind the seam, with a fake vLLM that has only the names used: the calls to it, and its results."""

from __future__ import annotations

import asyncio
import enum
import json
import os
import sys
import types
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from skate.llm import EngineArgs, SamplingParams
from skate.llm.engines import Place, decided
from skate.llm.errors import BadRequest, EngineStopped, Overloaded, PromptTooLong, UnknownModel
from skate.llm.openai.model_service import ModelService
from skate.llm.openai.requests import ChatCompletionRequest, CompletionRequest
from skate.llm.vllm import VllmEngine, bind_workers
from skate.llm.vllm_build import vllm_build
from skate.serve.llm import LLMConfig, LLMServer
from tests.llm.asking import ask, ask_all


class EngineDeadError(Exception):
    """As vLLM's."""


class VLLMClientError(Exception):
    """As vLLM's, which is no ValueError."""


class VLLMValidationError(VLLMClientError):
    """As vLLM's."""

    parameter = "logit_bias"


class QueueOverflowError(Exception):
    """As vLLM's."""


LIKELIEST = SimpleNamespace(logprob=-0.25, rank=1)


class FakeVllm:
    """Says the tokens of a prompt backwards, one at a time."""

    def __init__(self, arguments: Any) -> None:
        self.arguments = arguments
        self.model_config = SimpleNamespace(max_model_len=8, get_vocab_size=lambda: 100)
        self.vllm_config = SimpleNamespace(scheduler_config=SimpleNamespace(max_num_seqs=256))
        self.requests: list[Any] = []
        self.closed = self.aborted = 0
        self.dead = False

    async def generate(
        self, prompt: Any, params: Any, request_id: str, lora_request: Any
    ) -> AsyncIterator[Any]:
        self.requests.append((prompt, params, request_id, lora_request))
        tokens = prompt.get("prompt_token_ids") or [ord(each) for each in prompt["prompt"]]
        if self.dead:
            raise EngineDeadError("a worker died")
        if len(tokens) >= 8:
            raise ValueError("too long")
        if tokens[0] == 99:
            raise VLLMValidationError("no such token")
        if tokens[0] == 98:
            raise QueueOverflowError("the queue is full")
        try:
            for at, token in enumerate(reversed(tokens)):
                last = at == len(tokens) - 1
                outputs = [
                    SimpleNamespace(
                        index=index,
                        text=f"<{token}>",
                        token_ids=(token,),
                        logprobs=None
                        if params.logprobs is None
                        else [{token: SimpleNamespace(logprob=-1.0), 5: SimpleNamespace(logprob=-0.5)}],
                        finish_reason="length" if last else None,
                        stop_reason=None,
                    )
                    for index in range(params.n)
                ]
                asked = getattr(params, "prompt_logprobs", None)
                likely = [
                    None,
                    *({each: SimpleNamespace(logprob=-2.0, rank=9), 6: LIKELIEST} for each in tokens[1:]),
                ]
                yield SimpleNamespace(
                    prompt_token_ids=tokens,
                    outputs=outputs,
                    prompt_logprobs=None if asked is None or at else likely,
                )
        finally:
            self.closed += 1

    async def encode(
        self, prompt: Any, params: Any, request_id: str, lora_request: Any
    ) -> AsyncIterator[Any]:
        self.requests.append((prompt, params, request_id, lora_request))
        vector = SimpleNamespace(
            float=lambda: SimpleNamespace(tolist=lambda: [0.6, 0.8]), squeeze=lambda: 0.25
        )
        yield SimpleNamespace(prompt_token_ids=[1, 2], outputs=SimpleNamespace(data=vector))

    def get_num_unfinished_requests(self) -> int:
        return 3

    def get_tokenizer(self) -> Any:
        def tokens(text: str, text_pair: str = "") -> dict[str, list[int]]:
            kinds = [0] * len(text) + [1] * len(text_pair)
            return {"input_ids": [ord(each) for each in text + text_pair], "token_type_ids": kinds}

        return tokens

    async def abort(self, request_id: str) -> None:
        self.aborted += 1

    async def check_health(self) -> None:
        if self.dead:
            raise EngineDeadError("a worker died")

    def shutdown(self) -> None:
        self.dead = True


@pytest.fixture(autouse=True)
def fake_vllm(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    module: Any = types.ModuleType("vllm")
    module.AsyncEngineArgs = module.SamplingParams = module.PoolingParams = SimpleNamespace
    module.AsyncLLMEngine = SimpleNamespace(from_engine_args=FakeVllm)
    sampling: Any = types.ModuleType("vllm.sampling_params")
    sampling.RequestOutputKind = enum.Enum("RequestOutputKind", ["CUMULATIVE", "DELTA", "FINAL_ONLY"])
    sampling.StructuredOutputsParams = lambda **given: ("form", given)
    lora: Any = types.ModuleType("vllm.lora.request")
    lora.LoRARequest = lambda *given: given
    for name, found in (("vllm", module), ("vllm.sampling_params", sampling), ("vllm.lora.request", lora)):
        monkeypatch.setitem(sys.modules, name, found)
    yield


def started(**more: Any) -> VllmEngine:
    engine = VllmEngine(EngineArgs("m", **more))
    asyncio.run(engine.start())
    return engine


def test_parallel_sizes_and_adapters_go_to_vllm(tmp_path: Path) -> None:
    engine = started(
        kwargs={"tensor_parallel_size": 2, "pipeline_parallel_size": 3},
        lora_folder=str(tmp_path),
        max_loras=4,
    )
    found = engine.engine.arguments
    assert (found.model, found.tensor_parallel_size, found.pipeline_parallel_size) == ("m", 2, 3)
    assert (found.enable_lora, found.max_loras, found.runner) == (True, 4, "generate")
    assert engine.info().max_model_len == 8 and engine.info().max_num_seqs == 256


def test_increments_are_what_is_new(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "adapter_config.json").write_text("{}")
    engine = started(lora_folder=str(tmp_path))
    params = {
        "n": 2,
        "seed": 3,
        "stop": "x",
        "logprobs": 1,
        "extra": {"structured_outputs": {"json": {}, "grammar": None}},
    }
    answers = asyncio.run(ask_all(engine, [7, 8, 9], "mine", **params))
    assert [each.tokens for each in answers] == [[9, 8, 7]] * 2
    assert answers[0].text == "<9><8><7>" and answers[0].finish_reason == "length"
    assert answers[0].logprobs[0].top == ((5, -0.5), (9, -1.0)) and answers[0].prompt_tokens == 3
    prompt, parameters, _, lora = engine.engine.requests[0]
    assert prompt == {"prompt_token_ids": [7, 8, 9]} and lora == ("mine", 1, str(tmp_path / "mine"))
    assert parameters.output_kind.name == "DELTA" and parameters.stop == ["x"] and parameters.seed == 3
    assert parameters.structured_outputs == ("form", {"json": {}})


def test_prompt_logprobs_with_adapters_do_not_end_vllm_on_cpus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = {"extra": {"prompt_logprobs": 1}, "max_tokens": 1}
    monkeypatch.setattr("skate.llm.vllm.vllm_build", lambda: "cpu")
    engine = started(lora_folder=str(tmp_path))
    with pytest.raises(BadRequest, match="serve the model without lora_config") as found:
        asyncio.run(ask(engine, [7, 8], **asked))
    assert found.value.param == "prompt_logprobs" and not engine.engine.requests
    asyncio.run(ask(engine, [7, 8]))
    asyncio.run(ask(started(), [7, 8], **asked))
    monkeypatch.setattr("skate.llm.vllm.vllm_build", lambda: "gpu")
    asyncio.run(ask(started(lora_folder=str(tmp_path)), [7, 8], **asked))


@pytest.mark.parametrize("name", ["none", "../up", "/etc", ".", ""])
def test_adapters_lie_in_their_folder(tmp_path: Path, name: str) -> None:
    engine = started(lora_folder=str(tmp_path))
    with pytest.raises(UnknownModel):
        asyncio.run(ask(engine, [1], name))
    assert not engine.has_adapter(name)


def test_errors_are_the_callers_or_the_engines() -> None:
    engine = started()
    with pytest.raises(PromptTooLong):
        asyncio.run(ask(engine, [1] * 9))
    with pytest.raises(BadRequest, match="too long"):
        asyncio.run(ask(engine, "x" * 9))
    with pytest.raises(BadRequest, match="no such token") as refused:
        asyncio.run(ask(engine, [99]))
    assert refused.value.param == "logit_bias"
    with pytest.raises(Overloaded, match="queue is full"):
        asyncio.run(ask(engine, [98]))
    assert engine.load() == (3, 0)
    engine.engine.dead = True
    with pytest.raises(EngineStopped, match="a worker died"):
        asyncio.run(ask(engine, [1]))
    with pytest.raises(EngineStopped, match="a worker died"):
        asyncio.run(engine.check_health())


def test_a_reader_that_leaves_closes_vllms_stream() -> None:
    async def run() -> None:
        engine = VllmEngine(EngineArgs("m"))
        await engine.start()
        stream = engine.generate([1, 2, 3], SamplingParams(), "r")
        await anext(stream)
        await stream.aclose()
        assert engine.engine.closed == 1
        await engine.abort("r")
        assert engine.engine.aborted == 1
        await engine.stop()

    asyncio.run(run())


def test_embeddings_are_a_task_of_their_own() -> None:
    engine = started(task="embed")
    found = asyncio.run(engine.embed([1, 2], "r"))
    assert (found.vector, found.prompt_tokens) == ([0.6, 0.8], 2)
    assert engine.engine.arguments.runner == "pooling"
    with pytest.raises(BadRequest, match="task 'embed'"):
        asyncio.run(started().embed([1], "r"))


@pytest.mark.parametrize(
    ("cores", "given", "found"),
    [({0, 1, 2, 3, 4}, None, "0,1|2,3"), ({5}, None, "nobind"), ({0, 1}, "1|0", "1|0")],
)
def test_workers_share_the_cores(
    cores: set[int], given: str | None, found: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: cores)
    monkeypatch.setattr("glob.glob", lambda pattern: ["node0"])
    name = "VLLM_CPU_OMP_THREADS_BIND"
    monkeypatch.setenv(name, given or "")  # so that the end of the test restores it
    if given is None:
        monkeypatch.delenv(name)
    bind_workers(1)
    assert os.environ.get(name) == given
    bind_workers(2)
    assert os.environ[name] == found
    monkeypatch.delenv(name)


def test_a_cross_encoder_gets_both_texts_and_where_the_second_begins() -> None:
    engine = started(task="score")
    found = asyncio.run(engine.score("ab", "c", "r"))
    prompt, params, _, _ = engine.engine.requests[0]
    assert (found.value, found.prompt_tokens) == (0.25, 3) and engine.scores_pairs
    assert prompt == {"prompt_token_ids": [97, 98, 99]}
    assert params.extra_kwargs == {"compressed_token_type_ids": 2} and params.task == "classify"
    assert not started().scores_pairs


def answers(**given: Any) -> list[Any]:
    """The whole response of the API, or the events of its stream."""

    async def run() -> list[Any]:
        engine = VllmEngine(EngineArgs("m"))
        await engine.start()
        engine.__dict__["text"] = SimpleNamespace(
            token=str,
            decode=lambda tokens: "".join(map(str, tokens)),
            token_bytes=lambda token: None,
            chat=lambda messages, template, **options: messages[-1]["content"],
            encode=lambda text, special: [ord(each) for each in text],
        )
        service = ModelService(engine, "m")
        if "messages" in given:
            return [each async for each in service.chat(ChatCompletionRequest(**given))]
        return [each async for each in service.completions(CompletionRequest(**given))]

    return asyncio.run(run())


def test_an_echo_has_the_log_probabilities_of_the_prompt() -> None:
    given = {"prompt": [7, 8], "max_tokens": 2, "echo": True, "logprobs": 1}
    (whole,) = answers(**given)
    logprobs = whole.choices[0].logprobs
    assert logprobs["tokens"] == ["7", "8", "8", "7"] and logprobs["text_offset"] == [0, 1, 2, 3]
    assert logprobs["token_logprobs"] == [None, -2.0, -1.0, -1.0] and logprobs["top_logprobs"][0] is None
    events = "".join(answers(**given, stream=True)).split("\n\n")
    first = json.loads(events[0].removeprefix("data: "))["choices"][0]
    assert first["text"] == "78" and first["logprobs"]["token_logprobs"] == [None, -2.0]
    second = json.loads(events[1].removeprefix("data: "))["choices"][0]
    assert second["logprobs"]["text_offset"] == [2]
    both = "".join(answers(**given, stream=True, n=2, temperature=1)).split("\n\n")
    starts = [json.loads(each.removeprefix("data: "))["choices"][0] for each in both if '"78"' in each]
    assert [each["index"] for each in starts] == [0, 1]
    assert all(each["logprobs"]["token_logprobs"] == [None, -2.0] for each in starts)


def test_log_probabilities_of_a_prompt_are_those_of_all_answers() -> None:
    """If its reader is late, vLLM merges a later output of one answer with the first one of another."""

    async def late(*given: Any, **more: Any) -> AsyncIterator[Any]:
        def output(index: int, end: str | None) -> Any:
            given = {
                "text": "x",
                "token_ids": (1,),
                "logprobs": None,
                "finish_reason": end,
                "stop_reason": None,
            }
            return SimpleNamespace(index=index, **given)

        likely = [None, {8: SimpleNamespace(logprob=-2.0, rank=9)}]
        yield SimpleNamespace(prompt_token_ids=[7, 8], outputs=[output(0, None)], prompt_logprobs=likely)
        both = [output(0, "stop"), output(1, "stop")]
        yield SimpleNamespace(prompt_token_ids=[7, 8], outputs=both, prompt_logprobs=None)

    async def run() -> dict[int, Any]:
        engine = VllmEngine(EngineArgs("m"))
        await engine.start()
        engine.engine.generate = late
        params = SamplingParams(n=2, extra={"prompt_logprobs": 0})
        found: dict[int, Any] = {}
        async for new in engine.generate([7, 8], params, "r"):
            found.setdefault(new.index, new.prompt_logprobs)
        return found

    found = asyncio.run(run())
    assert found[0] == found[1] and [each and each.logprob for each in found[0]] == [None, -2.0]


def test_prompt_logprobs_have_the_shape_of_vllms() -> None:
    likely = {
        "8": {"logprob": -2.0, "rank": 9, "decoded_token": "8"},
        "6": {"logprob": -0.25, "rank": 1, "decoded_token": "6"},
    }
    (whole,) = answers(prompt=[[7, 8], [9]], max_tokens=2, n=2, temperature=1, prompt_logprobs=1)
    found = [each.prompt_logprobs for each in whole.choices]
    assert found == [[None, likely]] * 2 + [[None]] * 2
    assert list(found[0][1]) == ["8", "6"]  # the token of the prompt is the first
    assert all(each.logprobs is None for each in whole.choices)
    (chat,) = answers(messages=[{"role": "user", "content": "ab"}], max_tokens=2, prompt_logprobs=0)
    first, second = json.loads(chat.model_dump_json())["prompt_logprobs"]
    assert first is None and list(second) == ["98", "6"] and second["98"]["decoded_token"] == "98"
    (echo,) = answers(prompt=[7, 8], max_tokens=1, echo=True, logprobs=0, prompt_logprobs=1)
    assert echo.choices[0].logprobs["top_logprobs"][1] == {"8": -2.0}
    assert echo.choices[0].prompt_logprobs == [None, likely]
    (plain,) = answers(prompt=[7, 8], max_tokens=1, logprobs=1)
    assert plain.choices[0].prompt_logprobs is None and len(plain.choices[0].logprobs["tokens"]) == 2
    (refused,) = answers(prompt=[7], prompt_logprobs=1, stream=True)
    assert refused.status == 400 and "not available in a stream" in refused.error.message
    assert refused.error.param == "prompt_logprobs"


@pytest.mark.parametrize(
    ("place", "engine", "on_gpus"),
    [
        (Place("vLLM", "gpu", gpus=8, build="gpu"), "vllm", True),
        (Place("vLLM", "gpu", build="gpu"), "vllm", True),
        (Place("vLLM", gpus=1, build="gpu"), "vllm", True),
        (Place("vLLM", gpus=1, build="cpu"), "vllm", True),
        (Place("vLLM", "cpu", build="gpu"), "vllm", False),
        (Place("vLLM", "cpu", gpus=1, build="cpu"), "vllm", False),
        (Place("vLLM", build="cpu"), "vllm", False),
        (Place("vLLM", parallel=True, build="cpu"), "vllm", False),
        (Place("vLLM"), "embedded", False),
        (Place("embedded", gpus=8), "embedded", False),
        (Place("vLLM", "gpu", gpus=8, build="gpu", setting="Embedded"), "embedded", False),
    ],
)
def test_which_engine_runs_a_model(place: Place, engine: str, on_gpus: bool) -> None:
    found = decided(place)
    assert (found.engine, found.on_gpus) == (engine, on_gpus)
    chosen_here = place in (
        Place("vLLM", build="cpu"),
        Place("vLLM"),
        Place("vLLM", parallel=True, build="cpu"),
    )
    assert (found.message is not None) == chosen_here
    assert "\n" not in (found.message or "")


@pytest.mark.parametrize(
    "place",
    [
        Place("vLLM", "gpu"),
        Place("vLLM", parallel=True),
        Place("vLLM", gpus=1),
        Place("vLLM", embedded_installed=False),
    ],
)
def test_a_missing_vllm_is_named_with_the_ways_out(place: Place) -> None:
    with pytest.raises(
        ImportError, match="three ways out.*install vllm`.*install vllm-cpu`.*llm_engine='embedded'"
    ):
        decided(place)


def test_vllm_for_gpus_names_the_ways_out_where_there_is_none() -> None:
    with pytest.raises(
        RuntimeError, match="three ways out.*vllm-cpu.*llm_engine='embedded'.*accelerator_type"
    ):
        decided(Place("vLLM", build="gpu"))


@pytest.mark.parametrize(
    ("package", "version", "build"),
    [("vllm_cpu", "0.32.0", "cpu"), ("vllm", "0.32.0+cpu", "cpu"), ("vllm", "0.32.0", "gpu")],
)
def test_the_build_of_vllm_is_that_of_its_package(
    package: str, version: str, build: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder with a package of that name stands in for vLLM; nothing imports it."""
    monkeypatch.delitem(sys.modules, "vllm")
    monkeypatch.delenv("VLLM_TARGET_DEVICE", raising=False)
    (tmp_path / "vllm").mkdir()
    (tmp_path / "vllm" / "__init__.py").write_text("raise AssertionError('imported')")
    about = tmp_path / f"{package}-{version}.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {package.replace('_', '-')}\nVersion: {version}\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    assert vllm_build() == build
    config = LLMConfig(model_loading_config={"model_id": "m"}, engine_kwargs={"tensor_parallel_size": 2})
    if build == "cpu":
        options = LLMServer.get_deployment_options(config)
        assert options["ray_actor_options"] == {"num_cpus": 2} and "placement_group_bundles" not in options
    else:
        with pytest.raises(RuntimeError, match="three ways out"):
            LLMServer.get_deployment_options(config)
