"""An actor that hands out the places of a deployment's replicas."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections import deque
from dataclasses import dataclass

import skate
from skate.serve.api import get_deployment_actor_context
from skate.serve.routing import watch
from skate.serve.routing.table import Table


@dataclass
class CapacityQueueStats:
    """Counts of a CapacityQueue. `queue_size` is the number of free places; the totals of calls are since its start."""

    queue_size: int
    num_waiters: int
    num_replicas: int
    total_capacity: int
    total_in_flight: int
    total_acquires: int
    total_releases: int
    total_timeouts: int
    max_waiters_seen: int


@dataclass
class ReplicaCapacityInfo:
    """The places of a replica."""

    replica_id: str
    max_capacity: int
    in_flight: int = 0


@skate.remote(num_cpus=0)
class CapacityQueue:
    """Hands out places at replicas, each time at the one with the fewest requests.

    Name it in `deployment_actors` of a deployment whose router is CapacityQueueRouter. It then knows the replicas of the
    deployment.
    """

    def __init__(
        self, acquire_timeout_s: float, token_ttl_s: float | None, _enable_long_poll: bool = True
    ) -> None:
        """Create the queue.

        Args:
            acquire_timeout_s: seconds for which `acquire` waits for a free place.
            token_ttl_s: a place that is not released is free again after so many seconds; None or 0 for never.
            _enable_long_poll: False to register replicas by hand.
        """
        self._timeout_s = acquire_timeout_s
        self._ttl_s = token_ttl_s or 0.0
        self._replicas: dict[str, ReplicaCapacityInfo] = {}
        self._taken_at: dict[str, deque[float]] = {}
        self._waiters: deque[asyncio.Future[str]] = deque()
        self._acquires = self._releases = self._timeouts = self._waiters_max = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._reaper: asyncio.Task[None] | None = None
        # Replicas are registered in the thread that receives the routing table.
        self._lock = threading.RLock()
        if _enable_long_poll:
            deployment = get_deployment_actor_context().deployment_id
            self._key = (deployment.app_name, deployment.name)
            watch.current().on_change(self._apply)

    def _apply(self, table: Table) -> None:
        found = table.deployments.get(self._key)
        now = {} if found is None else {each.replica: found.max_ongoing for each in found.entries}
        with self._lock:
            for name in self._replicas.keys() - now.keys():
                self.unregister_replica(name)
            for name in now.keys() - self._replicas.keys():
                self.register_replica(name, now[name])

    def register_replica(self, replica_id: str, capacity: int) -> None:
        """Add a replica with its number of places; without effect if the queue has it already."""
        with self._lock:
            if replica_id in self._replicas:
                return
            self._replicas[replica_id] = ReplicaCapacityInfo(replica_id, capacity)
            self._taken_at[replica_id] = deque()
            if self._loop is not None:
                self._loop.call_soon_threadsafe(self._serve_waiters)

    def unregister_replica(self, replica_id: str) -> None:
        """Remove a replica with its places."""
        with self._lock:
            self._replicas.pop(replica_id, None)
            self._taken_at.pop(replica_id, None)

    async def acquire(self, timeout_s: float | None = None) -> str | None:
        """Take a place, and return the id of its replica; None if none is free within `timeout_s` seconds.

        Whoever takes a place must call `release`.
        """
        self._loop = asyncio.get_running_loop()
        if self._ttl_s > 0 and self._reaper is None:
            self._reaper = self._loop.create_task(self._reap())
        self._acquires += 1
        taken = self._take()
        if taken is not None:
            return taken
        waiter: asyncio.Future[str] = self._loop.create_future()
        self._waiters.append(waiter)
        self._waiters_max = max(self._waiters_max, len(self._waiters))
        try:
            return await asyncio.wait_for(waiter, self._timeout_s if timeout_s is None else timeout_s)
        except asyncio.TimeoutError:
            self._timeouts += 1
            return None
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled():
                self._give_back(waiter.result())
            raise
        finally:
            if waiter in self._waiters:
                self._waiters.remove(waiter)

    def release(self, replica_id: str) -> None:
        """Free a place at a replica; without effect if the replica has ended."""
        self._releases += 1
        self._give_back(replica_id)

    def _take(self) -> str | None:
        with self._lock:
            free = [each for each in self._replicas.values() if each.in_flight < each.max_capacity]
            if not free:
                return None
            fewest = min(each.in_flight for each in free)
            chosen = random.choice([each for each in free if each.in_flight == fewest])
            chosen.in_flight += 1
            self._taken_at[chosen.replica_id].append(time.monotonic())
            return chosen.replica_id

    def _give_back(self, replica_id: str) -> None:
        with self._lock:
            found = self._replicas.get(replica_id)
            if found is None:
                return
            found.in_flight = max(0, found.in_flight - 1)
            if self._taken_at[replica_id]:
                self._taken_at[replica_id].popleft()
        self._serve_waiters()

    def _serve_waiters(self) -> None:
        while self._waiters:
            if self._waiters[0].done():
                self._waiters.popleft()
                continue
            taken = self._take()
            if taken is None:
                return
            self._waiters.popleft().set_result(taken)

    async def _reap(self) -> None:
        while True:
            await asyncio.sleep(self._ttl_s / 2)
            before = time.monotonic() - self._ttl_s
            with self._lock:
                late = [name for name, times in self._taken_at.items() for each in times if each < before]
            for name in late:
                self._give_back(name)

    def get_stats(self) -> CapacityQueueStats:
        """Return the queue's counts."""
        with self._lock:
            every = list(self._replicas.values())
        return CapacityQueueStats(
            queue_size=self.get_queue_length(),
            num_waiters=len(self._waiters),
            num_replicas=len(every),
            total_capacity=sum(each.max_capacity for each in every),
            total_in_flight=sum(each.in_flight for each in every),
            total_acquires=self._acquires,
            total_releases=self._releases,
            total_timeouts=self._timeouts,
            max_waiters_seen=self._waiters_max,
        )

    def get_queue_length(self) -> int:
        """Return the number of free places."""
        with self._lock:
            return sum(max(0, each.max_capacity - each.in_flight) for each in self._replicas.values())

    def get_num_waiters(self) -> int:
        """Return the number of callers of `acquire` that wait."""
        return len(self._waiters)

    def get_registered_replicas(self) -> list[str]:
        """Return the ids of the replicas."""
        with self._lock:
            return list(self._replicas)

    def get_replica_in_flight(self) -> dict[str, tuple[int, int]]:
        """Return the number of taken places and of all places, by replica."""
        with self._lock:
            return {name: (each.in_flight, each.max_capacity) for name, each in self._replicas.items()}
