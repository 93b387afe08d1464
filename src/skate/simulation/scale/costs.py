"""The measurements of the scale study: CPU time of the core's steps, without the code that makes their messages."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable

from skate.protocol import messages as m
from skate.protocol.shell_events import DRIVER_LEFT, PEER_LEFT, DriverLeft, PeerLeft
from skate.protocol.states import ALIVE, DEAD
from skate.simulation.scale import membership
from skate.simulation.scale.head import CPUS, MICROS, Head, Member, Step, timed

SECONDS = 1.0  # time limit for each measurement
TASKS_MAX = 100_000  # limit on the number of tasks
BATCH = 200
WEIGHED = 20_000  # number of items that are averaged


def per_task(nodes: int, keys: Callable[[Head], list[bytes]]) -> float:
    """Measure a task from submission to end, including the nodes' reports, on a cluster with room."""
    head = Head(nodes)
    batch = min(BATCH, nodes * CPUS)
    spent, done = 0.0, 0
    while spent < SECONDS and done < TASKS_MAX:
        spent += head.run(head.submits(keys(head)[:batch]))
        ran_on = dict.fromkeys(cid for cid, _ in head.running)
        spent += head.run(head.answers()) + head.run(head.reports(ran_on))
        done += batch
    return spent / done * 1e6


def plain(nodes: int) -> float:
    """Measure tasks placed where most resources are free."""
    return per_task(nodes, lambda head: [b"plain"] * BATCH)


def spread(nodes: int) -> float:
    """Measure tasks spread over all nodes."""
    return per_task(nodes, lambda head: [b"spread"] * BATCH)


def affinity(nodes: int) -> float:
    """Measure tasks that request one node."""

    def keys(head: Head) -> list[bytes]:
        found = []
        for number in range(min(BATCH, nodes)):
            place = (number * 7919 % nodes).to_bytes(8, "big") + bytes(20)
            key = b"at" + place
            if key not in head.core.templates:
                head.template(key, ("node", place, False, "wait"))
            found.append(key)
        return found * (BATCH // len(found))

    return per_task(nodes, keys)


def full(nodes: int) -> float:
    """Measure the submission of a task that must wait because no node has room."""
    head = busy_cluster(nodes)
    spent, done = 0.0, 0
    while spent < SECONDS and done < TASKS_MAX:
        spent += head.run(head.submits([b"plain"] * BATCH))
        done += BATCH
    return spent / done * 1e6


def freed(nodes: int) -> float:
    """Measure a report of free resources that starts a waiting task."""
    head = busy_cluster(nodes)
    head.run(head.submits([b"plain"] * 5 * BATCH))
    spent, done = 0.0, 0
    while spent < SECONDS and len(head.core.tasks) > done + BATCH:
        spent += head.run(head.reports([head.cids[done * 7919 % nodes]], 1))
        done += 1
    return spent / done * 1e6


def busy_cluster(nodes: int) -> Head:
    """Return a cluster whose resources are all in use."""
    head = Head(nodes)
    head.run(head.reports(head.cids, 0))
    return head


def report(nodes: int) -> float:
    """Send a report of a node that has no waiters."""
    head = Head(nodes)
    spent, done = 0.0, 0
    while spent < SECONDS / 4:
        cids = [head.cids[(done + i) % nodes] for i in range(BATCH)]
        spent += head.run(head.reports(cids))
        done += BATCH
    return spent / done * 1e6


def told(nodes: int) -> float:
    """Send the free resources to all peers after a change."""
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
    """Measure the joining of one more node."""
    head = Head(nodes)
    return min(head.join(nodes + extra) for extra in range(20)) * 1e6


def first(nodes: int) -> float:
    """Measure the placement of the first task after a node joins."""
    head = Head(nodes)
    return min(head.join(nodes + extra) + head.run(head.submits([b"plain"])) for extra in range(9)) * 1e6


def left(nodes: int) -> float:
    """Measure the loss of an idle node."""
    head = Head(nodes)

    def lose() -> None:
        head.core.step(m.SHELL, PeerLeft(PEER_LEFT, head.cids.pop(), "was lost"), 1.0)

    return min(timed(lose) for _ in range(9)) * 1e6


def member(nodes: int) -> float:
    """Measure a task of the head on the node that runs it."""
    here = Member(nodes)
    spent, done = 0.0, 0
    while spent < SECONDS / 4:
        spent += here.task()
        done += 1
    return spent / done * 1e6


def actor(nodes: int) -> float:
    """Measure an actor from creation to its end, when its handle is dropped."""
    head = Head(nodes)
    batch = min(BATCH, nodes * CPUS)
    spent, done = 0.0, 0
    while spent < SECONDS and done < TASKS_MAX:
        spent += head.run(head.actors(batch))
        hosts, head.running = head.running, []
        for state, death in ((ALIVE, None), (DEAD, ("ActorDiedError", {"message": ""}))):
            spent += head.run([(cid, (m.ACTOR_REPORT, each, state, 0, 1, death)) for cid, each in hosts])
            spent += head.run([(head.driver, (m.FREE, each, 1)) for _, each in hosts if state == ALIVE])
        done += batch
    return spent / done * 1e6


def call(nodes: int) -> float:
    """Measure a call to an actor on another node, one per node, until its answer."""
    head = Head(nodes)
    head.run(head.actors(nodes))
    hosts, head.running = head.running, []
    head.run([(cid, (m.ACTOR_REPORT, each, ALIVE, 0, 1, None)) for cid, each in hosts])
    spent, done = 0.0, 0
    while spent < SECONDS and done < TASKS_MAX:
        ids = [hosts[(done + each) % nodes][1] for each in range(BATCH)]
        spent += head.run(head.calls(ids))
        spent += head.run(head.answers())
        done += BATCH
    return spent / done * 1e6


def grouped(strategy: str) -> Callable[[int], float]:
    """Measure the creation and removal of a placement group of four bundles."""

    def measure(nodes: int) -> float:
        head = Head(nodes)
        spent, done = 0.0, 0
        while spent < SECONDS:
            make, remove = head.group(strategy, 4)
            spent += head.run([make]) + head.run(head.reservations()) + head.run([remove])
            done += 1
        return spent / done * 1e6

    return measure


def hopeful(nodes: int) -> float:
    """Measure a node's report while a placement group waits for more resources than there are."""
    head = Head(nodes)
    head.run(head.reports(head.cids, 1))
    head.run([head.group("STRICT_PACK", 2)[0]])
    spent, done = 0.0, 0
    while spent < SECONDS:
        head.now += 0.01
        spent += head.run(head.reports([head.cids[done * 7919 % nodes]], 1))
        spent += timed(lambda: head.core.tick(head.now))
        head.core.effects.clear()
        done += 1
    return spent / done * 1e6


FIGURES: dict[str, Callable[[int], float]] = {
    "task, where there is most room": plain,
    "task, spread": spread,
    "task, on a requested node": affinity,
    "task that has to wait": full,
    "task, at the node that runs it": member,
    "actor, made and ended": actor,
    "call of an actor elsewhere": call,
    "report that lets one go": freed,
    "report, nothing waits": report,
    "report, a group waits": hopeful,
    "report to all, when due": told,
    "node joins": join,
    "node joins, and the next task": first,
    "node is lost": left,
    "all nodes join, with tasks, each": membership.all_join,
    "a tenth is lost at once, each": membership.many_left,
    "group of 4, packed": grouped("PACK"),
    "group of 4, spread": grouped("SPREAD"),
    "group over a tenth, each bundle": membership.large_group,
    "news of 100 that join, each member told": membership.news,
    "a look at the members, each": membership.directory,
}


# -- memory, and one node with very many tasks


def queued(tasks: int) -> dict[str, float]:
    """Measure one node of 16 CPUs with many tasks in its queue."""
    head = Head(0, 16)
    core = head.core
    spent = sum(head.run(head.submits([b"plain"] * BATCH)) for _ in range(tasks // BATCH))
    figures = {"submit, µs a task": spent / tasks * 1e6}
    left = DriverLeft(DRIVER_LEFT, head.enter())
    figures["end of a process that holds nothing, ms"] = (
        timed(lambda: core.step(m.SHELL, left, head.now)) * 1e3
    )
    spent = 0.0
    while head.here:
        ended, head.here = head.here, []
        done = (m.OK, ((m.INLINE, b"v", ()),), MICROS, False)
        spent += head.run([(cid, (m.DONE, task_id, *done)) for cid, task_id in ended])
    figures["drain, µs a task"] = spent / tasks * 1e6
    assert not core.tasks, f"{len(core.tasks)} tasks are left"
    return figures


def flood(nodes: int, tasks: int) -> tuple[float, float]:
    """So many tasks at once for a cluster that is full: microseconds of each to come, and to go, one after the other."""
    head = busy_cluster(nodes)
    spent = sum(head.run(head.submits([b"plain"] * BATCH)) for _ in range(tasks // BATCH))
    submit = spent / tasks * 1e6
    spent = head.run(head.reports(head.cids))
    while head.running:
        spent += head.run(head.answers())
    assert not head.core.tasks, f"{len(head.core.tasks)} tasks are left"
    return submit, spent / tasks * 1e6


def weights() -> dict[str, float]:
    """Measure the memory of a waiting task, an object record, and the data about a node, in bytes."""
    count = WEIGHED
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
    gc.collect()
    tracemalloc.start()
    among = Head(count // 10)
    among.run(among.submits([b"plain"]))
    found["another node, bytes"] = tracemalloc.get_traced_memory()[0] / (count // 10)
    tracemalloc.stop()
    return found
