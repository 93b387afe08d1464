"""Handlers of the shell's events: each passes its event to the component that it concerns."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from skate.core.memory.memory_pressure import Gauge
from skate.protocol import messages as m
from skate.protocol import shell_events as se
from skate.protocol.effects import Admitted, ReleasePages

if TYPE_CHECKING:
    from skate.core.parts import Parts

Handler = Callable[[int, Any], None]
#: Client id of the driver in the node's own process.
IN_PROCESS_DRIVER = 0


def of_the_shell(table: dict[int, Callable[[Any], None]]) -> dict[int, Handler]:
    """Wrap event handlers so that they accept events only from the shell."""

    def wrapped(handler: Callable[[Any], None]) -> Handler:
        def handle(cid: int, message: tuple[Any, ...]) -> None:
            if cid != m.SHELL:
                raise KeyError(message[0])  # as for an unknown message
            handler(message)

        return handle

    return {tag: wrapped(handler) for tag, handler in table.items()}


class ShellHandlers:
    """Takes the events of `protocol/shell_events.py`."""

    def __init__(self, core: Parts) -> None:
        self._core = core

    def table(self) -> dict[int, Callable[[Any], None]]:
        """Return the handler of each event, by its number."""
        return {
            se.DRIVER_JOINED: self.driver_joined,
            se.DRIVER_LEFT: self.driver_left,
            se.JOB_BEGUN: self.job_begun,
            se.JOB_ENDED: self.job_ended,
            se.VIEWS_CLOSED: self.views_closed,
            se.WORKER_STARTED: self.worker_started,
            se.WORKER_LOST: self.worker_lost,
            se.STOPPED_FOUND: self.stopped_found,
            se.OUTPUT_READ: self.output_read,
            se.PEER_JOINED: self.peer_joined,
            se.PEER_LEFT: self.peer_left,
            se.PULL_DONE: self.pull_done,
            se.REMOTE_READ: self.remote_read,
            se.SPILL_DONE: self.spill_done,
            se.RESTORE_DONE: self.restore_done,
            se.RESERVE_DONE: self.reserve_done,
            se.MEMORY_READING: self.memory_reading,
            se.MEMORY_IDLE: self.memory_idle,
            se.TRIM_DUE: self.trim_due,
            se.RECORDS_STORED: self.records_stored,
            se.RECORDS_REFUSED: self.records_refused,
            se.STOP_WANTED: self.stop_wanted,
        }

    # -- clients

    def _admit(self) -> int:
        """Number a client, and answer with its id."""
        core = self._core
        cid = core.next_cid
        core.next_cid += 1
        core.out.shell(Admitted(cid))
        return cid

    def driver_joined(self, message: se.DriverJoined) -> None:
        """DRIVER_JOINED: add a program."""
        _, job, namespace, in_process = message
        if in_process:
            self._core.out.shell(Admitted(IN_PROCESS_DRIVER))
        self._core.connect(IN_PROCESS_DRIVER if in_process else self._admit(), job, namespace, True)

    def driver_left(self, message: se.DriverLeft) -> None:
        """DRIVER_LEFT: end everything that belongs to a program."""
        _, cid = message
        self._core.disconnect(cid)

    def job_begun(self, message: se.JobBegun) -> None:
        """JOB_BEGUN: add a job and its driver."""
        _, job, namespace, view, local_view = message
        self._core.jobs.begin(self._admit(), job, namespace, (view, local_view))

    def job_ended(self, message: se.JobEnded) -> None:
        """JOB_ENDED: end everything that belongs to a driver, except values in view."""
        _, cid, viewed, reason, pid, left = message
        core = self._core
        if pid:
            core.ended_workers.record_driver(cid, pid, left)
        if viewed:
            viewer = self._admit()
            for oid in viewed:
                record = core.objects.get(oid)
                if record is not None:
                    core.objects.grant(record, viewer)
        core.jobs.end(cid, reason)

    def views_closed(self, message: se.ViewsClosed) -> None:
        """VIEWS_CLOSED: release the values that were in view."""
        _, cid = message
        self._core.lifetimes.forget_client(cid)

    # -- worker processes

    def worker_started(self, message: se.WorkerStarted) -> None:
        """WORKER_STARTED: note the process of a worker."""
        _, cid, pid = message
        worker = self._core.scheduler.workers.get(cid)
        if worker is not None:
            worker.pid = pid

    def worker_lost(self, message: se.WorkerLost) -> None:
        """WORKER_LOST: record how it ended; its tasks then run elsewhere or fail."""
        _, cid, reason, begun, beyond, error, details, oom_peak = message
        core = self._core
        worker = core.scheduler.workers.get(cid)
        if worker is not None:
            worker.beyond = frozenset(beyond)
            worker.details = details
            if error is not None:
                worker.kill_reason = error
            if oom_peak >= 0:
                worker.kill_reason = core.memory_pressure.killed_by_kernel(worker, oom_peak)
        core.disconnect(cid, begun, reason)

    def stopped_found(self, message: se.StoppedFound) -> None:
        """STOPPED_FOUND: answer a query why something waits."""
        _, cid, number, any_id, pids = message
        self._core.wait_explainer.looked(cid, number, any_id, frozenset(pids), self._core.clock.now)

    def output_read(self, message: se.OutputRead) -> None:
        """OUTPUT_READ: add the output of workers to a survey."""
        _, key, rows = message
        self._core.surveys.output_read(key, rows)

    # -- other nodes

    def peer_joined(self, message: se.PeerJoined) -> None:
        """PEER_JOINED: add another node."""
        _, info = message
        self._core.cluster.join(self._admit(), info, self._core.clock.now)

    def peer_left(self, message: se.PeerLeft) -> None:
        """PEER_LEFT: remove another node."""
        _, cid, reason = message
        self._core.cluster.left(cid, reason, self._core.clock.now)

    def pull_done(self, message: se.PullDone) -> None:
        """PULL_DONE: a value from another node is in memory, or is not available."""
        _, offset, success = message
        self._core.remote_objects.pulled(offset, success)

    def remote_read(self, message: se.RemoteRead) -> None:
        """REMOTE_READ: keep a value in memory while another node reads it, or bring it back first."""
        _, oid = message
        core = self._core
        if oid in core.spill_manager.spilled:
            core.lifetimes.fetch(m.SHELL, m.Fetch(m.FETCH, oid))
        else:
            core.spill_manager.reading(oid)

    # -- the disk

    def spill_done(self, message: se.SpillDone) -> None:
        """SPILL_DONE: a copy is on disk, or there was no room for it."""
        _, number, success = message
        self._core.spill_manager.spilled_to(number, success)

    def restore_done(self, message: se.RestoreDone) -> None:
        """RESTORE_DONE: a value is in memory again, or cannot be read."""
        _, number, problem = message
        self._core.spill_manager.restored(number, problem)

    def reserve_done(self, message: se.ReserveDone) -> None:
        """RESERVE_DONE: blocks of the overflow file are allocated, or cannot be."""
        _, number, problem = message
        self._core.admission.reserved(number, problem)

    # -- memory

    def memory_reading(self, message: se.MemoryReading) -> None:
        """MEMORY_READING: hold tasks back or kill a worker if memory is short."""
        _, use, limit, source, resident, others = message
        core = self._core
        core.memory_pressure.look(Gauge(use, limit, source), resident, list(others), core.clock.now)

    def memory_idle(self, message: se.MemoryIdle) -> None:
        """MEMORY_IDLE: stop holding tasks back."""
        self._core.memory_pressure.relax()

    # -- the registry

    def records_stored(self, message: se.RecordsStored) -> None:
        """RECORDS_STORED: continue with what waited for records."""
        _, number = message
        self._core.log.stored(number)

    def records_refused(self, message: se.RecordsRefused) -> None:
        """RECORDS_REFUSED: give up what waited for records."""
        _, number, problem = message
        self._core.log.refused(number, problem)

    # -- the end

    def stop_wanted(self, message: se.StopWanted) -> None:
        """STOP_WANTED: leave the cluster when nothing runs here any more."""
        _, seconds = message
        self._core.drains.stop(seconds)

    def trim_due(self, message: se.TrimDue) -> None:
        """TRIM_DUE: choose the arena memory to return to the system."""
        _, limit = message
        ranges = self._core.allocator.arena.cold_ranges(limit=limit)
        if ranges:
            self._core.out.shell(ReleasePages(tuple(ranges)))
