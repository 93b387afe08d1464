"""`python -m benchmarks.llm.embedded [--size 30M] [--busy 0] [--vllm PYTHON]`: the embedded engine and others, in turn."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from statistics import median
from typing import Any

from benchmarks.llm import models

#: Ten times the model of 30M.
models.SIZES.setdefault(
    "300M",
    {
        "vocab_size": 16000,
        "hidden_size": 1280,
        "intermediate_size": 3456,
        "num_hidden_layers": 16,
        "num_attention_heads": 20,
        "num_key_value_heads": 10,
    },
)


class Side:
    """A process of `benchmarks.llm.sides`."""

    def __init__(
        self, name: str, way: str, folder: str, threads: int, python: str, source: str | None
    ) -> None:
        self.name = name
        environment = dict(os.environ)
        if source is not None:
            environment["PYTHONPATH"] = os.path.join(source, "src")
        command = [python, "-m", "benchmarks.llm.sides", way, folder, str(threads)]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=environment,
        )
        assert self._process.stdout is not None and self._process.stdin is not None
        self._in, self._out = self._process.stdin, self._process.stdout

    def ready(self) -> None:
        """Wait for the model."""
        if not self._out.readline():
            raise RuntimeError(f"{self.name} did not load the model")

    def run(self, count: int, tokens: int) -> dict[str, float]:
        """Run requests and return the figures."""
        print(json.dumps([count, tokens]), file=self._in, flush=True)
        line = self._out.readline()
        if not line:
            raise RuntimeError(f"{self.name} ended")
        found: dict[str, float] = json.loads(line)
        return found

    def close(self) -> None:
        """End the process."""
        self._in.close()
        self._process.wait()
        self._out.close()


#: Starts processes that stay busy, says so, and ends them when its stdin ends.
_BUSY = """
import resource, subprocess, sys
made = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(int(sys.argv[1]))]
print(flush=True)
sys.stdin.read()
for each in made:
    each.kill()
    each.wait()
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print((used.ru_utime + used.ru_stime) / max(1, len(made)), flush=True)
"""


class Busy:
    """Other busy processes; `share` is the part of a CPU that one of them had."""

    share = 0.0


@contextlib.contextmanager
def busy(count: int, shared: bool) -> Iterator[Busy]:
    """Keep some other processes busy, in a session of their own or in that of the engine.

    Linux divides the CPUs among sessions first, and then among the threads of each, if
    /proc/sys/kernel/sched_autogroup_enabled is 1.
    """
    command = [sys.executable, "-c", _BUSY, str(count)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=not shared
    ) as starter:
        assert starter.stdin is not None and starter.stdout is not None
        starter.stdout.readline()
        found, started = Busy(), time.perf_counter()
        try:
            yield found
        finally:
            starter.stdin.close()
            found.share = float(starter.stdout.readline() or 0) / (time.perf_counter() - started)


def sides(args: argparse.Namespace, folder: str) -> list[Side]:
    """The ways to compare, the embedded engine first."""
    found = [Side("embedded", "embedded", folder, args.threads, sys.executable, None)]
    if args.before is not None:
        found.append(Side("embedded before", "embedded", folder, args.threads, sys.executable, args.before))
    if args.transformers:
        for threads in (1, 2):
            found.append(
                Side(f"transformers, {threads}", "transformers", folder, threads, sys.executable, None)
            )
    if args.vllm is not None:
        found.append(Side("vLLM", "vllm", folder, args.threads, args.vllm, None))
    return found


def compare(args: argparse.Namespace, all_sides: list[Side]) -> None:
    """Print the medians of some rounds, the sides of each in turn; beside busy processes, each without them first."""
    print(
        f"{args.size}, {args.tokens} tokens, {args.busy} busy processes, load {os.getloadavg()[0]:.1f}",
        flush=True,
    )
    print(
        "requests | way             | tokens/s wall | of first | of quiet | tokens/s CPU | of first | threads' CPUs used"
        " | CPUs of one busy process"
    )
    for count in args.counts:
        for each in all_sides:
            each.run(count, 8)
        rounds: list[list[dict[str, Any]]] = []
        quiet: list[list[dict[str, Any]]] = []
        shares: list[float] = []
        for _ in range(args.rounds):
            if args.busy:
                quiet.append([each.run(count, args.tokens) for each in all_sides])
            with busy(args.busy, args.shared_session) as others:
                rounds.append([each.run(count, args.tokens) for each in all_sides])
            shares.append(others.share)
        for at, side in enumerate(all_sides):
            mine = [each[at] for each in rounds]
            wall = median(each["tokens"] / each["seconds"] for each in mine)
            cpu = median(each["tokens"] / each["cpu"] for each in mine)
            used = median(each["cpu"] / each["seconds"] for each in mine)
            # Ratios are medians of the rounds' own, since the load changes between rounds.
            walls = median(each[0]["seconds"] / each[at]["seconds"] for each in rounds)
            cpus = median(each[0]["cpu"] / each[at]["cpu"] for each in rounds)
            kept = median(
                one[at]["seconds"] / two[at]["seconds"]
                for one, two in zip(quiet or rounds, rounds, strict=True)
            )
            row = f"{count:8} | {side.name:15} | {wall:13.0f} | {walls:8.2f} | {kept:8.2f} | {cpu:12.0f} | {cpus:8.2f}"
            print(f"{row} | {used:18.2f} | {median(shares):.2f}", flush=True)


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.llm.embedded")
    parser.add_argument("--size", default="30M", choices=list(models.SIZES))
    parser.add_argument("--counts", nargs="+", type=int, default=[1, 8, 32])
    parser.add_argument("--tokens", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=0, help="0 for the way's own choice")
    parser.add_argument("--busy", type=int, default=0, help="the number of other busy processes")
    parser.add_argument("--shared-session", action="store_true", help="start these in the engine's session")
    parser.add_argument("--transformers", action="store_true", help="compare with transformers' generate")
    parser.add_argument("--vllm", metavar="PYTHON", help="an interpreter that has vLLM")
    parser.add_argument("--before", metavar="FOLDER", help="another checkout of this repository")
    args = parser.parse_args()
    all_sides = sides(args, models.saved(args.size))
    try:
        for each in all_sides:
            each.ready()
        compare(args, all_sides)
    finally:
        for each in all_sides:
            each.close()


if __name__ == "__main__":
    main()
