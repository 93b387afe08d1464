"""Language models behind one seam: vLLM on GPUs, or an engine of Skate's own on CPUs; and OpenAI's HTTP API over either."""

from __future__ import annotations

from skate.llm.engine import Engine, EngineArgs
from skate.llm.output import Embedding, Increment, ModelInfo, TokenLogprob
from skate.llm.sampling import SamplingParams

__all__ = ["Embedding", "Engine", "EngineArgs", "Increment", "ModelInfo", "SamplingParams", "TokenLogprob"]
