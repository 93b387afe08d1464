"""Skate, Ray, Dask and plain sockets on the same machines, in network namespaces, in turn; medians of all rounds.

    python -m benchmarks.cluster [--only NAME] [--target skate|ray|dask|bare] [--rounds 3] [--ray PYTHON] [--json OUT.json]

Needs root and iproute2. A target that does not start, or whose scenario fails, leaves its figures empty and is named under
the table.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.cluster import clusters
from benchmarks.run import ROOT, Record
from tests.cluster.namespaces import Network, why_not

TARGETS = ("bare", "dask", "skate", "ray")
SCENARIOS = ("tasks", "actors", "transfer", "join")
#: A value that so many machines read at once, on a network of its own; only Skate and Ray can.
BROADCAST = "broadcast"
READERS = 8


@dataclass(frozen=True)
class Row:
    """One figure: its name and unit, which target's figure is the limit, and what Skate is to reach."""

    key: str
    title: str
    more_is_better: bool
    limit: str
    reach: str


ROWS = [
    Row("round_trip", "a frame there and back, us", False, "round_trip", "<= 1.5 x bare"),
    Row("round_trip_tls", "the same over TLS, us", False, "round_trip_tls", "<= 1.7 x bare TCP"),
    Row("task_sync", "task one after another, us", False, "round_trip", ">= 8 x Ray"),
    Row("tasks_in_flight", "tasks in flight, /s", True, "", ">= 30,000"),
    Row("actor_sync", "actor call node to node, us", False, "round_trip", "<= 200, >= 20 x Ray"),
    Row("actor_in_flight", "the same in flight, /s", True, "", ">= 50,000, >= 20 x Ray"),
    Row("transfer", "1 GB node to node, GB/s", True, "transfer_tls", ">= 0.85 x bare TLS"),
    Row("transfer_tls", "the same, bare TLS, GB/s", True, "", ""),
    Row("one_transfer", "a value over a slow cable, s", False, "", ""),
    Row("broadcast", "the same to 8 nodes at once, times", False, "", "<= 2.5"),
    Row("join", "a node joins, s to its first task", False, "", "<= 1.2"),
]


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure calls and values between machines.")
    parser.add_argument(
        "--only",
        default="",
        metavar="NAME",
        help=f"scenarios whose name holds NAME: {(*SCENARIOS, BROADCAST)}",
    )
    parser.add_argument("--target", choices=TARGETS, action="append", help="only this side; may be repeated")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rate", default="1gbit", help="of the cables of `broadcast`; default: 1gbit")
    parser.add_argument("--mib", type=int, default=1024, help="size of its value; default: 1024")
    parser.add_argument("--ray", metavar="PYTHON", default=str(ROOT / ".venv-ray" / "bin" / "python"))
    parser.add_argument("--json", type=Path, metavar="OUT.json")
    return parser.parse_args()


def measure(args: argparse.Namespace) -> Record:
    """All rounds: the targets one after another, each on machines of its own."""
    record = Record()
    pythons = dict.fromkeys(TARGETS, sys.executable) | {"ray": args.ray}
    targets = args.target or [name for name in TARGETS if Path(pythons[name]).exists()]
    names = [name for name in SCENARIOS if args.only in name]
    for number in range(args.rounds):
        print(f"round {number + 1} of {args.rounds}", file=sys.stderr)
        for target in targets:
            if names or BROADCAST not in args.only:
                with Network(clusters.LATE) as network:
                    one_target(record, network, target, pythons[target], names)
            if target in ("skate", "ray") and args.only in BROADCAST:
                with Network(READERS + 2) as network:
                    broadcast(record, network, target, pythons[target], args)
    return record


def attempt(record: Record, target: str, what: str, work: Callable[[], dict[str, Any] | None]) -> bool:
    """Measure something of a target; what fails goes to the record."""
    begin = time.monotonic()
    try:
        found = work()
        if found is not None:
            record.add(target, found)
        problem = ""
    # Whatever fails on one side must not end the others.
    except (
        Exception
    ) as error:  # any failure of one side is a line of the table; the others are still measured
        problem = " ".join(str(error).split())[-400:] or type(error).__name__
        record.failures.append(f"{target} {what}: {problem}")
    print(
        f"{target} {what:<20} {time.monotonic() - begin:6.1f} s  {problem[:60]}",
        file=sys.stderr,
        flush=True,
    )
    return not problem


def broadcast(record: Record, network: Network, target: str, python: str, args: argparse.Namespace) -> None:
    """Measure how long a value takes to many machines with slow cables, in times of one transfer."""
    bench = clusters.Bench(network, target, python)
    if attempt(record, target, "start", lambda: bench.up(READERS + 2)):
        bench.slow(args.rate)
        size = str(args.mib << 20)
        attempt(record, target, BROADCAST, lambda: bench.scenario(BROADCAST, "--bytes", size))


def one_target(record: Record, network: Network, target: str, python: str, names: list[str]) -> None:
    """Measure one target."""
    if target == "bare":
        attempt(record, target, "sockets", lambda: clusters.plain_sockets(network, python))
        return
    if target == "dask":
        attempt(record, target, "frames", lambda: clusters.dask_frames(network, python))
    bench = clusters.Bench(network, target, python)
    if attempt(record, target, "start", bench.up):
        for name in names:
            attempt(record, target, name, lambda name=name: bench.scenario(name))  # type: ignore[misc]


def lines(record: Record) -> Iterator[str]:
    """Yield the table."""
    found = {target: record.medians(target) for target in TARGETS}
    yield f"{'figure':<36}" + "".join(f"{name:>10}" for name in TARGETS) + f"{'x Ray':>8}{'x bare':>8}  reach"
    for row in ROWS:
        values = {target: found[target].get(row.key) for target in TARGETS}
        if not any(values.values()):
            continue
        cells = "".join(f"{shown(values[target]):>10}" for target in TARGETS)
        skate, ray, bare = values["skate"], values["ray"], found["bare"].get(row.limit)
        times = (skate / ray if row.more_is_better else ray / skate) if skate and ray else None
        share = skate / bare if skate and bare else None
        yield f"{row.title:<36}{cells}{shown(times):>8}{shown(share):>8}  {row.reach}"


def shown(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 100 else f"{value:.2f}"


def main() -> None:
    args = parse()
    if reason := why_not():
        sys.exit(f"no machines in network namespaces: {reason}")
    record = measure(args)
    for line in lines(record):
        print(line)
    for failure in record.failures:
        print(f"failed: {failure}")
    if args.json:
        spread = {
            target: {key: [min(each), statistics.median(each), max(each)] for key, each in figures.items()}
            for target, figures in record.values.items()
        }
        args.json.write_text(json.dumps({"figures": spread, "failures": record.failures}, indent=1) + "\n")


if __name__ == "__main__":
    main()
