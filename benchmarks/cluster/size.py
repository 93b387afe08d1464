"""A cluster of hollow nodes: how long they take to join, and what they cost the head.

    python -m benchmarks.cluster.size [--nodes 1000] [--processes 10] [--idle 20] [--json OUT.json]

The head is real. The others are real members without a core (`tests/fabric/dask/hollow_nodes.py`), many in each process.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import skate as ray
from skate.util.scheduling_strategies import NodeAffinitySchedulingStrategy
from tests.fabric.dask.hollow_cluster import HollowCluster

TASKS = 100
KNOWN_SECONDS = 120.0
#: Between two looks at the cluster: the answers take CPU time of the head and of the members.
LOOK_SECONDS = 0.25


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Measure the head of a large cluster.")
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--processes", type=int, default=10)
    parser.add_argument("--idle", type=float, default=20.0, metavar="SECONDS")
    parser.add_argument("--json", type=Path, metavar="OUT.json")
    options = parser.parse_args()
    figures: dict[str, float] = {}

    def found(name: str, value: float) -> None:
        figures[name] = round(value, 4)
        print(f"{name:<44} {value:>12,.3f}", flush=True)

    cluster = HollowCluster()
    try:
        join(cluster, options.processes, options.nodes // options.processes, found)
        idle(cluster, options.idle, found)
        with ray.init(cluster.driver_address, log_to_driver=False):
            tasks(found)
            idle(cluster, options.idle / 2, lambda name, value: found(f"with a driver: {name}", value))
            loss(cluster, found)
    finally:
        cluster.close()
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1) + "\n")


Found = Callable[[str, float], None]


def join(cluster: HollowCluster, processes: int, count: int, found: Found) -> None:
    """Measure how all nodes join, from the start of their processes to the last admission."""
    memory, cpu, began = cluster.memory(), cluster.cpu_seconds(), time.monotonic()
    first = cluster.add(processes, count)
    members = sum(each["members"] for each in first)
    found("nodes", members)
    found("all joined, s", time.monotonic() - began)
    found("CPU of the head while they join, s", cluster.cpu_seconds() - cpu)
    found("CPU of the members while they join, s", sum(each["cpu_s"] for each in first))
    complete = time.monotonic() + KNOWN_SECONDS
    while True:  # the news of the last ones is on its way to the first
        known = [number for process in cluster.processes for number in process.figures()["known"]]
        if min(known) >= members or time.monotonic() > complete:
            break
        time.sleep(LOOK_SECONDS)
    found("all know all, s", time.monotonic() - began)
    assert min(known) >= members, f"one knows {min(known)} others"
    found("memory of the head, KiB a member", (cluster.memory() - memory) / members / 1024)


def idle(cluster: HollowCluster, seconds: float, found: Found) -> None:
    """Measure what an idle cluster costs."""
    time.sleep(2.0)  # the end of what the last step has begun
    before, cpu, began = (
        [each.figures() for each in cluster.processes],
        cluster.cpu_seconds(),
        time.monotonic(),
    )
    time.sleep(seconds)
    after, cpu = [each.figures() for each in cluster.processes], cluster.cpu_seconds() - cpu
    passed = time.monotonic() - began
    members = sum(each["members"] for each in after)
    found("CPU of the idle head, %", 100 * cpu / passed)
    found("CPU of the idle head, us a member and second", 1e6 * cpu / passed / members)

    def rate(name: str) -> float:
        used = [float(new[name]) - float(old[name]) for old, new in zip(before, after, strict=True)]
        return sum(used) / passed / members

    found("CPU of a member, us a second", 1e6 * rate("cpu_s"))
    for name in ("bytes_out", "bytes_in", "segments_out", "segments_in"):
        found(f"{name.replace('_', ' ')} of a member a second", rate(name))
    lost = [reason for each in after for reason in each["lost"]]
    assert not lost, f"{len(lost)} members have left: {lost[0]}"


def nothing() -> None:
    """No-op: members answer with their own ids."""


def tasks(found: Found) -> None:
    """Measure tasks that run on random members, one after another."""
    ids = [node["NodeID"] for node in ray.nodes() if node["Resources"].get("CPU")]

    place: Any = ray.remote(nothing)

    def one(node_id: str) -> float:
        wish: Any = NodeAffinitySchedulingStrategy(node_id, soft=False)
        task = place.options(scheduling_strategy=wish)
        began = time.perf_counter()
        assert ray.get(task.remote()) == node_id
        return time.perf_counter() - began

    chosen = random.choices(ids, k=TASKS)
    for label in ("first task to a member", "task to a known member"):
        found(f"{label}, us", statistics.median(map(one, chosen)) * 1e6)
    began = time.perf_counter()
    ray.get([place.remote() for _ in range(10 * TASKS)])
    found("tasks over all members, us each", (time.perf_counter() - began) / (10 * TASKS) * 1e6)


def loss(cluster: HollowCluster, found: Found) -> None:
    """Measure until the members of one killed process are known to be dead."""
    victim = cluster.processes.pop()
    cpu, began = cluster.cpu_seconds(), time.monotonic()
    victim.kill()
    left = sum(process.count for process in cluster.processes)
    while sum(node["Alive"] for node in ray.nodes()) > left + 1:
        assert time.monotonic() - began < KNOWN_SECONDS, "the head still counts dead members"
        time.sleep(LOOK_SECONDS)
    found(f"{victim.count} killed members known dead, s", time.monotonic() - began)
    while True:
        figures = [each.figures() for each in cluster.processes]
        lost = [reason for each in figures for reason in each["lost"]]
        assert not lost, f"{len(lost)} other members have left as well: {lost[0]}"
        if all(known <= left for each in figures for known in each["known"]):
            break
        assert time.monotonic() - began < KNOWN_SECONDS, "a member still counts dead ones"
        time.sleep(LOOK_SECONDS)
    found("and known to all members, s", time.monotonic() - began)
    found("CPU of the head for that, s", cluster.cpu_seconds() - cpu)


if __name__ == "__main__":
    main()
