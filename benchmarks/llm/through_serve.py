"""`python -m benchmarks.llm.through_serve [--size 2M] [--count 32] [--tokens 128] [--rounds 5]`: Serve and the bare engine."""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from statistics import median
from typing import Any

from benchmarks.llm import loops, models
from benchmarks.llm.__main__ import post


class Asked:
    """The process that serves, and what it says of itself."""

    def __init__(self, folder: str) -> None:
        command = [sys.executable, "-m", "benchmarks.llm.serve_server", folder, "1"]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.port = int(self.process.stdout.readline())

    def say(self, words: Any) -> Any:
        """Its answer to one line."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps(words) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def close(self) -> None:
        """End it."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


async def through(asked: Asked, count: int, tokens: int, model: str, stream: bool) -> dict[str, float]:
    """All requests at once over HTTP."""
    more: dict[str, Any] = {"stream": True, "stream_options": {"include_usage": True}} if stream else {}
    body = {"model": model, "max_tokens": tokens, "temperature": 0, "ignore_eos": True, **more}
    before, started = asked.say("cpu"), time.perf_counter()
    found = await asyncio.gather(
        *(post(asked.port, {**body, "prompt": each}) for each in loops.prompts(count))
    )
    seconds = time.perf_counter() - started
    return {
        "tokens": sum(each for each, _ in found),
        "seconds": seconds,
        "cpu": asked.say("cpu") - before,
        "ttft": median(first for _, first in found),
    }


async def compare(asked: Asked, count: int, tokens: int, rounds: int) -> None:
    """All ways in turn."""

    async def bare() -> Any:
        return asked.say([count, tokens])

    ways: dict[str, Callable[[], Awaitable[Any]]] = {
        "engine bare": bare,
        "stream, 50 ms": lambda: through(asked, count, tokens, "m", True),
        "stream, each": lambda: through(asked, count, tokens, "m0", True),
        "whole": lambda: through(asked, count, tokens, "m", False),
    }
    for way in ways.values():
        await way()
    found: dict[str, list[dict[str, float]]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            found[name].append(await way())
    base: tuple[float, ...] | None = None
    for name, each in found.items():
        wall = max(one["tokens"] / one["seconds"] for one in each)
        cpu = [one["tokens"] / one["cpu"] for one in each]
        figures = (wall, max(cpu), median(cpu))
        base = base or figures
        shares = "  ".join(f"{one:6.0f} {one / of:.2f}" for one, of in zip(figures, base, strict=True))
        print(
            f"{name:14} wall, CPU, CPU median: {shares}  TTFT {min(one['ttft'] for one in each) * 1000:.0f} ms"
        )


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.llm.through_serve")
    parser.add_argument("--size", default="2M", choices=list(models.SIZES))
    for name, default in (("count", 32), ("tokens", 128), ("rounds", 5)):
        parser.add_argument(f"--{name}", type=int, default=default)
    args = parser.parse_args()
    asked = Asked(models.saved(args.size))
    try:
        asyncio.run(compare(asked, args.count, args.tokens, args.rounds))
    finally:
        asked.close()


if __name__ == "__main__":
    main()
