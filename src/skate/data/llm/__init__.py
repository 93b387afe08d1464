"""Datasets through language models: a processor is a sequence of stages, each a dataset operation over a pool
of actors."""

from __future__ import annotations

from skate.data.llm.configs import (
    HttpRequestProcessorConfig,
    ProcessorConfig,
    ServeDeploymentProcessorConfig,
    SGLangEngineProcessorConfig,
    vLLMEngineProcessorConfig,
)
from skate.data.llm.processor import Processor
from skate.data.llm.processor_builder import build_processor
from skate.data.llm.stage_configs import (
    ChatTemplateStageConfig,
    DetokenizeStageConfig,
    HttpRequestStageConfig,
    PrepareMultimodalStageConfig,
    TokenizerStageConfig,
)

#: The former name of build_processor.
build_llm_processor = build_processor

__all__ = [
    "ChatTemplateStageConfig",
    "DetokenizeStageConfig",
    "HttpRequestProcessorConfig",
    "HttpRequestStageConfig",
    "PrepareMultimodalStageConfig",
    "Processor",
    "ProcessorConfig",
    "SGLangEngineProcessorConfig",
    "ServeDeploymentProcessorConfig",
    "TokenizerStageConfig",
    "build_processor",
    "vLLMEngineProcessorConfig",
]
