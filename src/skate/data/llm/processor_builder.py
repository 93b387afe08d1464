"""Processors from their configurations."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import skate
from skate.data.compute import ActorPoolStrategy
from skate.data.llm.configs import (
    HttpRequestProcessorConfig,
    OfflineProcessorConfig,
    ProcessorConfig,
    ServeDeploymentProcessorConfig,
    SGLangEngineProcessorConfig,
    vLLMEngineProcessorConfig,
)
from skate.data.llm.engine import EngineSpec
from skate.data.llm.engine_stage import EngineStage, SGLangEngineStage, vLLMEngineStage
from skate.data.llm.engines import Registered, engine
from skate.data.llm.processor import Processor, RowFunction
from skate.data.llm.stage import Stage
from skate.data.llm.stage_configs import (
    ChatTemplateStageConfig,
    DetokenizeStageConfig,
    HttpRequestStageConfig,
    PrepareMultimodalStageConfig,
    StageConfig,
    TokenizerStageConfig,
    resolved,
)
from skate.data.llm.text_stages import ChatTemplateStage, DetokenizeStage, TokenizeStage
from skate.resources import Resources

_OWN = ("preprocess", "postprocess", "preprocess_map_kwargs", "postprocess_map_kwargs")


def build_processor(
    config: ProcessorConfig,
    preprocess: RowFunction | None = None,
    postprocess: RowFunction | None = None,
    preprocess_map_kwargs: dict[str, Any] | None = None,
    postprocess_map_kwargs: dict[str, Any] | None = None,
    builder_kwargs: dict[str, Any] | None = None,
) -> Processor:
    """Build a processor, which is called with a dataset and returns one.

    Args:
        config: the kind of processor, and how it runs.
        preprocess: takes a row and returns the columns for the stages; they are added to the row's columns.
        postprocess: takes a row with all columns and returns the columns to keep.
        preprocess_map_kwargs, postprocess_map_kwargs: arguments of `Dataset.map` for these.
        builder_kwargs: `chat_template_kwargs` for processors with an engine; `override_stage_config_fn`, which
            is called with the name of each stage and the stage.

    Raises ValueError for a config of an unsupported kind and for builder_kwargs that are arguments of this
    function, TypeError for unknown ones, ImportError if the engine is not installed.
    """
    more = dict(builder_kwargs or {})
    taken = sorted(set(more) & set(_OWN))
    if taken:
        raise ValueError(
            f"builder_kwargs has {', '.join(taken)}, which are arguments of build_processor itself"
        )
    override = more.pop("override_stage_config_fn", None)
    stages = _builder(config)(config, **more)
    processor = Processor(
        config, stages, preprocess, postprocess, preprocess_map_kwargs, postprocess_map_kwargs
    )
    if override is not None:
        for name, stage in processor.stages.items():
            override(name, stage)
    return processor


def _builder(config: ProcessorConfig) -> Callable[..., list[Stage]]:
    for kind, builder in _BUILDERS.items():
        if isinstance(config, kind):
            return builder
    kinds = ", ".join(kind.__name__ for kind in _BUILDERS)
    raise ValueError(f"a processor needs a config of type {kinds}, got a {type(config).__name__}")


def _pooled(stage: StageConfig) -> dict[str, Any]:
    """Return the arguments of map_batches for a stage that needs no accelerator."""
    return {
        "zero_copy_batch": True,
        "compute": ActorPoolStrategy(**stage.pool()),
        "batch_size": stage.batch_size,
        **stage.actor_options(),
    }


def _http(config: HttpRequestProcessorConfig) -> list[Stage]:
    from skate.data.llm.http_stage import HttpRequestStage  # other processors need no client

    defaults = {"batch_size": config.batch_size, "concurrency": config.concurrency}
    stage = resolved(config.http_request_stage, HttpRequestStageConfig, defaults)
    if not stage.enabled:
        raise ValueError(
            "http_request_stage cannot be disabled: it is the only stage of an HttpRequestProcessorConfig"
        )
    return [
        HttpRequestStage(
            {
                "url": config.url,
                "additional_header": config.headers,
                "qps": config.qps,
                "max_retries": config.max_retries,
                "base_retry_wait_time_in_s": config.base_retry_wait_time_in_s,
                "session_factory": config.session_factory,
            },
            _pooled(stage),
        )
    ]


def _serve(config: ServeDeploymentProcessorConfig) -> list[Stage]:
    from skate.data.llm.serve_stage import ServeDeploymentStage  # only these need Serve

    return [
        ServeDeploymentStage(
            {
                "deployment_name": config.deployment_name,
                "app_name": config.app_name,
                "dtype_mapping": config.dtype_mapping,
                "should_continue_on_error": config.should_continue_on_error,
                "request_timeout_s": config.request_timeout_s,
            },
            {"compute": ActorPoolStrategy(**config.get_concurrency(autoscaling_enabled=False))},
        )
    ]


def _offline(
    name: str,
    kind: type[EngineStage],
    config: OfflineProcessorConfig,
    chat_template_kwargs: dict[str, Any] | None = None,
) -> list[Stage]:
    found = engine(name, device=_device(config), parallel=_workers(config) > 1, gpus=_cluster_gpus())
    defaults = {
        "batch_size": config.batch_size,
        "concurrency": config.concurrency,
        "runtime_env": config.runtime_env,
        "model_source": config.model_source,
    }
    if resolved(config.prepare_multimodal_stage, PrepareMultimodalStageConfig, defaults).enabled:
        raise NotImplementedError(
            "prepare_multimodal_stage is not supported yet; load images in preprocess and pass them as multimodal_data"
        )
    arguments: dict[str, Any] = getattr(config, "engine_kwargs", {})
    text = {"text_model": found.text_model, "trust_remote_code": bool(arguments.get("trust_remote_code"))}
    stages: list[Stage] = []
    chat = resolved(config.chat_template_stage, ChatTemplateStageConfig, defaults)
    if chat.enabled:
        own = chat.chat_template_kwargs
        more = {
            "model": chat.model_source,
            "chat_template": chat.chat_template,
            "chat_template_kwargs": chat_template_kwargs if own is None else own,
        }
        stages.append(ChatTemplateStage({**text, **more}, _pooled(chat)))
    tokenize = resolved(config.tokenize_stage, TokenizerStageConfig, defaults)
    if tokenize.enabled:
        stages.append(TokenizeStage({**text, "model": tokenize.model_source}, _pooled(tokenize)))
    stages.append(kind(_engine_arguments(config, found, arguments), _engine_pool(config, found)))
    detokenize = resolved(config.detokenize_stage, DetokenizeStageConfig, defaults)
    if detokenize.enabled:
        stages.append(DetokenizeStage({**text, "model": detokenize.model_source}, _pooled(detokenize)))
    return stages


def _device(config: OfflineProcessorConfig) -> str | None:
    """Return "gpu" or "cpu" if a config requests it, beyond choosing an engine that usually needs GPUs."""
    placement = getattr(config, "placement_group_config", None) or {}
    bundles = [*(placement.get("bundles") or ()), placement.get("bundle_per_worker") or {}]
    if config.accelerator_type or any(each.get("GPU") for each in bundles):
        return "gpu"
    return "cpu" if placement else None


def _workers(config: OfflineProcessorConfig) -> int:
    """Return the number of the engine's workers for a copy of the model."""
    arguments: dict[str, Any] = getattr(config, "engine_kwargs", {})
    workers = 1
    for names in (("tensor_parallel_size", "tp_size"), ("pipeline_parallel_size", "pp_size")):
        workers *= next((int(arguments[name]) for name in names if name in arguments), 1)
    return workers


def _cluster_gpus() -> float:
    return float(skate.cluster_resources().get("GPU", 0)) if skate.is_initialized() else 0.0


def _engine_arguments(
    config: OfflineProcessorConfig, found: Registered, arguments: dict[str, Any]
) -> dict[str, Any]:
    own = {name: value for name, value in arguments.items() if name not in ("model", "task", "task_type")}
    spec = EngineSpec(
        config.model_source,
        getattr(config, "task_type", "generate"),
        own,
        config.max_pending_requests,
        getattr(config, "dynamic_lora_loading_path", None),
        getattr(config, "log_engine_metrics", True),
    )
    return {
        "factory": found.factory,
        "spec": spec,
        "should_continue_on_error": config.should_continue_on_error,
    }


def _engine_pool(config: OfflineProcessorConfig, found: Registered) -> dict[str, Any]:
    """Return the arguments of map_batches for the engine: one actor has all GPUs that a copy of the model needs."""
    waiting = config.max_tasks_in_flight_per_actor or 2 * config.max_concurrent_batches
    given: dict[str, Any] = {
        "zero_copy_batch": True,
        "compute": ActorPoolStrategy(**config.get_concurrency(), max_tasks_in_flight_per_actor=waiting),
        "max_concurrency": config.max_concurrent_batches,
        "accelerator_type": config.accelerator_type,
        "runtime_env": config.runtime_env,
    }
    workers = _workers(config)
    placement = getattr(config, "placement_group_config", None)
    if placement is None or (_device(config) == "gpu" and not found.needs_gpu):
        return {**given, "num_gpus": workers} if found.needs_gpu else given
    one = placement["bundle_per_worker"]
    bundles = placement["bundles"] if one is None else [one] * workers
    sums = dict(Resources.total(bundles))
    given["num_cpus"], given["num_gpus"] = sums.pop("CPU", 0.0) or None, sums.pop("GPU", 0.0) or None
    return {**given, "resources": sums or None}


_BUILDERS: dict[type[ProcessorConfig], Callable[..., list[Stage]]] = {
    HttpRequestProcessorConfig: _http,
    ServeDeploymentProcessorConfig: _serve,
    vLLMEngineProcessorConfig: partial(_offline, "vllm", vLLMEngineStage),
    SGLangEngineProcessorConfig: partial(_offline, "sglang", SGLangEngineStage),
}
