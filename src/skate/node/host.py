"""The shell of a node: carries out the effects of the core as messages, forks, kills and memory operations.

Everything that touches the core runs under the engine lock of the process. The driver calls directly; messages from workers
come in through the pump.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from skate import stack_dumps
from skate.core.guard import Guard
from skate.core.node import SHELL, NodeCore, admit_client
from skate.node.driver import address
from skate.node.driver.session_socket import SessionSocket
from skate.node.job_views import JobViews
from skate.node.memory.arena_file import ArenaFile
from skate.node.memory.arena_trimmer import ArenaTrimmer
from skate.node.memory.memory_monitor import NEVER, MemoryMonitor
from skate.node.memory.overflow_file import OverflowFile, overflow_files
from skate.node.node_facts import options_of
from skate.node.output.job_output import GuestOutput, JobOutput
from skate.node.peer_links import PeerLinks
from skate.node.sigint import SigintHandler
from skate.node.spill.disk import Disk
from skate.node.worker.launcher import PYTHON, zygote_config
from skate.node.worker.stopped_processes import stopped_among
from skate.node.worker.worker_pool import WorkerPool
from skate.protocol import effects
from skate.protocol import shell_events as se
from skate.protocol.effects import ShellEffect
from skate.wire.memory import Memory
from skate.wire.pump import Pump
from skate.wire.status import STATUS_TABLE_BYTES, StatusTable

if TYPE_CHECKING:
    from skate.node.driver.drivers import Drivers
    from skate.node.registry.head_state import HeadState
    from skate.node.settings import Settings
    from skate.wire.channel import Channel

DRIVER = 0
#: The settings that zygotes on other nodes of this machine copy from the one here.
INHERITED = ("sys_path", "stdlib", "environ", "cwd", "preload", "main", "namespace", "job")


class _Nobody(dict[int, Any]):
    """The handlers of an absent driver."""

    def __missing__(self, word: int) -> Any:
        return _ignore


def _ignore(message: tuple[Any, ...]) -> None:
    """Ignore a message."""


NOBODY = _Nobody()
QUEUED_MAX = 24
#: Soon after which a driver that computes lets the node handle a message between its workers.
SWITCH_SECONDS = 0.0002
# A copy into the arena takes much less; do not wait for a thread that a debugger has stopped.
WRITERS_SECONDS = 5.0


class NodeHost:
    """Owns the core, the arena, the workers and the pump of an embedded node."""

    __slots__ = (
        "_applying", "_tick_at", "arena", "control_c", "cooling", "core", "dirty", "disk", "drivers", "event_log", "facts",
        "guard", "guests", "job", "jobs", "leaving", "lock", "mapping", "monitor", "neighbours", "node_id", "output",
        "overflow", "pool", "process", "pump", "session_socket", "settings", "snapshot", "state", "status_table", "workers",
        "zygote_config",
    )  # fmt: skip

    def __init__(
        self,
        settings: Settings,
        pump: Pump,
        control_c: SigintHandler,
        head: bool = True,
        state: HeadState | None = None,
    ) -> None:
        self.settings = settings
        self.control_c = control_c
        self.pump = pump
        self.lock = pump.lock
        status_table_at = (
            -(-settings.object_store_memory // mmap.ALLOCATIONGRANULARITY) * mmap.ALLOCATIONGRANULARITY
        )
        outside = _outside(settings)
        files = overflow_files(settings.spill)
        self.overflow = files[0]  # which can hold values permanently
        self.arena, self.mapping = _memory(status_table_at, settings.object_store_memory, files)
        self.disk = Disk(self.arena, files, outside, self.mapping, self.answered)
        self.status_table = StatusTable(self.arena.fd, status_table_at)
        node_id = self.node_id = os.urandom(28)
        self.state = state  # the durable state of a head that has some
        options = options_of(settings, node_id, state)
        self.facts = options["facts"]
        options["disk_bytes"] = [file.capacity for file in files]
        options["spill_outside"] = outside is not None
        self.core = NodeCore(settings.totals(head), **options)
        self.event_log = _event_log(self.core, node_id)
        self.snapshot = self.core.snapshot
        self.guard = Guard(self.core)
        self.cooling = ArenaTrimmer(self.snapshot, self.tell, self.arena, self.mapping.forget)
        self.job = os.urandom(2).rjust(4, b"\0")
        self.process: Any = None  # the tables of the driver in this process, if there is one
        self.neighbours: PeerLinks | None = None  # links to other nodes, once there are any
        #: The server of drivers in other processes, and the channels to them by client id.
        self.drivers: Drivers | None = None
        self.guests: dict[int, Channel] = {}
        self.leaving = False
        self.session_socket: SessionSocket | None = None  # through which others join a node in its driver
        self.output: JobOutput = GuestOutput(self, settings.log_to_driver)
        self.jobs: JobViews = JobViews(self)
        self.dirty: set[int] = set()
        self.monitor = MemoryMonitor(self)
        self.pool: WorkerPool = WorkerPool(self)
        self.workers = self.pool.workers
        self.zygote_config = zygote_config(
            sys.path,
            settings.preload,
            {"namespace": settings.namespace, "node_id": node_id, "job": self.job, "arena_bytes": settings.object_store_memory,
             "status_table_at": status_table_at, "node_ip_address": settings.node_ip_address,
             "overflow_bytes": self.overflow.capacity,
             "spilled_outside": None if outside is None else [outside.uri, outside.folder],
             "main": _main_path()},
        )  # fmt: skip
        self._applying = False
        self._tick_at: float | None = None
        self.pump.before_poll = self._before_poll
        self.pump.switch_seconds = SWITCH_SECONDS

    @classmethod
    def start(cls, settings: Settings, join: Callable[[NodeHost], Any] | None = None) -> NodeHost:
        """Start a node. `join`, if given, makes this process its driver, under the lock."""
        pump = Pump(threading.RLock(), "loop", open_now=False)
        control_c = SigintHandler(pump)
        host = None
        # Hold the lock from the beginning, so that Ctrl-C cannot leave a half-started node behind.
        with pump.lock:
            control_c.take()
            try:
                pump.open()
                host = cls(settings, pump, control_c)
                if join is not None:
                    join(host)
                if os.environ.get("SKATE_ATTACH") != "0":
                    host.session_socket = SessionSocket(host)
                host.pool.launcher_for(PYTHON)
                pump.start()
                stack_dumps.offer()
            except BaseException:
                if host is None:
                    control_c.give_back()
                    pump.close()
                else:
                    host.shutdown()
                raise
        return host

    # -- drivers

    @property
    def address(self) -> str:
        """The address at which other programs of this user join the node; empty if they cannot."""
        return "" if self.session_socket is None else address.to_address(self.session_socket.path)

    def preload(self, name: str) -> bool:
        """Import a module once, in the background, for future workers to share; return True."""
        with self.lock:
            self.pool.preload(name)
        return True

    def detach_driver(self) -> None:
        """Detach the driver from the node, which stays, and end everything that was only for this driver."""
        with self.control_c.put_off():
            with self.lock:
                if self._end_process():
                    self.tell(se.DriverLeft(se.DRIVER_LEFT, DRIVER))
                    self.flush()
                    self.pump.wake_ready()
                # Ids contain the job id, so the next driver needs another job.
                self.job = (int.from_bytes(self.job, "big") + 1).to_bytes(4, "big")
            self.control_c.give_back()

    def _end_process(self) -> bool:
        process, self.process = self.process, None
        if process is None:
            return False
        process.end()
        return True

    # -- other nodes

    def info(self) -> dict[str, Any]:
        """Return the facts about this node that other nodes learn."""
        return {
            "node_id": self.node_id,
            "total": self.snapshot.total,
            "labels": self.snapshot.labels,
            "facts": self.facts,
        }

    @property
    def config(self) -> dict[str, Any]:
        """Return the settings of workers that other nodes adopt."""
        return {name: self.zygote_config[name] for name in INHERITED if name in self.zygote_config}

    def take_over(self, config: dict[str, Any]) -> None:
        """Adopt the head's settings for workers of this node."""
        self.zygote_config.update(config)

    def leave(self) -> None:
        """Request the end of this node; the code that runs its loop ends it."""
        self.leaving = True
        self.pump.wake_ready()

    def apply_if_idle(self) -> None:
        """Carry out the core's effects, unless `apply` is running already."""
        if not self._applying:
            self.apply()

    # -- effects

    def step(self, cid: int, message: tuple[Any, ...]) -> None:
        """Pass a message to the core and carry out its effects. The lock is held."""
        self.core.step(cid, message, time.monotonic())
        if not self._applying:
            self.apply()

    def tell(self, event: se.ShellEvent) -> None:
        """Pass an event of this shell to the core and carry out its effects. The lock is held."""
        self.core.step(SHELL, event, time.monotonic())
        if not self._applying:
            self.apply()

    def admit(self, event: se.JoinEvent) -> int:
        """Pass a join event to the core and return the client's id. The caller applies the effects."""
        return admit_client(self.core, event, time.monotonic())

    def apply(self) -> None:
        """Carry out the core's effects, and any that follow from them."""
        self._applying = True
        effects = self.core.effects
        handlers = NOBODY if self.process is None else self.process.handlers
        workers = self.workers
        dirty = self.dirty
        try:
            for cid, message in effects:  # also those that are added on the way
                if cid == DRIVER:
                    handlers[message[0]](message)
                elif cid == SHELL:
                    self._act(message)
                else:
                    worker = workers.get(cid)
                    if worker is not None:
                        worker.channel.push(message)
                        dirty.add(cid)
                    elif cid in self.guests:
                        self.guests[cid].push(message)
                        dirty.add(cid)
                    elif self.neighbours is not None and self.neighbours.send(cid, message):
                        dirty.add(cid)
        finally:
            effects.clear()
            self._applying = False

    def flush_soon(self) -> None:
        """Write queued messages to workers, or let the queues of busy ones grow a little first."""
        workers, backlog = self.workers, self.snapshot.backlog
        for cid in self.dirty:
            worker = workers.get(cid)
            count = QUEUED_MAX if worker is None else len(worker.channel.queued)
            if count >= QUEUED_MAX or backlog(cid) <= count:
                self.flush()
                return

    def flush(self) -> None:
        """Write queued messages to workers."""
        dirty = self.dirty
        if not dirty:
            return
        if self.monitor.asleep:
            self.monitor.wake()
        # Clear in place: an outer `apply` adds to the same set.
        waiting = tuple(dirty)
        dirty.clear()
        for cid in waiting:
            worker = self.workers.get(cid)
            if worker is None:
                if cid in self.guests:
                    if not self.guests[cid].flush():
                        self.pump.want_write(self.guests[cid].fd, True)
                elif self.neighbours is not None:
                    self.neighbours.flush()
                continue
            channel = worker.channel
            if not channel.flush():
                self.pump.want_write(channel.fd, True)

    def _act(self, effect: ShellEffect) -> None:
        """Carry out an effect of the core that is not a message."""
        match effect:
            case effects.Spawn(cid, environment):
                self.pool.spawn(cid, environment)
            case effects.KillWorker(cid):
                self.pool.kill(cid)
            case effects.EndTask(cid, sequence):
                self.pool.end_task(cid, sequence)
            case effects.FindStopped(cid, number, any_id):
                pids = tuple(sorted(stopped_among(self.pool.by_pid)))
                self.tell(se.StoppedFound(se.STOPPED_FOUND, cid, number, any_id, pids))
            case effects.AdoptJob():
                self.jobs.adopt(effect)
            case effects.CloseJob() | effects.PrintOutput() | effects.PauseOutput() | effects.EndOutput():
                self._output_of_job(effect)
            case effects.ReadOutput(key, where):
                self.tell(se.OutputRead(se.OUTPUT_READ, key, self.output.rows(where)))
            case effects.ForgetJob(job):
                self.pool.end_job(job)
                self.jobs.forget(job)
            case effects.Pull():
                if self.neighbours is not None:
                    self.neighbours.pull(effect)
            case effects.ServeReads(oid):
                if self.neighbours is not None:
                    self.neighbours.serve_reads(oid)
            case (
                effects.Spill()
                | effects.Restore()
                | effects.Reserve()
                | effects.FreeBlocks()
                | effects.DropCopy()
            ):
                self.disk.act(effect)
            case effects.ReleasePages(ranges):
                self.cooling.release(ranges)
            case effects.AppendRecords():
                assert self.state is not None, "only a core that was given records appends some"
                self.state.append(effect)
            case effects.LeaveCluster(reason):
                if self.neighbours is not None:
                    self.neighbours.farewell = reason
                self.leave()
            case effects.Admitted():
                raise AssertionError("the answer to a client that joins is for `admit`")
            case _:
                effects.unknown_effect(effect)

    def _output_of_job(self, effect: ShellEffect) -> None:
        """Carry out an effect of the core on the output of a job, which may go to a driver at another node."""
        match effect:
            case effects.CloseJob(job, home, nodes):
                if home:
                    self.jobs.close(job, home)
                elif self.drivers is not None:
                    self.drivers.closing(job, nodes)
            case effects.PrintOutput(job, is_error, text):
                self.output.received(job, is_error, text)
            case effects.PauseOutput(job, paused):
                if paused:
                    self.output.pause(job)
                else:
                    self.output.resume(job)
            case effects.EndOutput(job, cid) if self.drivers is not None:
                self.drivers.silent_at(cid, job)

    def answered(self, answers: Sequence[se.ShellEvent]) -> None:
        """Pass answers of a disk to the core; called in the threads of that."""
        with self.lock:
            if self.pump.closed:
                return
            now = time.monotonic()
            for answer in answers:
                self.core.step(SHELL, answer, now)
            self.apply_if_idle()
            self.flush()
            self.pump.wake_ready()

    # -- time

    def _before_poll(self) -> float | None:
        process = self.process
        if process is not None and (process.pending_releases or process.unhandled):
            process.tidy()
        if self.dirty:
            self.flush()
        now = time.monotonic()
        wanted = self.cooling.turn(now)
        if self.monitor.due <= now:
            self.monitor.look(now)
        if self.pool.ending:
            wanted = min(self.pool.see_ended(now), NEVER if wanted is None else wanted)
        if self.snapshot.watchful or self.neighbours is not None:
            again = self.core.tick(time.monotonic())
            if wanted is None or (again is not None and again < wanted):
                wanted = again
        if self.core.effects and not self._applying:
            self.apply()
            self.pump.wake_ready()  # this thread, too, may wait for one of them
        if self.dirty:
            self.flush()
        # Check this last, because a flush may have woken the monitor.
        due = self.monitor.due
        if due != NEVER and (wanted is None or due - now < wanted):
            wanted = max(0.0, due - now)
        return wanted

    # -- the end

    def forked(self) -> None:
        """Release a forked child's copies; the node belongs to the parent."""
        self.pool.forked()
        if self.session_socket is not None:
            self.session_socket.forked()
        if self.drivers is not None:
            self.drivers.forked()
        if self.neighbours is not None:
            self.neighbours.forked()
        self.control_c.give_back()

    def shutdown(self) -> None:
        """End the node: kill workers, stop threads, and release memory and descriptors."""
        with self.control_c.put_off():
            with self.lock:
                self._end_process()
                if self.neighbours is not None:
                    self.neighbours.fabric.close()
                if self.session_socket is not None:
                    self.session_socket.close()
                if self.drivers is not None:
                    self.drivers.close()
                self.pump.wake_ready()
                self.pool.environments.close()
            self._await_writers()
            self.pump.close()
            if self.state is not None:
                self.state.close()
            self.disk.close()
            self.pool.close()
            self.output.close()
            self.status_table.close()
            self.mapping.close()
            self.arena.close()
            if self.event_log is not None:
                self.event_log.close()
            stack_dumps.withdraw()
            self.control_c.give_back()

    def _await_writers(self) -> None:
        """Wait for threads that copy into the arena, before its descriptor is closed."""
        deadline = time.monotonic() + WRITERS_SECONDS
        while self.pump.unlocked_threads and time.monotonic() < deadline:
            time.sleep(0.001)


def _memory(status_table_at: int, arena_bytes: int, files: list[OverflowFile]) -> tuple[ArenaFile, Memory]:
    """Create the arena, with the status table behind it, and its mapping in this process; close every file on failure."""
    with contextlib.ExitStack() as opened:
        for file in files:
            opened.callback(file.close)
        arena = ArenaFile(status_table_at + STATUS_TABLE_BYTES)
        opened.callback(arena.close)
        mapping = Memory(arena.fd, arena_bytes, files[0].fd, files[0].capacity)
        opened.pop_all()
    return arena, mapping


def _outside(settings: Settings) -> Any:
    """Return the external storage for spilled values, if one is configured."""
    if not settings.spill.uri:
        return None
    from skate.node.spill.external_storage import ExternalStorage  # imports fsspec

    return ExternalStorage(settings.spill.uri)


def _event_log(core: NodeCore, node_id: bytes) -> Any:
    """Return the event log of this node, if SKATE_EVENT_LOG names a folder."""
    folder = os.environ.get("SKATE_EVENT_LOG")
    if not folder:
        return None
    from skate.node.event_log_file import EventLogFile  # only for bug reports

    return EventLogFile(core, folder, node_id)


def _main_path() -> str | None:
    main = sys.modules.get("__main__")
    return getattr(main, "__file__", None)
