"""A process that runs a model in one way, so that a benchmark can compare ways in turn.

`python -m benchmarks.llm.sides WAY FOLDER THREADS`; then a line `[requests, tokens]` on stdin gives a line of figures.
THREADS 0 leaves the choice to the way.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import psutil

PROMPT = 32
#: All requests at once, greedy: requests and tokens of each to the number of generated tokens and steps, if known.
Run = Callable[[int, int], int]


def prompts(count: int) -> list[list[int]]:
    """Random prompts of one length."""
    import torch

    generator = torch.Generator().manual_seed(1)
    return torch.randint(3, 250, (count, PROMPT), generator=generator).tolist()


@contextlib.contextmanager
def embedded(folder: str, threads: int) -> Iterator[Run]:
    """The embedded engine, without Serve and HTTP."""
    from skate.llm import EngineArgs, SamplingParams
    from skate.llm.embedded.engine import EmbeddedEngine

    engine = EmbeddedEngine(EngineArgs(folder, kwargs={"num_threads": threads} if threads else {}))
    asyncio.run(engine.start())

    async def run(count: int, tokens: int) -> int:
        made = 0

        async def one(number: int, prompt: list[int]) -> None:
            nonlocal made
            params = SamplingParams(max_tokens=tokens, temperature=0, ignore_eos=True)
            async for new in engine.generate(prompt, params, str(number)):
                made += len(new.token_ids)

        await asyncio.gather(*(one(number, prompt) for number, prompt in enumerate(prompts(count))))
        return made

    yield lambda count, tokens: asyncio.run(run(count, tokens))
    asyncio.run(engine.stop())


@contextlib.contextmanager
def transformers(folder: str, threads: int) -> Iterator[Run]:
    """transformers' `generate` over one batch that no request joins or leaves."""
    import torch
    from transformers import AutoModelForCausalLM

    if threads:
        torch.set_num_threads(threads)
    model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)

    def run(count: int, tokens: int) -> int:
        ids = torch.tensor(prompts(count))
        with torch.inference_mode():
            made = model.generate(
                ids,
                attention_mask=torch.ones_like(ids),
                max_new_tokens=tokens,
                min_new_tokens=tokens,
                do_sample=False,
                pad_token_id=0,
            )
        return int(made[:, PROMPT:].numel())

    yield run


@contextlib.contextmanager
def vllm(folder: str, threads: int) -> Iterator[Run]:
    """vLLM's own `LLM.generate`, in an interpreter that has vLLM."""
    os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")
    if threads:
        os.environ.setdefault("OMP_NUM_THREADS", str(threads))
    from vllm import LLM, SamplingParams

    llm = LLM(folder, dtype="float32", enforce_eager=True, max_model_len=1024)

    def run(count: int, tokens: int) -> int:
        params = SamplingParams(max_tokens=tokens, temperature=0, ignore_eos=True)
        asked = [{"prompt_token_ids": each} for each in prompts(count)]
        found = llm.generate(asked, params, use_tqdm=False)
        return sum(len(each.outputs[0].token_ids) for each in found)

    yield run


WAYS = {"embedded": embedded, "transformers": transformers, "vllm": vllm}


def cpu_seconds() -> float:
    """Seconds of CPU of this process and all that it started."""
    me = psutil.Process()
    total = 0.0
    for each in [me, *me.children(recursive=True)]:
        with contextlib.suppress(psutil.NoSuchProcess):
            times = each.cpu_times()
            total += times.user + times.system
    return total


def main(way: str, folder: str, threads: int) -> None:
    """Answer lines of stdin until it ends."""
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    # Libraries print to stdout, which is for figures here.
    figures = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    with WAYS[way](folder, threads) as run:
        print(json.dumps("ready"), file=figures, flush=True)
        for line in sys.stdin:
            count, tokens = json.loads(line)
            cpu, started = cpu_seconds(), time.perf_counter()
            made = run(count, tokens)
            seconds = time.perf_counter() - started
            assert made == count * tokens, f"{made} tokens instead of {count * tokens}"
            found = {"tokens": made, "seconds": seconds, "cpu": cpu_seconds() - cpu}
            print(json.dumps(found), file=figures, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
