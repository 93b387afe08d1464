"""One interface to language models: vLLM on GPUs or Skate's embedded engine on CPUs, with OpenAI's HTTP API on top."""

from __future__ import annotations

from skate.llm.engine import Engine, EngineArgs
from skate.llm.output import Embedding, Increment, ModelInfo, TokenLogprob
from skate.llm.sampling import SamplingParams

__all__ = ["Embedding", "Engine", "EngineArgs", "Increment", "ModelInfo", "SamplingParams", "TokenLogprob"]
