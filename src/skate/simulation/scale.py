"""What the core costs in CPU as a cluster grows: `python -m skate.simulation.scale`.

The real core of a head, with as many peers as are asked for. Only the peers are made up: they take what is forwarded to them
and answer at once, as nodes do, with a result, that nothing more is coming, and with reports of what they have free. No
sockets, no processes and no user code, so these are the figures of decisions alone. Each is the time of the core's
steps, not of what makes up their messages.
"""

from __future__ import annotations

import argparse
import gc
import json
import time
import tracemalloc
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from skate.core import messages as m
from skate.core.node import NodeCore
from skate.simulation.chart import draw
from skate.simulation.process import JOB

CPU = 10_000
NODES = (10, 100, 1_000, 10_000)
TASKS = 1_000_000
SECONDS = 1.0  # of measuring, for each figure; it stops there
CPUS = 4  # of each node
BATCH = 200
MICROS = 1_000_000  # a task says that it ran so long: none is sent behind another

Step = tuple[int, tuple[Any, ...]]


class Head:
    """The core of a head among made-up peers."""

    def __init__(self, nodes: int, cpus: int = 0) -> None:
        self.core = NodeCore({"CPU": cpus * CPU} if cpus else {}, node_id=b"headhead" + bytes(20))
        self.now = 1.0
        self.count = 0
        self.driver = 1
        self.core.connect(self.driver, "job", "", True)
        self.template(b"plain", None)
        self.template(b"spread", ("spread",))
        self.join_seconds = 0.0
        for number in range(nodes):
            self.join_seconds = self.join(number)
        self.cids = list(self.core.peers.alive)
        self.received = dict.fromkeys(self.cids, 0)
        #: What is forwarded and not answered: (peer, task); and what is with workers here.
        self.running: list[tuple[int, bytes]] = []
        self.here: list[tuple[int, bytes]] = []

    def join(self, number: int) -> float:
        """One more node; returns seconds."""
        info = {"node_id": number.to_bytes(8, "big") + bytes(20), "total": {"CPU": CPUS * CPU}, "labels": {}}
        seconds = timed(lambda: self.core.peers.join(self.core.next_cid, info, self.now))
        self.core.effects.clear()
        return seconds

    def template(self, key: bytes, strategy: Any) -> bytes:
        """A function that asks for a CPU."""
        fields = {"name": "f", "function": b"", "request": {"CPU": CPU}, "strategy": strategy}
        self.core.step(self.driver, (m.TEMPLATE, key, fields), self.now)
        return key

    def submits(self, keys: list[bytes]) -> list[Step]:
        """Messages of a driver that submit one task for each key."""
        self.count += len(keys)
        ids = range(self.count - len(keys), self.count)
        tail = b"headhead" + self.driver.to_bytes(4, "little") + JOB
        return [
            (self.driver, (m.SUBMIT, number.to_bytes(8, "little") + tail, key, b"", (), (), b""))
            for number, key in zip(ids, keys, strict=True)
        ]

    def answers(self) -> list[Step]:
        """What the peers say of all that runs there."""
        found: list[Step] = []
        for cid, task_id in self.running:
            found.append((cid, (m.RESULT, task_id + b"\1\0\0\0", m.INLINE, b"v", (), 0)))
            found.append((cid, (m.FINISHED, task_id, MICROS, None)))
        self.running = []
        return found

    def reports(self, cids: Iterable[int], cpus: int = CPUS) -> list[Step]:
        """What peers say that they have free."""
        return [(cid, (m.REPORT, {"CPU": cpus * CPU}, {}, self.received[cid])) for cid in cids]

    def run(self, steps: list[Step]) -> float:
        """Have the core take these; returns seconds."""
        core, now = self.core, self.now

        def all_of_them() -> None:
            for cid, message in steps:
                core.step(cid, message, now)

        seconds = timed(all_of_them)
        for cid, message in core.effects:
            if message[0] == m.FORWARD:
                self.running.append((cid, message[2]))
                self.received[cid] += 1
            elif message[0] == m.EXECUTE:
                self.here.append((cid, message[1]))
        core.effects.clear()
        return seconds


def timed(do: Callable[[], object]) -> float:
    """CPU seconds of a call, without the collection of garbage that others have left."""
    gc.disable()
    began = time.process_time()
    do()
    seconds = time.process_time() - began
    gc.enable()
    return seconds


# -- figures, in microseconds


def per_task(nodes: int, keys: Callable[[Head], list[bytes]]) -> float:
    """From submission to its end, with the reports of those that ran it, on a cluster that has room."""
    head = Head(nodes)
    batch = min(BATCH, nodes * CPUS)
    spent, done = 0.0, 0
    while spent < SECONDS and done < TASKS // 10:
        spent += head.run(head.submits(keys(head)[:batch]))
        ran_on = dict.fromkeys(cid for cid, _ in head.running)
        spent += head.run(head.answers()) + head.run(head.reports(ran_on))
        done += batch
    return spent / done * 1e6


def plain(nodes: int) -> float:
    """Wherever there is most room."""
    return per_task(nodes, lambda head: [b"plain"] * BATCH)


def spread(nodes: int) -> float:
    """In turn on all nodes."""
    return per_task(nodes, lambda head: [b"spread"] * BATCH)


def affinity(nodes: int) -> float:
    """On one node that is asked for."""

    def keys(head: Head) -> list[bytes]:
        found = []
        for number in range(min(BATCH, nodes)):
            place = (number * 7919 % nodes).to_bytes(8, "big") + bytes(20)
            key = b"at" + place
            if key not in head.core.templates:
                head.template(key, ("node", place, False))
            found.append(key)
        return found * (BATCH // len(found))

    return per_task(nodes, keys)


def full(nodes: int) -> float:
    """Submitted while no node has room: the task waits."""
    head = busy_cluster(nodes)
    spent, done = 0.0, 0
    while spent < SECONDS and done < TASKS // 10:
        spent += head.run(head.submits([b"plain"] * BATCH))
        done += BATCH
    return spent / done * 1e6


def freed(nodes: int) -> float:
    """A node reports that something is free: a task that waited goes there."""
    head = busy_cluster(nodes)
    head.run(head.submits([b"plain"] * 5 * BATCH))
    spent, done = 0.0, 0
    while spent < SECONDS and len(head.core.tasks) > done + BATCH:
        spent += head.run(head.reports([head.cids[done * 7919 % nodes]], 1))
        done += 1
    return spent / done * 1e6


def busy_cluster(nodes: int) -> Head:
    """A cluster on which others use all there is."""
    head = Head(nodes)
    head.run(head.reports(head.cids, 0))
    return head


def report(nodes: int) -> float:
    """A node reports, and nobody waits for it."""
    head = Head(nodes)
    spent, done = 0.0, 0
    while spent < SECONDS / 4:
        cids = [head.cids[(done + i) % nodes] for i in range(BATCH)]
        spent += head.run(head.reports(cids))
        done += BATCH
    return spent / done * 1e6


def told(nodes: int) -> float:
    """Something has changed here: all peers are told what is free."""
    head = Head(nodes, CPUS)
    spent, done = 0.0, 0
    while spent < SECONDS / 4:
        head.core.peers.touched()
        head.now += 60.0
        spent += timed(lambda: head.core.tick(head.now))
        head.core.effects.clear()
        done += 1
    return spent / done * 1e6


def join(nodes: int) -> float:
    """One more node joins."""
    head = Head(nodes)
    return min(head.join(nodes + extra) for extra in range(20)) * 1e6


def left(nodes: int) -> float:
    """A node is lost that ran nothing."""
    head = Head(nodes)
    return min(timed(lambda: head.core.peers.left(head.cids.pop(), "was lost", 1.0)) for _ in range(9)) * 1e6


FIGURES: dict[str, Callable[[int], float]] = {
    "task, where there is most room": plain,
    "task, spread": spread,
    "task, on a node asked for": affinity,
    "task that has to wait": full,
    "report that lets one go": freed,
    "report, nobody waits": report,
    "report to all, when due": told,
    "node joins": join,
    "node is lost": left,
}


# -- memory, and one node with very many tasks


def queued(tasks: int) -> dict[str, float]:
    """One node of 16 CPUs with so many tasks in its queue."""
    head = Head(0, 16)
    core = head.core
    spent = sum(head.run(head.submits([b"plain"] * BATCH)) for _ in range(tasks // BATCH))
    figures = {"submit, µs a task": spent / tasks * 1e6}
    core.connect(core.next_cid, "job", "", False)
    figures["end of a process that holds nothing, ms"] = (
        timed(lambda: core.disconnect(core.next_cid - 1, head.now)) * 1e3
    )
    spent = 0.0
    while head.here:
        ended, head.here = head.here, []
        done = (m.OK, ((m.INLINE, b"v", ()),), MICROS, False)
        spent += head.run([(cid, (m.DONE, task_id, *done)) for cid, task_id in ended])
    figures["drain, µs a task"] = spent / tasks * 1e6
    assert not core.tasks, f"{len(core.tasks)} tasks are left"
    return figures


def forwarded(tasks: int, nodes: int = 1_000) -> dict[str, float]:
    """So many tasks that wait at the head of a full cluster, until the last one has ended."""
    head = busy_cluster(nodes)
    spent = sum(head.run(head.submits([b"plain"] * BATCH)) for _ in range(tasks // BATCH))
    figures = {f"submit to a full cluster of {nodes:,} nodes, µs a task": spent / tasks * 1e6}
    spent = head.run(head.reports(head.cids))
    while head.running:
        spent += head.run(head.answers())
    figures["drain through it, µs a task"] = spent / tasks * 1e6
    assert not head.core.tasks, f"{len(head.core.tasks)} tasks are left"
    return figures


def weights(count: int = 20_000) -> dict[str, float]:
    """Bytes of memory for a task that waits and for a record of an object."""
    head = Head(0, 1)
    head.run(head.submits([b"plain"]))

    def escapes() -> list[Step]:
        ids = (bytes([number % 251]) * 4 + number.to_bytes(24, "little") for number in range(count))
        return [(head.driver, (m.ESCAPE, oid)) for oid in ids]

    found = {}
    kinds: dict[str, Callable[[], list[Step]]] = {
        "a task that waits, bytes": lambda: head.submits([b"plain"] * count),
        "an object record, bytes": escapes,
    }
    for name, make in kinds.items():
        gc.collect()
        tracemalloc.start()
        head.run(make())
        gc.collect()
        found[name] = tracemalloc.get_traced_memory()[0] / count
        tracemalloc.stop()
    return found


# -- the command


def table(figures: dict[str, list[float]], sizes: list[int]) -> str:
    """The figures as a table of Markdown."""
    lines = [f"| µs | {' | '.join(f'{size:,} nodes' for size in sizes)} |", "|---" * (len(sizes) + 1) + "|"]
    for name, row in figures.items():
        lines.append(f"| {name} | {' | '.join(f'{value:,.1f}' for value in row)} |")
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> None:
    """Measure, print, draw."""
    parser = argparse.ArgumentParser(
        prog="python -m skate.simulation.scale", description="What the core costs."
    )
    parser.add_argument("--nodes", type=int, nargs="+", default=list(NODES), metavar="N")
    parser.add_argument("--tasks", type=int, default=TASKS, metavar="N", help="for the queue of one node")
    parser.add_argument("--only", default="", metavar="WORD", help="figures with this word in their name")
    parser.add_argument("--json", type=Path, metavar="OUT", help="write the figures")
    parser.add_argument("--before", type=Path, metavar="IN", help="earlier figures, to be drawn beside")
    parser.add_argument("--plot", type=Path, metavar="OUT.svg")
    options = parser.parse_args(arguments)
    figures: dict[str, list[float]] = {}
    for name, measure in FIGURES.items():
        if options.only in name:
            figures[name] = [measure(nodes) for nodes in options.nodes]
            print(name, *(f"{value:,.1f}" for value in figures[name]), flush=True)
    print("", table(figures, options.nodes), "", sep="\n")
    if options.tasks:
        for name, value in {**weights(), **queued(options.tasks), **forwarded(options.tasks)}.items():
            print(f"{name}: {value:,.1f}")
    if options.json:
        options.json.write_text(json.dumps({"nodes": options.nodes, "figures": figures}, indent=1) + "\n")
    if options.plot:
        before = json.loads(options.before.read_text())["figures"] if options.before else {}
        options.plot.write_text(draw("CPU time of the core's decisions, µs", options.nodes, figures, before))


if __name__ == "__main__":
    main()
