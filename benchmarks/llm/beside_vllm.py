"""Bare `vllm serve`, Skate and Ray's Serve LLM in turn on one model, over HTTP, on CPUs.

`python -m benchmarks.llm.beside_vllm [--peers vllm skate ray] [--counts 1 8 32 128] [--tokens 100] [--rounds 2] [--ray PYTHON]`
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.llm import loops, models
from benchmarks.llm.vllm_servers import NAME, command

_READY_S = 300.0
_END_S = 30.0


@dataclass
class Stream:
    """The answer of one request as its client saw it."""

    tokens: int = 0
    first_s: float = 0.0
    last_s: float = 0.0
    #: The longest wait between two events.
    gap_s: float = 0.0


@dataclass
class Round:
    """The figures of a number of streams at once."""

    speed: float
    first_ms: float
    between_ms: float
    gap_ms: float
    #: Milliseconds of CPU for 1,000 tokens, by kind of process.
    cpu: dict[str, float] = field(default_factory=dict)


async def ask(port: int, prompt: list[int], tokens: int) -> Stream:
    """Send a request over a connection of its own, and read its events as they come."""
    options = {"stream": True, "stream_options": {"include_usage": True}, "ignore_eos": True}
    body = {"model": NAME, "prompt": prompt, "max_tokens": tokens, "temperature": 0, **options}
    text = json.dumps(body).encode()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = (
        "POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\nconnection: close\r\n"
    )
    began = time.perf_counter()
    writer.write(f"{head}content-length: {len(text)}\r\n\r\n".encode() + text)
    found, parts, before = Stream(), [], 0.0
    while part := await reader.read(1 << 16):
        parts.append(part)
        if b'"text":' not in part:
            continue
        now = time.perf_counter()
        if not found.first_s:
            found.first_s = now - began
        else:
            found.gap_s = max(found.gap_s, now - before)
        before, found.last_s = now, now - began
    writer.close()
    whole = b"".join(parts)
    assert b" 200 " in whole[:20], whole[:500]
    at = whole.rindex(b'"completion_tokens"')
    found.tokens = int(whole[at:].split(b":")[1].split(b",")[0].strip(b" }"))
    return found


class Server:
    """A server in a process group of its own."""

    def __init__(self, kind: str, python: str, folder: str) -> None:
        with socket.socket() as sock:
            sock.bind(("127.0.0.1", 0))
            self.port = int(sock.getsockname()[1])
        self.mark = f"BENCHMARK_LLM={kind}-{self.port}"
        name, _, value = self.mark.partition("=")
        environment = {
            "HF_HUB_OFFLINE": "1",
            "VLLM_CPU_KVCACHE_SPACE": "1",
            "VLLM_LOGGING_LEVEL": "WARNING",
            "VLLM_NO_USAGE_STATS": "1",
            **os.environ,
            name: value,
        }
        self.log = open(f"/tmp/benchmark-llm-{kind}.log", "w")  # noqa: SIM115
        self.began = time.perf_counter()
        self.process = subprocess.Popen(
            command(kind, python, folder, self.port),
            env=environment,
            stdout=self.log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    async def ready(self) -> float:
        """Seconds until it answers."""
        while time.perf_counter() - self.began < _READY_S:
            if self.process.poll() is not None:
                raise RuntimeError(f"the server ended with {self.process.returncode}; see {self.log.name}")
            try:
                await ask(self.port, loops.prompts(1)[0], 1)
                return time.perf_counter() - self.began
            except (OSError, AssertionError, ValueError):
                await asyncio.sleep(0.1)
        raise TimeoutError(f"the server did not answer within {_READY_S:g} s; see {self.log.name}")

    def processes(self) -> dict[int, str]:
        """All its processes and their kinds."""
        found = {}
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                if self.mark.encode() in (folder / "environ").read_bytes().split(b"\0"):
                    found[int(folder.name)] = _kind((folder / "cmdline").read_bytes())
            except OSError:
                continue
        return found

    def cpu(self) -> dict[str, float]:
        """Milliseconds of CPU by kind of process, so far."""
        total: dict[str, float] = {}
        for pid, kind in self.processes().items():
            try:
                stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            total[kind] = total.get(kind, 0) + (int(stat[11]) + int(stat[12])) * 1000 / os.sysconf(
                "SC_CLK_TCK"
            )
        return total

    def memory(self) -> float:
        """MiB of all processes but the engine's own; shared pages count in shares."""
        total = 0
        for pid, kind in self.processes().items():
            if kind != "engine":
                try:
                    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
                except OSError:
                    continue
                total += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
        return total / 1024

    def close(self) -> None:
        """End it, and all that it has started."""
        self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(_END_S)
        except subprocess.TimeoutExpired:
            pass
        until = time.monotonic() + _END_S
        while (left := self.processes()) and time.monotonic() < until:
            for pid in left:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
            time.sleep(0.1)
        self.process.wait(_END_S)
        self.log.close()


def _kind(line: bytes) -> str:
    return (
        "engine" if line.startswith(b"VLLM::") or b"EngineCore" in line or b"VllmWorker" in line else "server"
    )


async def measure(server: Server, count: int, tokens: int) -> Round:
    """All requests at once."""
    before, began = server.cpu(), time.perf_counter()
    found = await asyncio.gather(*(ask(server.port, each, tokens) for each in loops.prompts(count)))
    seconds, after = time.perf_counter() - began, server.cpu()
    made = sum(each.tokens for each in found)
    assert made == count * tokens, f"{made} tokens of {count * tokens}"
    return Round(
        made / seconds,
        median(each.first_s for each in found) * 1000,
        median((each.last_s - each.first_s) / (tokens - 1) for each in found) * 1000,
        median(each.gap_s for each in found) * 1000,
        {kind: (value - before.get(kind, 0)) * 1000 / made for kind, value in after.items()},
    )


async def visit(kind: str, python: str, folder: str, args: argparse.Namespace) -> dict[str, Any]:
    """Start a server, measure it at each number of streams, and end it."""
    server = Server(kind, python, folder)
    try:
        ready = await server.ready()
        memory = server.memory()
        await measure(server, 4, 8)
        rounds = {count: [] for count in args.counts}
        for _ in range(args.repeats):
            for count in args.counts:
                rounds[count].append(await measure(server, count, args.tokens))
        return {"ready": ready, "memory": memory, "rounds": rounds}
    finally:
        server.close()


def report(found: dict[str, list[dict[str, Any]]], counts: list[int]) -> None:
    """Print the best speed of each peer so far, its share of the first peer's, and the medians of the rest."""
    for kind, visits in found.items():
        ready, memory = (min(each[name] for each in visits) for name in ("ready", "memory"))
        print(f"{kind:6} ready after {ready:.1f} s, {memory:.0f} MiB beside the engine")
    print(
        "streams | peer   | tokens/s | share | median share | first ms | between ms | longest ms | CPU ms/1k tokens"
    )
    base = next(iter(found))
    for count in counts:
        rounds = {
            kind: [one for each in visits for one in each["rounds"][count]] for kind, visits in found.items()
        }
        best = {kind: max(one.speed for one in each) for kind, each in rounds.items()}
        middle = {kind: median(one.speed for one in each) for kind, each in rounds.items()}
        for kind, each in rounds.items():
            first, between, gap = (
                median(getattr(one, name) for one in each) for name in ("first_ms", "between_ms", "gap_ms")
            )
            cpu = ", ".join(
                f"{name} {median(one.cpu.get(name, 0) for one in each):.0f}" for name in sorted(each[0].cpu)
            )
            print(
                f"{count:7} | {kind:6} | {best[kind]:8.0f} | {best[kind] / best[base]:5.2f} | "
                f"{middle[kind] / middle[base]:12.2f} | {first:8.0f} | {between:10.2f} | {gap:10.1f} | {cpu}",
                flush=True,
            )


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.llm.beside_vllm")
    parser.add_argument("--peers", nargs="+", default=["vllm", "skate"], choices=["vllm", "skate", "ray"])
    parser.add_argument("--counts", nargs="+", type=int, default=[1, 8, 32, 128])
    parser.add_argument("--size", default="30M", choices=list(models.SIZES))
    parser.add_argument("--ray", default=sys.executable, help="the interpreter with ray[llm]")
    for name, default in (("tokens", 100), ("rounds", 2), ("repeats", 2)):
        parser.add_argument(f"--{name}", type=int, default=default)
    args = parser.parse_args()
    folder = models.saved(args.size)
    found: dict[str, list[dict[str, Any]]] = {kind: [] for kind in args.peers}
    for _ in range(args.rounds):
        for kind in args.peers:
            python = args.ray if kind == "ray" else sys.executable
            found[kind].append(asyncio.run(visit(kind, python, folder, args)))
            print(f"{kind} measured, load of the machine {os.getloadavg()[0]:.1f}", flush=True)
        report(found, args.counts)


if __name__ == "__main__":
    main()
