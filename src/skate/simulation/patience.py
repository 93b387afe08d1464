"""The waits of a scripted process: reported to the node, and ended after a timeout or if they can never succeed.

A real process tells only of waits that last; here all are told of, so that the node has the more to judge.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any

from skate.protocol import messages as m

if TYPE_CHECKING:
    from skate.core.diagnosis.wait_registry import Wait
    from skate.simulation.cluster import Cluster
    from skate.simulation.process import Process


class Patience:
    """The waits of one process, by number: the id, and the waiting task."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.waits: dict[int, tuple[bytes, bytes]] = {}
        self._over: set[int] = set()

    def wait(
        self, ready: Callable[[], bool], parent: bytes, what: bytes
    ) -> Generator[Callable[[], bool] | None, None, Any]:
        """Wait until something is ready, or until this takes too long, or never ends."""
        process = self.process
        process.number = number = process.number + 1
        self.waits[number] = (what, parent)
        process.send((m.WAITS, number, (what,), 1, parent, {}))
        try:
            yield lambda: ready() or number in self._over or process.cluster.timed_out(process)
        finally:
            del self.waits[number]
            if process.alive:
                process.outbox.append((m.WAIT_OVER, number))

    def confirm(self, message: tuple[Any, ...]) -> None:
        """CONFIRM: say the waits again."""
        for number, (what, parent) in self.waits.items():
            self.process.send((m.WAITS, number, (what,), 1, parent, {}))
        self.process.send((m.STILL, message[1]))

    def condemned(self, message: tuple[Any, ...]) -> None:
        """DEADLOCK: a wait never ends."""
        if self.process.cluster.condemns(self.process, message[1]):
            self._over.add(message[1])


def overlooked(cluster: Cluster) -> list[Wait]:
    """The waits that have no verdict although nothing happens any more, drivers at the end of their program left out."""
    everyone = cluster.processes.values()
    drivers = [process for process in everyone if not process.is_worker]
    # A real worker without work might have threads of the user's, a scripted one has none.
    done = frozenset(
        [process.cid for process in drivers if process.thread is None and not process.todo]
        + [worker.cid for worker in cluster.core.scheduler.workers.values() if not worker.outstanding]
    )
    waits = cluster.core.wait_registry
    stuck, _ = waits.stuck(done)
    return [wait for wait in waits.old() if wait not in stuck]
