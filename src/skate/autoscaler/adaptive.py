"""The autoscaler: Dask's adaptive loop, with Skate's demand and Skate's drains."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable, Iterable, Sequence

from distributed.deploy.adaptive_core import AdaptiveCore

from skate.autoscaler.demand import Demand, Limits, Node, Shape, target, to_retire, too_large
from skate.autoscaler.machines import Machines
from skate.autoscaler.view import NodeView, demand, publish_worker
from skate.client.session import session
from skate.exceptions import GetTimeoutError, RayError
from skate.launcher.ssh import MachineError
from skate.util.state.exception import RayStateApiException

INTERVAL_S = 1.0
#: A started node that has not been seen by then is given up.
JOIN_S = 60.0
#: A machine that has failed is left alone for so long, while others are tried.
PAUSE_S = 60.0
#: A drained node that is idle leaves at once; this bounds what it may have received in the meantime.
DRAIN_S = 60
IDLE = "DRAIN_NODE_REASON_IDLE_TERMINATION"


class Autoscaler(AdaptiveCore):  # type: ignore[misc]
    """Starts workers while work waits for them, and drains those that have been unused for long enough.

    It needs a session of this process. `report` gets a line for each start and end.
    """

    def __init__(self, machines: Machines, limits: Limits, report: Callable[[str], None]) -> None:
        # A worker is idle for `idle_timeout_s` before it is named, so Dask need not count.
        super().__init__(minimum=limits.min_workers, maximum=limits.max_workers, wait_count=1)
        self._machines = machines
        self._limits = limits
        self._report = report
        self._view = NodeView(machines.name_of)
        self._nodes: list[Node] = []
        self._starting: dict[str, float] = {}
        self._paused: dict[str, float] = {}
        self._retiring: list[str] = []
        self._worker: Shape | None = None
        self._too_large: list[Shape] = []
        self._tasks: set[asyncio.Task[None]] = set()

    # -- the state that Dask's loop compares

    @property
    def observed(self) -> set[str]:
        """The machines whose nodes have joined and do not drain."""
        return {node.name for node in self._nodes if not node.is_head and not node.draining}

    @property
    def plan(self) -> set[str]:
        """The machines whose nodes run or start."""
        return self.observed | set(self._starting)

    @property
    def requested(self) -> set[str]:
        """The same: a machine that is planned is started at once."""
        return self.plan

    # -- the decisions

    async def target(self) -> int:
        """Return the number of workers that there should be."""
        waiting = await asyncio.to_thread(self._look)
        size = target(self._nodes, len(self._starting), waiting, self._worker, self._limits)
        planned = len(self.plan)
        self._retiring = []
        if size <= planned and not self._starting:
            self._retiring = to_retire(self._nodes, waiting, self._limits)
            return planned - len(self._retiring)
        return max(size, planned)

    async def workers_to_close(self, target: int) -> list[str]:
        """Return the workers that `target` has found unused."""
        return self._retiring

    def _look(self) -> Demand:
        now = time.monotonic()
        self._nodes = self._view.nodes(now)
        workers = [node for node in self._nodes if not node.is_head]
        if workers:
            size = {
                name: amount for name, amount in workers[0].total.items() if name != "object_store_memory"
            }
            if size != self._worker:
                publish_worker(size)
            self._worker = size
        known = {node.name for node in workers}
        for name, since in list(self._starting.items()):
            if name in known:
                del self._starting[name]
            elif now - since > JOIN_S and since:
                self._fail(name, f"it has not joined within {JOIN_S:g} s")
        waiting = demand()
        if self._worker is not None:
            self._warn(too_large(self._nodes, waiting, self._worker))
        return waiting

    def _warn(self, shapes: Sequence[Shape]) -> None:
        """Report requests that no worker can hold, once while they wait."""
        for shape in shapes:
            if shape not in self._too_large:
                self._report(
                    f"a request of {dict(shape)} is larger than each node and than a worker, which has "
                    f"{dict(self._worker or {})}: it will not run until you add a larger node"
                )
        self._too_large = list(shapes)

    # -- their execution

    async def scale_up(self, n: int) -> None:
        """Start nodes on free machines until `n` are planned."""
        now = time.monotonic()
        busy = {node.name for node in self._nodes} | self.plan
        free = [
            name for name in self._machines.names if name not in busy and self._paused.get(name, 0.0) <= now
        ]
        for name in free[: n - len(self.plan)]:
            # 0 until the start has returned: it may install packages for minutes.
            self._starting[name] = 0.0
            task = asyncio.create_task(self._start(name))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _start(self, name: str) -> None:
        self._report(f"{name}: starts")
        try:
            await asyncio.to_thread(self._machines.start, name)
        except MachineError as error:
            self._fail(name, str(error))
            return
        if name in self._starting:
            self._starting[name] = time.monotonic()

    def _fail(self, name: str, reason: str) -> None:
        self._starting.pop(name, None)
        self._paused[name] = time.monotonic() + PAUSE_S
        self._report(f"{name}: has not started, is tried again in {PAUSE_S:g} s: {reason}")

    async def scale_down(self, workers: Iterable[str]) -> None:
        """Drain these workers; the head rejects those that have work again."""
        await asyncio.to_thread(self._drain, list(workers))

    def _drain(self, names: Sequence[str]) -> None:
        process = session.current()
        for name in names:
            node_id = self._view.ids.get(name)
            if node_id is None:
                continue
            text = f"unused for {self._limits.idle_timeout_s:g} s"
            accepted, why = process.request("drain_node", bytes.fromhex(node_id), IDLE, text, DRAIN_S)
            self._report(f"{name}: ends, {text}" if accepted else f"{name}: stays, {why}")

    async def run(self, ended: asyncio.Event, interval_s: float = INTERVAL_S) -> None:
        """Adapt the cluster until `ended` is set. Raises ConnectionError if the session ends."""
        while not ended.is_set():
            try:
                await self.adapt()
            except (RayStateApiException, GetTimeoutError) as error:
                self._report(f"the cluster has not answered, it is asked again: {error}")
            except RayError as error:
                raise ConnectionError(f"the cluster has ended: {error}") from error
            try:
                await asyncio.wait_for(ended.wait(), interval_s)
            except asyncio.TimeoutError:
                continue
        await asyncio.gather(*self._tasks)


async def run_until_signal(autoscaler: Autoscaler) -> None:
    """Adapt the cluster until SIGINT or SIGTERM. Raises ConnectionError if the session ends."""
    ended = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    await autoscaler.run(ended)
