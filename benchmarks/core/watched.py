"""A session that is looked at: what a scrape takes beside many queued tasks, and what the viewer costs a busy program.

The viewer is a process of its own. A reader scrapes it, and lists tasks, once a second. To compare without noise of the machine,
one run has short windows in turn: in every second one, viewer and reader are stopped.
"""

from __future__ import annotations

import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from typing import Any

from benchmarks.session import Figures, main, started

QUEUED = 100_000
SCRAPES = 10
IN_FLIGHT = 3_000
WINDOWS = 10
WINDOW_SECONDS = 1.0
NO_COUNTERPART = "Ray's metrics come from an agent beside each node, which its dashboard needs to run"

#: Reads the pages at a URL with a token, once a second.
READER = """
import sys, time, urllib.request
url, token = sys.argv[1:]
while True:
    for path in ("/metrics", "/api/v0/tasks?limit=100"):
        request = urllib.request.Request(url + path, headers={"Authorization": f"Bearer {token}"})
        with urllib.request.urlopen(request) as answer:
            answer.read()
    time.sleep(1)
"""


def _get(facts: dict[str, Any], path: str) -> bytes:
    request = urllib.request.Request(
        facts["url"] + path, headers={"Authorization": f"Bearer {facts['token']}"}
    )
    with urllib.request.urlopen(request) as answer:
        page: bytes = answer.read()
    return page


def _viewer() -> dict[str, Any]:
    """Start the viewer of the session; return its facts."""
    from skate.client.session import dashboard_process

    facts = dashboard_process.start(dashboard_process.DashboardPlace("127.0.0.1", 0))
    assert facts is not None
    return facts


def scrape(target: str, full: bool) -> Figures | tuple[Figures, dict[str, str]]:
    """`/metrics` with 100,000 queued tasks: wall seconds, CPU seconds of the node, kilobytes; and a list of 10,000 of them."""
    names = ("scrape_wall", "scrape_cpu", "scrape_size", "list_wall", "list_cpu")
    if target == "ray":
        return dict.fromkeys(names), dict.fromkeys(names, NO_COUNTERPART)
    with started(target) as ray, tempfile.TemporaryDirectory() as folder:
        gate = os.path.join(folder, "gate")

        @ray.remote(num_cpus=2)
        def hold() -> None:
            while not os.path.exists(gate):
                time.sleep(0.02)

        @ray.remote
        def nothing() -> None:
            return None

        first = hold.remote()
        refs = [nothing.remote() for _ in range(QUEUED)]
        facts = _viewer()
        found: dict[str, list[tuple[float, float, int]]] = {}
        for path in ("/metrics", "/api/v0/tasks?limit=10000"):
            size = len(_get(facts, path))
            for _ in range(SCRAPES):
                wall, cpu = time.perf_counter(), time.process_time()
                size = len(_get(facts, path))
                costs = time.perf_counter() - wall, time.process_time() - cpu, size
                found.setdefault(path, []).append(costs)
        with open(gate, "w"):
            pass
        ray.get([first, refs[-1]])
    scrapes, lists = (
        [statistics.median(column) for column in zip(*costs, strict=True)] for costs in found.values()
    )
    return dict(zip(names, (*scrapes[:2], scrapes[2] / 1e3, *lists[:2]), strict=True))


def tasks(target: str, full: bool) -> Figures | tuple[Figures, dict[str, str]]:
    """Tasks in flight with the viewer stopped, over those with it: the rate, and the CPU seconds of the program."""
    if target == "ray":
        names = ("watched_rate", "watched_cpu")
        return dict.fromkeys(names), dict.fromkeys(names, NO_COUNTERPART)
    with started(target) as ray:

        @ray.remote
        def nothing() -> None:
            return None

        facts = _viewer()
        reader = subprocess.Popen([sys.executable, "-c", READER, facts["url"], facts["token"]])
        watchers = (reader.pid, facts["pid"])

        def window() -> tuple[float, float]:
            """Return tasks a second, and CPU seconds a task."""
            count, begin, cpu = 0, time.perf_counter(), time.process_time()
            while time.perf_counter() - begin < WINDOW_SECONDS:
                ray.get([nothing.remote() for _ in range(IN_FLIGHT)])
                count += IN_FLIGHT
            return count / (time.perf_counter() - begin), (time.process_time() - cpu) / count

        ratios = []
        try:
            window()
            for _ in range(WINDOWS):
                with_rate, with_cpu = window()
                for pid in watchers:
                    os.kill(pid, signal.SIGSTOP)
                without_rate, without_cpu = window()
                for pid in reversed(watchers):
                    os.kill(pid, signal.SIGCONT)
                ratios.append((without_rate / with_rate, with_cpu / without_cpu))
        finally:
            reader.kill()
            reader.wait()
    rate, cpu = (statistics.median(column) for column in zip(*ratios, strict=True))
    return {"watched_rate": rate, "watched_cpu": cpu}


if __name__ == "__main__":
    main(scrape, tasks)
