"""A process of hollow nodes: real workers of Dask, lanes and directories, and in place of a core an answer to each message.

    python -m tests.fabric.dask.hollow_nodes HOST:PORT TOKEN_FILE COUNT

The members of a process share its loop, a thread of Dask and a certificate. It prints a line of JSON once all have joined, and
one for each line that it gets: the CPU time of the process, and the bytes and pieces of all lanes so far. It ends with its input.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import json
import os
import pickle
import resource
import socket
import struct
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from skate.fabric.dask.carrier import MemberCarrier
from skate.fabric.dask.credentials import Credentials, find_token
from skate.fabric.dask.thread import EngineThread, Mailbox
from skate.fabric.mesh_member import MeshMember
from skate.node.node_facts import facts
from skate.protocol import messages as m
from skate.protocol.values import LOOPBACK
from skate.simulation.programs.spec import CPU
from skate.wire.pump import Pump

CPUS = 4
JOIN_SECONDS = 600.0
#: Registrations of one process that run at the same time.
AT_ONCE = 4
MICROS = 1000
#: In the kernel's `struct tcp_info`: bytes acknowledged, bytes received, and segments out and in.
BYTES, SEGMENTS = struct.Struct("=QQ"), struct.Struct("=II")
BYTES_AT, SEGMENTS_AT, INFO_BYTES = 120, 136, 256


class SharedCarrier(MemberCarrier):
    """A member's carrier in the thread that all members of this process share."""

    def __init__(
        self, pump: Pump, engine: EngineThread, credentials: Credentials, name: str, head: str
    ) -> None:
        super().__init__(pump, name, head, LOOPBACK, security=credentials.security)
        self._mailbox = Mailbox(pump)
        self._engine = engine

    def registration(self) -> concurrent.futures.Future[None]:
        """Begin to register."""
        assert self._engine is not None
        return asyncio.run_coroutine_threadsafe(self._begin(JOIN_SECONDS), self._engine.loop)


class HollowCore:
    """The handler of one member. It says that each task has ended at once, with the id of this node as the result."""

    def __init__(self, fabric: MeshMember) -> None:
        self.fabric = fabric
        self.received = 0
        fabric.handler = self

    def joined(self, member: Any, info: dict[str, Any]) -> None:
        """Report free resources to the head, as a node does."""
        if info.get("head"):
            self._report(member)

    def _report(self, member: Any) -> None:
        self.fabric.send(member, (m.REPORT, {"CPU": CPUS * CPU}, {}, self.received))
        self.fabric.flush()

    def message(self, member: Any, message: tuple[Any, ...]) -> None:
        """Answer what a core would."""
        send = self.fabric.send
        match message:
            case (m.FORWARD, _, task_id, *_):
                self.received += 1
                value = pickle.dumps(self.fabric.info["node_id"].hex())
                send(member, (m.RESULT, task_id + b"\1\0\0\0", m.INLINE, value, (), 0))
                send(member, (m.FINISHED, task_id, MICROS, None))
                self._report(member)
            case (m.RESERVE, group, index, *_):
                send(member, (m.RESERVED, group, index, True))
            case (m.JOB_CLOSED, name, *_):
                send(member, (m.JOB_QUIET, name))

    def messages(self, member: Any, messages: Sequence[tuple[Any, ...]]) -> None:
        """Answer each."""
        for message in messages:
            self.message(member, message)

    def left(self, member: Any, reason: str) -> None:
        """No-op: nothing here depends on others."""

    def write(self) -> None:
        """No-op: nothing is queued."""

    def writable(self, member: Any) -> None:
        """No-op: nothing here waits."""

    def read(self, key: bytes, at: int, size: int, answer: Callable[[Any], None]) -> None:
        """Answer that there are no values here."""
        answer(None)

    def printed(self, is_error: bool, text: str) -> None:
        """No-op: nobody reads it."""

    def leave_requested(self) -> None:
        """Leave."""
        self.fabric.close()


class HollowNodes:
    """The members of this process."""

    def __init__(self, head: str, token_file: str) -> None:
        token = find_token(token_file)
        assert token is not None
        self._head = head
        self._credentials = Credentials(token)
        self._pump = Pump(threading.RLock(), "hollow")
        self._engine = EngineThread()
        self.members: list[MeshMember] = []
        self.lost: list[str] = []

    def join(self, count: int) -> None:
        """Have so many members join."""
        waiting: deque[tuple[SharedCarrier, bytes, concurrent.futures.Future[None]]] = deque()
        while count or waiting:
            while count and len(waiting) < AT_ONCE:
                count -= 1
                node_id = os.urandom(28)
                carrier = SharedCarrier(
                    self._pump, self._engine, self._credentials, node_id.hex(), self._head
                )
                registration = carrier.registration()
                registration.add_done_callback(lambda done: self._pump.kick())
                waiting.append((carrier, node_id, registration))
            carrier, node_id, registration = waiting.popleft()
            self._pump.wait(registration.done, JOIN_SECONDS)
            registration.result(0)
            self._greet(carrier, node_id)

    def _greet(self, carrier: SharedCarrier, node_id: bytes) -> None:
        info = {"node_id": node_id, "total": {"CPU": CPUS * CPU}, "labels": {}, "facts": facts(LOOPBACK)}
        member = MeshMember(self._pump, info, carrier)
        member.on_end = lambda: self.lost.append(member.reason)
        HollowCore(member)
        member.greet(JOIN_SECONDS)
        member.begin()
        self.members.append(member)

    def figures(self) -> dict[str, Any]:
        """Return what these members have used so far."""
        sums = [0, 0, 0, 0]
        for member in self.members:
            lane = member.lanes.get(0)
            if lane is not None and lane.connection is not None:
                sock: socket.socket = socket.socket(fileno=os.dup(lane.connection.channel.fd))
                with sock:
                    found = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, INFO_BYTES)
                numbers = BYTES.unpack_from(found, BYTES_AT) + SEGMENTS.unpack_from(found, SEGMENTS_AT)
                sums = [sum(pair) for pair in zip(sums, numbers, strict=True)]
        names = ("bytes_out", "bytes_in", "segments_out", "segments_in")
        return {
            "members": len(self.members),
            "known": [len(member.infos) for member in self.members],
            "cpu_s": time.process_time(),
            "lost": self.lost,
            **dict(zip(names, sums, strict=True)),
        }

    def serve(self) -> None:
        """Answer the lines of the input until it ends."""
        asked: deque[bytes] = deque()

        def read(events: int) -> None:
            asked.append(os.read(0, 1 << 12))

        self._pump.add(0, read)
        while True:
            self._pump.wait(lambda: bool(asked))
            if not asked.popleft():
                return
            print(json.dumps(self.figures()), flush=True)


def main() -> None:
    """Join, and answer until the input ends."""
    head, token_file, count = sys.argv[1:]
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    nodes = HollowNodes(head, token_file)
    began = time.monotonic()
    with nodes._pump.lock:
        nodes.join(int(count))
        print(json.dumps({"seconds": time.monotonic() - began, **nodes.figures()}), flush=True)
        nodes.serve()
    os._exit(0)  # as a machine that is switched off


if __name__ == "__main__":
    main()
