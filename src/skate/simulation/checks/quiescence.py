"""Invariants of a run at rest: every process that still waits has received everything sent to it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from skate.client.core.stream import ALL
from skate.simulation.processes.worker import Worker

if TYPE_CHECKING:
    from skate.core.diagnosis.wait import Wait
    from skate.simulation.nodes.cluster import Cluster


def check(clusters: Iterable[Cluster]) -> None:
    """Raise AssertionError if a generator waits for a reader that has continued, or a value for a writer that has
    not.
    """
    everybody = []
    for cluster in clusters:
        everybody += [process for process in cluster.processes.values() if process.alive]
        for record in cluster.core.objects.records.values():
            assert record.writer is None, f"{record} is being written by {record.writer} forever"
    taken = {
        task_id: ALL if stream.dropped else stream.taken
        for each in everybody
        for task_id, stream in each.streams.items()
    }
    for worker in [each for each in everybody if isinstance(each, Worker)]:
        for running in worker.at_work():
            known = worker.tables.acked.get(running.task_id, 0)
            waits = running.spec.backpressure and running.task_id in taken
            if waits and not worker.cluster.fenced:
                assert known >= taken[running.task_id], (
                    f"{running.spec} on {worker} waits for its reader, who has taken {taken[running.task_id]} items; it was "
                    f"told of {known}"
                )


def overlooked(cluster: Cluster) -> list[Wait]:
    """Return the waits that have no verdict although nothing happens any more, drivers at the end of their program left out."""
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
