"""Admission of new values to memory: requests that do not fit at once wait in fair queues while room is made.

Each process has its own queue, and the queues take turns. No request overtakes the one whose turn it is, so large requests are
served too. A request waits only while memory may become free, because values are being moved to disk or are still being
written by others, and only for a limited time. Then it gets a place in the overflow file or, if that is full, an error.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Protocol

from skate.core.client import Client
from skate.core.clock import Clock
from skate.core.memory.memory_plan import MemoryPlan
from skate.core.outbox import Outbox
from skate.protocol.effects import Reserve
from skate.protocol.fields import ErrorValue

# Queues that belong to no process.
PULLS = -5
RESTORES = -6
#: How long a request waits for values that others are writing; once written, they can move to disk.
WRITERS_SECONDS = 1.0
#: Seconds between ticks while requests wait.
LOOK_SECONDS = 0.1


class Taker(Protocol):
    """A requester of memory, for a process or for the core itself."""

    def granted(self, request: Request) -> None:
        """Handle a granted request: there is memory at `request.offset`."""

    def refused(self, request: Request, error: ErrorValue) -> None:
        """Handle a refused request: there is no memory."""


class Request:
    """A pending allocation request."""

    __slots__ = ("taker", "lane", "oid", "size", "detail", "offset", "withdrawn")

    def __init__(self, taker: Taker, lane: int, oid: bytes, size: int, detail: Any = None) -> None:
        self.taker = taker
        self.lane = lane  # the process that waits, or PULLS or RESTORES
        self.oid = oid
        self.size = size
        self.detail = detail
        self.offset = -1
        self.withdrawn = False

    def __repr__(self) -> str:
        return f"<Request of {self.lane}: {self.size} bytes for {self.oid.hex()[:16]}>"


class Disk(Protocol):
    """Makes room by moving values to disk."""

    #: Values on their way to disk.
    moves: dict[bytes, Any]

    @property
    def able(self) -> bool:
        """False while there is no disk, or every disk is full."""

    def make_room(self, size: int) -> bool:
        """Move values out until `size` bytes will be free; return False if none will be."""

    def read_in_place(self, oid: bytes) -> bool:
        """Serve a value from disk, if it is on this machine."""

    def release(self, offset: int) -> None:
        """Free the memory at an offset."""

    def disk_full(self, disk: int) -> None:
        """Record that a disk is full."""


class Cluster(Protocol):
    """The operations on other nodes that this module needs."""

    def evict(self) -> bool:
        """Drop a copy that is kept for another node; return False if there is none."""


class Admission:
    """Grants memory: at once if there is room, else in turn."""

    def __init__(
        self, allocator: MemoryPlan, clients: dict[int, Client], cluster: Cluster, clock: Clock, out: Outbox
    ) -> None:
        self.allocator = allocator
        self.clients = clients
        self.cluster = cluster
        self.clock = clock
        self.out = out
        self.disk: Disk
        #: Waiting requests by process, in the order of their turns.
        self.lanes: dict[int, deque[Request]] = {}
        #: Arena memory being written, and by which process.
        self.writing: dict[int, int] = {}
        #: Requests for which disk blocks are being reserved.
        self.reserving: dict[int, Request] = {}
        self._number = 0
        self._turn: Request | None = None
        self._turn_since = 0.0
        self._pumping = False

    def connect(self, disk: Disk) -> None:
        """Set the disk, which makes room and requests memory itself."""
        self.disk = disk

    def ask(self, request: Request) -> None:
        """Grant the request at once if there is room and nothing waits before it; else queue it for `pump`."""
        if not self.lanes:
            offset = self.allocator.arena.allocate(request.size)
            if offset is not None:
                self._grant(request, offset)
                return
        self.lanes.setdefault(request.lane, deque()).append(request)

    def pump(self) -> None:
        """Answer requests in turn, as long as there is room, or none can become free."""
        if self._pumping:
            return
        self._pumping = True
        while self.lanes:
            lane, queue = next(iter(self.lanes.items()))
            request = queue[0]
            if request is not self._turn:
                self._turn = request
                self._turn_since = self.clock.now
            offset = self.allocator.arena.allocate(request.size)
            while offset is None and self.cluster.evict():
                offset = self.allocator.arena.allocate(request.size)
            if offset is None and self._room_is_coming(request):
                break
            queue.popleft()
            del self.lanes[lane]
            if queue:
                self.lanes[lane] = queue
            if offset is not None:
                self._grant(request, offset)
            else:
                self._go_to_disk(request)
        self._pumping = False

    def _room_is_coming(self, request: Request) -> bool:
        if request.size > self.allocator.arena.capacity:
            return False
        if self.disk.make_room(request.size):
            return True
        if not self.disk.able or self.clock.now - self._turn_since >= WRITERS_SECONDS:
            return False
        # A value that a waiting process is writing may be completed only after this request.
        return any(lane < 0 or lane not in self.lanes for lane in self.writing.values())

    def _grant(self, request: Request, offset: int) -> None:
        request.offset = offset
        if offset < self.allocator.boundary:
            self.writing[offset] = request.lane
        request.taker.granted(request)

    def _go_to_disk(self, request: Request) -> None:
        if request.lane == RESTORES and self.disk.read_in_place(request.oid):
            return
        place = self.allocator.allocate_on_disk(request.size)
        if place is None:
            request.taker.refused(request, ("ObjectStoreFullError", {"message": self._no_room(request)}))
            return
        request.offset = place
        self._number += 1
        self.reserving[self._number] = request
        self.out.shell(Reserve(self._number, place - self.allocator.boundary, request.size))

    def reserved(self, number: int, problem: str) -> None:
        """Handle reserved disk blocks, or a failed reservation."""
        request = self.reserving.pop(number)
        if request.withdrawn or problem:
            self.disk.release(request.offset)
        if request.withdrawn:
            return
        if not problem:
            self._grant(request, request.offset)
            return
        self.disk.disk_full(self.allocator.disk_of(request.offset))
        text = self._no_room(request, problem)
        request.taker.refused(request, ("OutOfDiskError", {"message": text}))

    def _no_room(self, request: Request, problem: str = "") -> str:
        """Format the error: the requested size, the available memory, and what to do."""
        allocator = self.allocator
        arena = allocator.arena
        on_disk = allocator.used - arena.used
        if not problem:
            problem = (
                f"the {on_disk} bytes on disk are the limit"
                if allocator.disks
                else "there is no disk to spill to"
            )
        return (
            f"a value of {request.size} bytes cannot be stored: {arena.used} of {arena.capacity} bytes of "
            "memory are in use, and "
            f"{problem}; drop refs that are no longer needed, start with "
            f"init(object_store_memory={max(2 * arena.capacity, allocator.used + 2 * request.size)}), or have values spilled "
            "elsewhere with init(object_spilling_directory=...)"
        )

    def withdraw(self, lane: int, oid: bytes) -> None:
        """Withdraw the allocation request of a process."""
        for request in self.reserving.values():
            if request.lane == lane and request.oid == oid:
                request.withdrawn = True
        queue = self.lanes.get(lane)
        if queue is None:
            return
        left = deque(request for request in queue if request.oid != oid)
        if left:
            self.lanes[lane] = left
        else:
            del self.lanes[lane]

    def forget_client(self, cid: int) -> None:
        """Withdraw the requests of a process that has ended."""
        self.lanes.pop(cid, None)
        for request in self.reserving.values():
            if request.lane == cid:
                request.withdrawn = True

    def check(self) -> None:
        """Raise AssertionError if an invariant is broken."""
        for lane, queue in self.lanes.items():
            assert queue, f"{lane} waits for nothing"
            assert all(request.lane == lane for request in queue)
            assert lane < 0 or lane in self.clients, f"{lane} is gone and still waits for memory"
        if self.lanes:
            spilling = self.disk
            assert spilling.moves or spilling.able, f"{self.lanes} wait, and nothing makes room"
        for offset in self.writing:
            assert self.allocator.taken(offset), f"memory at {offset} is being written and is free"

    def __repr__(self) -> str:
        return f"<Admission {sum(map(len, self.lanes.values()))} requests wait>"
