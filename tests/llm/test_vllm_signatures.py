"""The adapter of vLLM against vLLM's own source, read and not run: every name that is asked of it is there.

vLLM is large, so that its source is looked for: installed, or unpacked from its wheel where
SKATE_VLLM_SOURCE says.
"""

from __future__ import annotations

import ast
import importlib.util
import os
from dataclasses import fields
from pathlib import Path

import pytest

from skate.llm.sampling import SamplingParams
from skate.llm.vllm import POOLING_TASKS, RUNNERS
from skate.llm.vllm_speech import TASKS


def _source() -> Path | None:
    declared = os.environ.get("SKATE_VLLM_SOURCE")
    if declared:
        return Path(declared)
    spec = importlib.util.find_spec("vllm")
    return None if spec is None or spec.origin is None else Path(spec.origin).parent


SOURCE = _source()
pytestmark = pytest.mark.skipif(
    SOURCE is None,
    reason="vLLM is not installed; SKATE_VLLM_SOURCE may name the folder vllm of its unpacked wheel",
)


def module(path: str) -> ast.Module:
    assert SOURCE is not None
    return ast.parse((SOURCE / path).read_text())


def a_class(path: str, name: str) -> ast.ClassDef:
    return next(each for each in module(path).body if isinstance(each, ast.ClassDef) and each.name == name)


def declared(path: str, name: str) -> set[str]:
    """Fields of a class."""
    return {
        each.target.id
        for each in a_class(path, name).body
        if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)
    }


def takes(path: str, name: str, method: str) -> set[str]:
    """Arguments of a method."""
    found = next(
        each
        for each in a_class(path, name).body
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef) and each.name == method
    )
    return {each.arg for each in (*found.args.args, *found.args.kwonlyargs)}


def literals(path: str, name: str) -> set[str]:
    """The words of a Literal."""
    for each in module(path).body:
        targets = [each.target] if isinstance(each, ast.AnnAssign) else getattr(each, "targets", [])
        if any(isinstance(target, ast.Name) and target.id == name for target in targets):
            value = getattr(each, "value", None)
            return {x.value for x in ast.walk(value) if isinstance(x, ast.Constant)} if value else set()
    raise AssertionError(f"{path} has no {name}")


ENGINE = ("v1/engine/async_llm.py", "AsyncLLM")


@pytest.mark.parametrize(
    ("method", "arguments"),
    [
        ("from_engine_args", {"engine_args"}),
        ("generate", {"prompt", "sampling_params", "request_id", "lora_request"}),
        ("encode", {"prompt", "pooling_params", "request_id", "lora_request"}),
        ("abort", {"request_id"}),
        ("check_health", set()),
        ("get_tokenizer", set()),
        ("get_num_unfinished_requests", set()),
        ("shutdown", set()),
        ("sleep", {"level"}),
        ("wake_up", {"tags"}),
        ("is_sleeping", set()),
        ("pause_generation", set()),
        ("resume_generation", set()),
        ("is_paused", set()),
        ("start_profile", set()),
        ("stop_profile", set()),
        ("reset_prefix_cache", set()),
        ("collective_rpc", {"method", "timeout", "args", "kwargs"}),
    ],
)
def test_the_engine_takes_what_it_is_asked(method: str, arguments: set[str]) -> None:
    assert arguments <= takes(*ENGINE, method)


def test_arguments_and_params_have_the_names_that_are_given() -> None:
    engine = declared("engine/arg_utils.py", "EngineArgs")
    assert {
        "model",
        "tokenizer",
        "runner",
        "convert",
        "disable_log_stats",
        "enable_lora",
        "max_loras",
    } <= engine
    assert {
        "tensor_parallel_size",
        "pipeline_parallel_size",
        "data_parallel_size",
        "kv_transfer_config",
    } <= engine
    assert {"data_parallel_rank", "data_parallel_address", "data_parallel_rpc_port"} <= engine
    ours = {each.name for each in fields(SamplingParams)} - {"extra"}
    assert ours | {"output_kind", "structured_outputs", "extra_args"} <= declared(
        "sampling_params.py", "SamplingParams"
    )
    assert {"json", "json_object"} <= declared("sampling_params.py", "StructuredOutputsParams")
    kinds = a_class("sampling_params.py", "RequestOutputKind").body
    assert {"DELTA", "FINAL_ONLY"} <= {x.targets[0].id for x in kinds if isinstance(x, ast.Assign)}  # type: ignore[attr-defined]
    assert "prompt_logprobs" in declared("sampling_params.py", "SamplingParams")
    assert {"task", "dimensions", "extra_kwargs"} <= declared("pooling_params.py", "PoolingParams")
    assert [*_order("lora/request.py", "LoRARequest")][:3] == ["lora_name", "lora_int_id", "lora_path"]


def _order(path: str, name: str) -> list[str]:
    return [x.target.id for x in a_class(path, name).body if isinstance(x, ast.AnnAssign)]  # type: ignore[union-attr]


def test_outputs_have_the_names_that_are_read() -> None:
    one = {"index", "text", "token_ids", "logprobs", "finish_reason", "stop_reason"}
    assert one <= declared("outputs.py", "CompletionOutput")
    whole = {"prompt_token_ids", "outputs", "metrics", "num_cached_tokens", "kv_transfer_params"}
    assert whole <= takes("outputs.py", "RequestOutput", "__init__")
    assert {"prompt_token_ids", "outputs"} <= takes("outputs.py", "PoolingRequestOutput", "__init__")
    assert "first_token_latency" in declared("v1/metrics/stats.py", "RequestStateStats")
    dead = {x.name for x in module("v1/engine/exceptions.py").body if isinstance(x, ast.ClassDef)}
    assert "EngineDeadError" in dead
    refused = {x.name for x in module("exceptions.py").body if isinstance(x, ast.ClassDef)}
    assert {"VLLMClientError", "QueueOverflowError", "MaxQueuedTokensError"} <= refused


def test_reasoning_parsers_are_called_as_they_are_defined() -> None:
    parser = ("reasoning/abs_reasoning_parsers.py", "ReasoningParser")
    assert {"model_output", "request"} <= takes(*parser, "extract_reasoning")
    assert {"previous_text", "current_text", "delta_text"} <= takes(*parser, "extract_reasoning_streaming")
    assert "name" in takes(parser[0], "ReasoningParserManager", "get_reasoning_parser")


def test_tasks_are_those_that_vllm_knows() -> None:
    converts = literals("config/model.py", "ConvertType")
    assert {each["convert"] for each in RUNNERS.values() if "convert" in each} <= converts
    assert set(POOLING_TASKS.values()) <= literals("tasks.py", "PoolingTask")


def test_conversations_with_media_are_rendered_as_vllm_does() -> None:
    assert {"conversations", "chat_params", "tok_params"} <= takes(
        "renderers/base.py", "BaseRenderer", "render_chat_async"
    )
    chat = {"chat_template", "chat_template_kwargs", "media_io_kwargs"}
    assert chat <= declared("renderers/params.py", "ChatParams")
    assert {"max_total_tokens", "add_special_tokens"} <= declared("renderers/params.py", "TokenizeParams")
    places = {"allowed_media_domains", "allowed_local_media_path", "enable_prompt_embeds"}
    assert places <= declared("config/model.py", "ModelConfig")


def test_vllms_servers_of_audio_are_called_as_they_are_defined() -> None:
    for module, request, server, method in TASKS.values():
        place = f"entrypoints/speech_to_text/{module}"
        assert {"audio_data", "request", "raw_request"} <= takes(f"{place}/serving.py", server, method)
        assert {"engine_client", "models", "request_logger"} <= takes(
            f"{place}/serving.py", server, "__init__"
        )
        assert {"file", "model", "language", "stream"} <= declared(f"{place}/protocol.py", request)
    models = takes("entrypoints/openai/models/serving.py", "OpenAIServingModels", "__init__")
    assert {"engine_client", "base_model_paths"} <= models
    assert {"name", "model_path"} <= declared("entrypoints/openai/models/protocol.py", "BaseModelPath")
    assert not takes(*ENGINE, "get_supported_tasks") - {"self"}
