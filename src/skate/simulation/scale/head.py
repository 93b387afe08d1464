"""The core of a head with any number of simulated peers, and the CPU time that it uses.

Only the peers are simulated: they answer forwarded tasks at once, as nodes do, with a result, FINISHED, and reports of their
free resources.
"""

from __future__ import annotations

import gc
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

from skate.core.node import NodeCore, admit_client
from skate.protocol import messages as m
from skate.protocol.shell_events import DRIVER_JOINED, PEER_JOINED, DriverJoined, PeerJoined
from skate.simulation.processes.process import JOB
from skate.simulation.programs.spec import CPU

CPUS = 4  # of each node
MICROS = 1_000_000  # a task says that it ran so long: none is sent behind another

Step = tuple[int, tuple[Any, ...]]


class Head:
    """The core of a head among simulated peers."""

    def __init__(self, nodes: int, cpus: int = 0) -> None:
        self.core = NodeCore({"CPU": cpus * CPU} if cpus else {}, node_id=b"headhead" + bytes(20))
        self.now = 1.0
        self.count = 0
        self.driver = self.enter()
        self.template(b"plain", None)
        self.template(b"spread", ("spread",))
        self.template(b"method", None, {})
        self.join_seconds = 0.0
        self.cids: list[int] = []
        for number in range(nodes):
            self.join_seconds = self.join(number)
        self.received = defaultdict[int, int](int)
        #: What is forwarded and not answered: (peer, task); and what is with workers here.
        self.running: list[tuple[int, bytes]] = []
        self.here: list[tuple[int, bytes]] = []
        self.asked: list[Step] = []  # bundles that peers are to set apart

    def enter(self) -> int:
        """Add a driver; return its id."""
        return admit_client(self.core, DriverJoined(DRIVER_JOINED, "job", "", False), self.now)

    def join(self, number: int) -> float:
        """Add a node; return the seconds used."""
        info = {"node_id": number.to_bytes(8, "big") + bytes(20), "total": {"CPU": CPUS * CPU}, "labels": {}}
        event = PeerJoined(PEER_JOINED, info)
        seconds = timed(lambda: self.cids.append(admit_client(self.core, event, self.now)))
        self.core.effects.clear()
        return seconds

    def template(self, key: bytes, strategy: Any, request: dict[str, int] | None = None) -> bytes:
        """Return a function, which requests one CPU by default."""
        asked = {"CPU": CPU} if request is None else request
        fields = {"name": "f", "function": b"", "request": asked, "strategy": strategy}
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

    def actors(self, count: int) -> list[Step]:
        """Messages of a driver that start actors, each of which takes a CPU."""
        life = {"actor_name": "", "namespace": "", "max_restarts": 0, "max_task_retries": 0, "handle": b""}
        self.count += count
        ids = (number.to_bytes(12, "little") + JOB for number in range(self.count - count, self.count))
        return [
            (self.driver, (m.CREATE_ACTOR, actor_id, b"plain", b"", (), (), b"", life)) for actor_id in ids
        ]

    def calls(self, actor_ids: list[bytes]) -> list[Step]:
        """Messages of a driver that call actors, one after the other."""
        submits = self.submits([b"method"] * len(actor_ids))
        return [
            (cid, (m.CALL, message[1], actor_id, *message[2:]))
            for (cid, message), actor_id in zip(submits, actor_ids, strict=True)
        ]

    def group(self, strategy: str, bundles: int) -> tuple[Step, Step]:
        """Messages of a driver that make a placement group and remove it."""
        self.count += 1
        group_id = b"group" + self.count.to_bytes(13, "little")
        wanted = ({"CPU": CPU},) * bundles
        make = (m.REQUEST, self.count, "create_group", (group_id, wanted, {"strategy": strategy}))
        return (self.driver, make), (self.driver, (m.REQUEST, self.count, "remove_group", (group_id,)))

    def answers(self) -> list[Step]:
        """Return the peers' messages about the results of all running tasks."""
        found: list[Step] = []
        for cid, task_id in self.running:
            found.append((cid, (m.RESULT, task_id + b"\1\0\0\0", m.INLINE, b"v", (), 0)))
            found.append((cid, (m.FINISHED, task_id, MICROS, None)))
        self.running = []
        return found

    def reservations(self) -> list[Step]:
        """Return the peers' messages about reserved bundles."""
        asked, self.asked = self.asked, []
        return [(cid, (m.RESERVED, message[1], message[2], True)) for cid, message in asked]

    def reports(self, cids: Iterable[int], cpus: int = CPUS) -> list[Step]:
        """Return the peers' reports of free resources."""
        return [(cid, (m.REPORT, {"CPU": cpus * CPU}, {}, self.received[cid])) for cid in cids]

    def run(self, steps: list[Step]) -> float:
        """Pass these messages to the core; return the seconds used."""
        core, now = self.core, self.now

        def all_of_them() -> None:
            for cid, message in steps:
                core.step(cid, message, now)

        seconds = timed(all_of_them)
        for cid, message in core.effects:
            if cid == m.SHELL:
                continue
            if message[0] == m.FORWARD:
                self.running.append((cid, message[2]))
                self.received[cid] += 1
            elif message[0] == m.EXECUTE:
                self.here.append((cid, message[1]))
            elif message[0] == m.RESERVE:
                self.asked.append((cid, message))
        core.effects.clear()
        return seconds


class Member:
    """The core of a node that is not the head, with a worker that answers at once, among as many others."""

    def __init__(self, nodes: int) -> None:
        self.core = NodeCore({"CPU": CPUS * CPU}, node_id=b"membermember" + bytes(16))
        self.count = 0
        self.head = -1
        for number in range(nodes):
            name = b"headhead" if number == 0 else number.to_bytes(8, "big")
            info = {
                "node_id": name + bytes(20),
                "total": {"CPU": CPUS * CPU},
                "labels": {},
                "head": not number,
            }
            cid = admit_client(self.core, PeerJoined(PEER_JOINED, info), 1.0)
            self.head = self.head if number else cid
        fields = {"name": "f", "function": b"", "request": {"CPU": CPU}}
        self.core.step(self.head, (m.TEMPLATE, b"plain", fields), 1.0)
        self.core.effects.clear()

    def task(self) -> float:
        """One task of the head's from its coming to its end; returns seconds."""
        self.count += 1
        task_id = self.count.to_bytes(8, "little") + b"headhead" + bytes(4) + JOB
        fields = {"attempt": 0, "retries": 0, "job": "job", "namespace": ""}
        forward = (m.FORWARD, 0, task_id, b"plain", b"", (), (), b"", fields)
        seconds = timed(lambda: self.core.step(self.head, forward, 1.0))
        sent = [(cid, message) for cid, message in self.core.effects if cid != m.SHELL]
        (worker,) = [cid for cid, message in sent if message[0] == m.EXECUTE]
        self.core.effects.clear()
        done = (m.DONE, task_id, m.OK, ((m.INLINE, b"v", ()),), MICROS, False)
        seconds += timed(lambda: self.core.step(worker, done, 1.0))
        self.core.effects.clear()
        return seconds


def timed(do: Callable[[], object]) -> float:
    """Return the CPU seconds of a call, without collecting garbage from earlier code."""
    gc.disable()
    began = time.process_time()
    do()
    seconds = time.process_time() - began
    gc.enable()
    return seconds
