"""`python -m benchmarks.llm [--sizes 2M 30M] [--tokens 128] [--rounds 3] [--threads 1] [--no-loops]`."""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import time
from statistics import median
from typing import Any

import torch

from benchmarks.llm import loops, models

COUNTS = (1, 8, 32)


async def post(port: int, body: dict[str, Any]) -> tuple[int, float]:
    """Ask over a connection of its own, reading bytes as they come; tokens and seconds to the first."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    text = json.dumps(body).encode()
    started = time.perf_counter()
    head = f"POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-length: {len(text)}\r\nconnection: close\r\n\r\n"
    writer.write(head.encode() + text)
    first, parts = 0.0, []
    while part := await reader.read(1 << 16):
        if not first and (b"data: " in part or b'"choices"' in part):
            first = time.perf_counter() - started
        parts.append(part)
    writer.close()
    found = b"".join(parts)
    at = found.rindex(b'"completion_tokens"')
    return int(found[at:].split(b":")[1].split(b",")[0].strip(b" }")), first


async def get(port: int, path: str) -> Any:
    """A JSON from the server."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n".encode())
    found = await reader.read()
    writer.close()
    return json.loads(found.split(b"\r\n\r\n", 1)[1])


async def through_http(
    port: int, count: int, tokens: int, stream: bool, model: str = "m"
) -> dict[str, float]:
    """All requests at once over HTTP."""
    more = {"stream": True, "stream_options": {"include_usage": True}} if stream else {}
    body = {"model": model, "max_tokens": tokens, "temperature": 0, "ignore_eos": True, **more}
    before = await get(port, "/cpu")
    started = time.perf_counter()
    found = await asyncio.gather(*(post(port, {**body, "prompt": each}) for each in loops.prompts(count)))
    seconds = time.perf_counter() - started
    cpu = await get(port, "/cpu") - before
    made = sum(each for each, _ in found)
    assert made == count * tokens, f"{made} tokens of {count * tokens}"
    return {"tokens": made, "seconds": seconds, "cpu": cpu, "ttft": median(first for _, first in found)}


async def compare(port: int, args: argparse.Namespace) -> None:
    """Bare engine and both kinds of answers over HTTP, in turn."""
    print("  requests | way           | tokens/s wall | of bare | tokens/s CPU | of bare | TTFT ms")
    for count in COUNTS:
        rounds: dict[str, list[dict[str, float]]] = {
            "engine bare": [],
            "HTTP, stream": [],
            "HTTP, 20 ms": [],
            "HTTP, 50 ms": [],
            "HTTP, whole": [],
        }
        await get(port, f"/bare?count={count}&tokens=16")
        await through_http(port, count, 16, True)
        for _ in range(args.rounds):
            rounds["engine bare"].append(await get(port, f"/bare?count={count}&tokens={args.tokens}"))
            rounds["HTTP, stream"].append(await through_http(port, count, args.tokens, True))
            rounds["HTTP, 20 ms"].append(await through_http(port, count, args.tokens, True, "m20"))
            rounds["HTTP, 50 ms"].append(await through_http(port, count, args.tokens, True, "m50"))
            rounds["HTTP, whole"].append(await through_http(port, count, args.tokens, False))
        base: tuple[float, float] | None = None
        for name, each in rounds.items():
            wall = max(one["tokens"] / one["seconds"] for one in each)
            cpu = max(one["tokens"] / one["cpu"] for one in each)
            base = base or (wall, cpu)
            ttft = min(one["ttft"] for one in each) * 1000
            walls = f"{wall:13.0f} | {wall / base[0]:7.2f}"
            print(
                f"  {count:8} | {name:13} | {walls} | {cpu:12.0f} | {cpu / base[1]:7.2f} | {ttft:7.1f}",
                flush=True,
            )


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.llm")
    parser.add_argument("--sizes", nargs="+", default=list(models.SIZES), choices=list(models.SIZES))
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--no-loops", action="store_true")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    for size in args.sizes:
        folder = models.saved(size)
        print(f"{size}, {args.tokens} tokens each, {args.threads} thread(s) of torch")
        if not args.no_loops:
            for (name, count), speed in loops.measure(folder, COUNTS, args.tokens).items():
                print(f"  {count:8} | {name:14} | {speed:8.0f} tokens/s CPU", flush=True)
        command = [sys.executable, "-m", "benchmarks.llm.server", folder, str(args.threads)]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            assert server.stdout is not None
            asyncio.run(compare(int(server.stdout.readline()), args))
        finally:
            server.terminate()
            server.wait()


if __name__ == "__main__":
    main()
