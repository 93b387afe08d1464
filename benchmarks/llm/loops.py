"""Baselines of transformers alone: a bare loop over model.forward, and its own continuous batching."""

from __future__ import annotations

import inspect
import logging
import time
from collections.abc import Callable
from typing import Any

import torch
from transformers import AutoModelForCausalLM, GenerationConfig
from transformers.cache_utils import DynamicCache

PROMPT = 32


def prompts(count: int) -> list[list[int]]:
    """Random prompts of one length."""
    generator = torch.Generator().manual_seed(1)
    return torch.randint(3, 250, (count, PROMPT), generator=generator).tolist()


def bare(model: Any, count: int, tokens: int) -> list[list[int]]:
    """As fast as it goes: one batch that nobody joins or leaves, greedy."""
    with torch.inference_mode():
        cache = DynamicCache(config=model.config)
        # Renamed in transformers 5.24.
        name = "cache" if "cache" in inspect.signature(model.forward).parameters else "past_key_values"
        out = model(torch.tensor(prompts(count)), **{name: cache}, logits_to_keep=1)
        last = out.logits[:, -1].argmax(-1, keepdim=True)
        found = [last]
        for at in range(PROMPT, PROMPT + tokens - 1):
            out = model(last, **{name: cache}, position_ids=torch.full((count, 1), at), logits_to_keep=1)
            last = out.logits[:, -1].argmax(-1, keepdim=True)
            found.append(last)
    return torch.cat(found, 1).tolist()


def generate_batch(model: Any, count: int, tokens: int) -> list[list[int]]:
    """Transformers' own continuous batching."""
    config = GenerationConfig(max_new_tokens=tokens, do_sample=False, eos_token_id=-1, pad_token_id=0)
    found = model.generate_batch(
        prompts(count), generation_config=config, progress_bar=False, persistent_manager=True
    )
    return [list(each.generated_tokens) for each in found.values()]


def measure(folder: str, counts: tuple[int, ...], tokens: int) -> dict[tuple[str, int], float]:
    """Tokens a second of CPU time, by way and number of requests; the better of two runs."""
    logging.disable(logging.WARNING)
    model = AutoModelForCausalLM.from_pretrained(folder).eval()
    ways: dict[str, Callable[..., Any]] = {"bare loop": bare, "generate_batch": generate_batch}
    speeds = {}
    for count in counts:
        for name, way in ways.items():
            best = 0.0
            for _ in range(2):
                started = time.process_time()
                found = way(model, count, tokens)
                best = max(best, sum(map(len, found)) / (time.process_time() - started))
            speeds[name, count] = best
        model.destroy_cached_continuous_batching_manager()
    return speeds
