"""Scenarios of a driver on the first machine, for Skate and Ray: calls and values between the second machine and the third.

    python -m benchmarks.cluster.scenarios SCENARIO --target skate|ray [--bytes N]

Each node has a resource of its machine's name. `join` waits for the fourth machine and prints when its first task has ended.
`broadcast` is for machines with slow cables.
"""

from __future__ import annotations

import argparse
import importlib
import json
import statistics
import time
from collections.abc import Callable
from typing import Any

from benchmarks.measure import batch_seconds, calls_per_second

IN_FLIGHT = 2_000
SYNC = 300
TRANSFER_BYTES = 1_000_000_000
TRANSFERS = 3
JOIN_S = 120.0
#: Bytes of the values of scenarios that are told a size.
sizes = {"broadcast": 1 << 30}

Figures = dict[str, float]


def on(machine: str) -> dict[str, Any]:
    return {"num_cpus": 0, "resources": {machine: 1}}


def tasks(ray: Any) -> Figures:
    """Tasks from the driver to one other node: one at a time in microseconds, and many in flight, a second."""

    @ray.remote
    def nothing() -> None:
        return None

    there = nothing.options(num_cpus=1, resources={"machine2": 1})
    sync = calls_per_second(lambda: ray.get(there.remote()))
    seconds = batch_seconds(lambda: ray.get([there.remote() for _ in range(IN_FLIGHT)]))
    return {"task_sync": 1e6 / sync, "tasks_in_flight": IN_FLIGHT / seconds}


def actors(ray: Any) -> Figures:
    """Calls from an actor on the second machine to one on the third."""

    @ray.remote
    class Callee:
        def nothing(self) -> None:
            return None

    @ray.remote
    class Caller:
        def sync(self, callee: Any, count: int) -> float:
            """Return the seconds of so many calls one after another."""
            begin = time.perf_counter()
            for _ in range(count):
                ray.get(callee.nothing.remote())
            return time.perf_counter() - begin

        def flight(self, callee: Any, count: int) -> float:
            begin = time.perf_counter()
            ray.get([callee.nothing.remote() for _ in range(count)])
            return time.perf_counter() - begin

    caller, callee = Caller.options(**on("machine2")).remote(), Callee.options(**on("machine3")).remote()

    def median(call: Any, count: int) -> float:
        ray.get(call.remote(callee, count))
        return statistics.median(ray.get(call.remote(callee, count)) for _ in range(5))

    sync, flight = median(caller.sync, SYNC), median(caller.flight, IN_FLIGHT)
    return {"actor_sync": sync / SYNC * 1e6, "actor_in_flight": IN_FLIGHT / flight}


def maker_and_taker(ray: Any) -> tuple[Any, Any]:
    """Return the classes of an actor that makes a value and of one that is given it."""

    @ray.remote
    class Maker:
        def value(self, size: int) -> Any:
            import numpy  # on the machine that makes it

            return numpy.ones(size, dtype=numpy.uint8)

    @ray.remote
    class Taker:
        def size(self, value: Any) -> int:
            return int(value.nbytes)

    return Maker, Taker


def transfer(ray: Any) -> Figures:
    """A value of the second machine as the argument of a call on the third."""

    Maker, Taker = maker_and_taker(ray)
    maker, taker = Maker.options(**on("machine2")).remote(), Taker.options(**on("machine3")).remote()
    rates = []
    for _ in range(1 + TRANSFERS):
        ref = maker.value.remote(TRANSFER_BYTES)
        ray.wait([ref], fetch_local=False)
        begin = time.perf_counter()
        assert ray.get(taker.size.remote(ref)) == TRANSFER_BYTES
        rates.append(TRANSFER_BYTES / (time.perf_counter() - begin) / 1e9)
        del ref
    return {"transfer": max(rates[1:])}


def join(ray: Any) -> Figures:
    """Wait for the fourth machine; return the time of day at which its first task has ended."""

    @ray.remote
    def nothing() -> None:
        return None

    print("waiting", flush=True)
    deadline = time.monotonic() + JOIN_S
    while not any("machine4" in node["Resources"] for node in ray.nodes() if node["Alive"]):
        if time.monotonic() > deadline:
            raise TimeoutError(f"the fourth machine did not join within {JOIN_S:.0f} s")
        time.sleep(0.005)  # the precision of the figure
    ray.get(nothing.options(**on("machine4")).remote())
    return {"joined_at": time.time()}


def broadcast(ray: Any) -> Figures:
    """A value of the second machine as the argument of calls on all later ones: the time, in those of one transfer."""

    Maker, Taker = maker_and_taker(ray)
    names = sorted(name for node in ray.nodes() for name in node["Resources"] if name.startswith("machine"))
    readers = [name for name in names if name not in ("machine1", "machine2")]
    maker = Maker.options(**on("machine2")).remote()
    takers = [Taker.options(**on(name)).remote() for name in readers]
    ray.get([taker.__ray_ready__.remote() for taker in (maker, *takers)])

    def seconds(some: list[Any]) -> float:
        ref = maker.value.remote(sizes["broadcast"])
        ray.wait([ref], fetch_local=False)
        begin = time.perf_counter()
        assert set(ray.get([taker.size.remote(ref) for taker in some])) == {sizes["broadcast"]}
        return time.perf_counter() - begin

    one = seconds(takers[:1])
    return {"one_transfer": one, "broadcast": seconds(takers) / one}


SCENARIOS: dict[str, Callable[[Any], Figures]] = {
    each.__name__: each for each in (tasks, actors, transfer, join, broadcast)
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("scenario", choices=SCENARIOS)
    parser.add_argument("--target", default="skate", choices=("skate", "ray"))
    parser.add_argument("--bytes", type=int, default=1 << 30, metavar="N", help="of the value of `broadcast`")
    args = parser.parse_args()
    sizes["broadcast"] = args.bytes
    ray = importlib.import_module(args.target)
    ray.init("auto", log_to_driver=False)
    try:
        figures = SCENARIOS[args.scenario](ray)
    finally:
        ray.shutdown()
    print(json.dumps({"figures": figures, "notes": {}}), flush=True)


if __name__ == "__main__":
    main()
