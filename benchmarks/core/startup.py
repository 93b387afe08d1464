"""From nothing to a first result, the import alone, and the way down again."""

from __future__ import annotations

import importlib
import statistics
import subprocess
import sys
import time

from benchmarks.measure import batch_seconds
from benchmarks.session import INIT, Figures, main

FIRST_RESULT = """
import {target} as ray
ray.init(**{init!r})
@ray.remote
def one():
    return 1
print(ray.get(one.remote()), flush=True)
"""

IMPORT = """
import time
begin = time.perf_counter()
import {target}
print(time.perf_counter() - begin)
"""


def first_result(target: str, full: bool) -> Figures:
    """A whole program of one task: until its result is out, and until its process is gone."""
    program = FIRST_RESULT.format(target=target, init=INIT)
    until_result: list[float] = []

    def whole_process() -> None:
        begin = time.perf_counter()
        with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            line = process.stdout.readline()
            until_result.append(time.perf_counter() - begin)
        if line != "1\n" or process.returncode:
            raise RuntimeError(f"the first program printed {line!r} and ended with {process.returncode}")

    whole = batch_seconds(whole_process, least=2, most=10)
    return {"first_result": statistics.median(until_result[1:]), "whole_process": whole}


def import_alone(target: str, full: bool) -> Figures:
    """`import` in a fresh interpreter, timed inside it; the first run, which may compile, is not counted."""
    command = [sys.executable, "-c", IMPORT.format(target=target)]
    times = [float(subprocess.run(command, check=True, capture_output=True).stdout) for _ in range(6)]
    return {"import": statistics.median(times[1:])}


def shutdown(target: str, full: bool) -> Figures:
    """`shutdown()` after a task and an actor have run."""
    ray = importlib.import_module(target)

    def start() -> None:
        ray.init(**INIT)

        @ray.remote
        class Actor:
            def one(self) -> int:
                return 1

        @ray.remote
        def one() -> int:
            return 1

        actor = Actor.remote()
        ray.get([one.remote(), actor.one.remote()])

    times: list[float] = []
    spent_s = time.perf_counter()
    while len(times) < 2 or (len(times) < 10 and time.perf_counter() - spent_s < 4):
        start()
        begin = time.perf_counter()
        ray.shutdown()
        times.append(time.perf_counter() - begin)
    return {"shutdown": statistics.median(times)}


if __name__ == "__main__":
    main(first_result, import_alone, shutdown)
