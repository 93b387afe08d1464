"""A driver for a machine that runs one line of Python after another, and says which machines live.

`python -m tests.cluster.driver` attaches to the node of its machine, or joins the cluster at an address. For each line on stdin
it prints "done N VALUE" or "failed N TYPE: MESSAGE", where N counts the lines, and "SECONDS alive NAMES" whenever the living
machines change.
"""

from __future__ import annotations

import os
import socket
import sys
import threading
import time
from typing import Any

import skate as ray

POLL_S = 0.01


def on(machine: str) -> dict[str, Any]:
    """Return the options that place a task or an actor on a machine: each has a resource of its own name."""
    return {"num_cpus": 0, "resources": {machine: 1}}


@ray.remote(num_cpus=0)
def where() -> str:
    return socket.gethostname()


@ray.remote(num_cpus=0, max_retries=3)
def work(seconds: float) -> str:
    """Take some time; return the machine that ended the task."""
    time.sleep(seconds)
    return socket.gethostname()


@ray.remote(num_cpus=0)
def make(size: int) -> Any:
    """Return a large value with known content."""
    import numpy  # only where values are made

    return numpy.arange(size // 8)


@ray.remote(num_cpus=0)
def total(value: Any) -> int:
    return int(value.sum())


@ray.remote(num_cpus=0)
def ask(actor: Any) -> tuple[str, int]:
    """Return the machine of this task, and an actor's answer to it."""
    return socket.gethostname(), ray.get(actor.add.remote(1))


@ray.remote(num_cpus=0)
class Counter:
    """Counts, and knows where."""

    def __init__(self) -> None:
        self.count = 0

    def add(self, number: int) -> int:
        self.count += number
        return self.count

    def where(self) -> tuple[str, int]:
        return socket.gethostname(), os.getpid()

    def swallow(self, value: Any) -> int:
        return len(value)

    def fetch(self, refs: list[Any]) -> int:
        return int(ray.get(refs[0]).sum())


def report(ended: threading.Event) -> None:
    """Print the names of the living machines at each change, until the program ends."""
    names: dict[str, str] = {}
    before = None
    # A poll, so that the time of a change is known.
    while not ended.wait(POLL_S):
        try:
            nodes = ray.nodes()
        # The test shows whatever ends the reports.
        except Exception as error:  # the test reads which one it was
            print(f"{time.time():.3f} blind {type(error).__name__}", flush=True)
            return
        for node in nodes:
            names.update((node["NodeID"], name) for name in node["Resources"] if name.startswith("machine"))
        alive = sorted(names.get(node["NodeID"], "?") for node in nodes if node["Alive"])
        if alive != before:
            print(f"{time.time():.3f} alive {' '.join(alive)}.", flush=True)
            before = alive


def main() -> None:
    ray.init(sys.argv[1] if sys.argv[1:] else "auto", log_to_driver=False)
    ended = threading.Event()
    reporter = threading.Thread(target=report, args=(ended,), daemon=True)
    reporter.start()
    names: dict[str, Any] = dict(globals())
    print("attached", flush=True)
    try:
        run(names)
    finally:
        ended.set()
        reporter.join(5.0)  # a thread that prints while the interpreter ends would abort it


def run(names: dict[str, Any]) -> None:
    """Run the lines of stdin."""
    for number, line in enumerate(sys.stdin):
        try:
            try:
                value = eval(line, names)
            except SyntaxError:
                value = exec(line, names)
        # The error is what the test asks for.
        except Exception as error:  # the test reads which one it was
            print(f"failed {number} {type(error).__name__}: {' '.join(str(error).split())}", flush=True)
        else:
            print(f"done {number} {value!r}", flush=True)


if __name__ == "__main__":
    main()
