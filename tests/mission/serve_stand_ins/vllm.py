"""Stands in for vLLM: runs the model, which lies in the folder of its name, on a CPU; the GPUs of the node are made up."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

SEED = 7


class SamplingParams:
    def __init__(self, temperature: float, max_tokens: int) -> None:
        self.temperature = temperature
        self.max_tokens = max_tokens


class LLM:
    def __init__(self, model: str, gpu_memory_utilization: float) -> None:
        assert 0 < gpu_memory_utilization <= 1
        torch.set_num_threads(1)
        self.devices = os.environ.get("CUDA_VISIBLE_DEVICES", "")
        self.tokenizer = AutoTokenizer.from_pretrained(model)
        self.model = AutoModelForCausalLM.from_pretrained(model)

    def generate(self, prompts: list[str], params: SamplingParams) -> list[Any]:
        # An actor whose process has one GPU sees that one.
        assert self.devices in ("0", "1", "here"), f"CUDA_VISIBLE_DEVICES={self.devices!r}"
        return [SimpleNamespace(outputs=[SimpleNamespace(text=self._text(each, params))]) for each in prompts]

    def _text(self, prompt: str, params: SamplingParams) -> str:
        torch.manual_seed(SEED)  # so that one can say what the answer has to be
        given = self.tokenizer(prompt, return_tensors="pt")
        answer = self.model.generate(
            input_ids=given["input_ids"],
            attention_mask=given["attention_mask"],
            do_sample=True,
            temperature=params.temperature,
            max_new_tokens=params.max_tokens,
            pad_token_id=self.tokenizer.eos_token_id,
        )
        text: str = self.tokenizer.decode(answer[0][given["input_ids"].shape[1] :], skip_special_tokens=True)
        return text
