"""Stands in for vLLM: answers with what it was asked, and with where it runs."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any


class SamplingParams:
    def __init__(self, temperature: float, max_tokens: int) -> None:
        self.temperature = temperature
        self.max_tokens = max_tokens


class LLM:
    def __init__(self, model: str, gpu_memory_utilization: float) -> None:
        self.model = model

    def generate(self, prompts: list[str], params: SamplingParams) -> list[Any]:
        device = os.environ.get("CUDA_VISIBLE_DEVICES", "none")
        texts = [f"{self.model} on {device}: {prompt}" for prompt in prompts]
        return [SimpleNamespace(outputs=[SimpleNamespace(text=text)]) for text in texts]
