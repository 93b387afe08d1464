"""The worker processes of a node: starts them, reads their messages, kills them and reports their exits.

Everything here runs under the engine lock.
"""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from skate.node.worker.descendants import end_group
from skate.node.worker.descriptors import Descriptors, socket_pair
from skate.node.worker.environments import Environments
from skate.node.worker.exit_report import could_not_begin, details, hook_failed
from skate.node.worker.launcher import PYTHON, Launcher, how_it_ended
from skate.node.worker.worker_process import WorkerProcess
from skate.protocol import shell_events as se
from skate.protocol.fields import Death
from skate.protocol.messages import DONE, SHELL
from skate.protocol.shape import is_plain_answer, shape_refusal
from skate.wire.channel import Channel, ChannelClosed
from skate.wire.limits import CANNOT_BEGIN, HOOK_FAILED, LimitReached

if TYPE_CHECKING:
    from skate.node.host import NodeHost

#: How long to wait for the last lines of a dead process, whose children may keep its output open.
LINES_SECONDS = 0.1
#: A variable of a runtime environment: modules that its workers preload, separated by commas. Unless the session has loaded
#: them, such workers get their own zygote, so that no other worker waits for the imports.
PRELOAD = "SKATE_PRELOAD"


class WorkerPool:
    """The processes that the core knows as workers, by client id."""

    def __init__(self, host: NodeHost) -> None:
        self.host = host
        self.pump = host.pump
        self.workers: dict[int, WorkerProcess] = {}
        self.by_pid: dict[int, WorkerProcess] = {}
        self.launchers: dict[str, Launcher] = {}
        self.preloaded: set[str] = set()
        self.descriptors = Descriptors()
        self.environments = Environments(self)
        #: Ended processes whose last lines are still being read, with their deadlines.
        self.ending: list[tuple[float, WorkerProcess]] = []

    # -- starting

    def launcher_for(self, python: list[str], job: str = "", preload: str = "") -> Launcher:
        """Return the zygote for an interpreter, a job (if there are several) and modules to preload; start it if necessary."""
        missing = [name for name in preload.split(",") if name and name not in self._preloaded(job)]
        key = "\0".join((job, *python, *missing))
        launcher = self.launchers.get(key)
        if launcher is None:
            config = self.host.zygote_config
            ends: tuple[int, ...] = ()
            if job:
                config, ends = self.host.jobs.config_of(job)
            if missing:
                config = {**config, "preload": [*config["preload"], *missing]}
            memory = [self.host.arena.fd, self.host.overflow.fd]
            try:
                launcher = self.launchers[key] = Launcher(python, config, memory, ends)
            finally:
                for end in ends:
                    os.close(end)
            self.pump.add(launcher.control.fileno(), lambda _: self._receive(key, launcher))
        return launcher

    def _preloaded(self, job: str) -> Sequence[str]:
        if job:
            return self.host.jobs.preloaded_of(job)
        preloaded: Sequence[str] = self.host.zygote_config["preload"]
        return preloaded

    def preload(self, name: str) -> None:
        """Import a module in the zygote, for future workers."""
        if name not in self.preloaded:
            self.preloaded.add(name)
            self.launcher_for(PYTHON).preload([name])

    def python_for(self, job: str) -> list[str]:
        """Return the interpreter of a job's workers."""
        return self.host.jobs.python_of(job) if job else PYTHON

    def end_job(self, job: str) -> None:
        """End the zygotes of an ended job."""
        for key, launcher in self.launchers.items():
            if key.partition("\0")[0] == job:
                launcher.retire()

    def spawn(self, cid: int, environment: str | None) -> None:
        """Start a worker. Messages to it wait in its socket until it reads."""
        job = self._job_of(cid)
        if job and job not in self.host.jobs:
            self._refuse(cid, f"its job {job} has ended")
            return
        try:
            ours, theirs = socket_pair()
        except OSError as error:
            self._cannot_start(cid, error)
            return
        self.descriptors.used(theirs.fileno())
        channel = Channel(ours)
        worker = WorkerProcess(cid, channel, job)
        self.workers[cid] = worker
        self.pump.add(channel.fd, partial(self._readable, worker))
        if environment is None:
            self.fork(worker, theirs, self.python_for(worker.job), {})
        else:
            try:
                self.environments.prepare(worker, theirs, environment)
            except LimitReached as error:
                theirs.close()
                self._cannot_start(cid, error)

    def _job_of(self, cid: int) -> str:
        known = self.host.snapshot.worker(cid)
        return "" if known is None else known.job

    def fork(
        self, worker: WorkerProcess, theirs: socket.socket, python: list[str], request: dict[str, Any]
    ) -> None:
        """Ask the zygote to fork the process of a worker. The lock is held."""
        ends: tuple[int, ...] = ()
        try:
            self.host.output.on_end = self._output_ended
            ends = self.host.output.pipes(worker.cid, worker.job)
            worker.slot = self.host.status_table.take()
            preload = request["env_vars"].get(PRELOAD, "") if request else ""
            worker.launcher = self.launcher_for(python, worker.job, preload)
            worker.launcher.fork(
                {"cid": worker.cid, "slot": worker.slot, **request}, [theirs.fileno(), *ends]
            )
        except OSError as error:
            self._cannot_start(worker.cid, error)
        finally:
            theirs.close()
            for end in ends:
                os.close(end)

    def _cannot_start(self, cid: int, error: OSError) -> None:
        """Fail the task of a worker that cannot be started, because a retry would fail in the same way."""
        if self.host.snapshot.worker(cid) is None:
            return
        self._refuse(cid, self.descriptors.explain(error))

    def _refuse(self, cid: int, why: str) -> None:
        text = f"no worker could be started for it: {why}"
        death = Death("RaySystemError", {"message": text})
        worker = self.workers.get(cid)
        if worker is not None:
            worker.error = death
            self.lost(worker, text)
            return
        self.host.tell(se.WorkerLost(se.WORKER_LOST, cid, text, 0, (), death, "", -1))

    def kill(self, cid: int) -> None:
        """Kill a worker process."""
        worker = self.workers.get(cid)
        if worker is None:
            return
        worker.killed = True
        if worker.pid and worker.launcher is not None:
            worker.launcher.kill(worker.pid)
        else:
            worker.kill_wanted = True

    def end_task(self, cid: int, sequence: int) -> None:
        """Kill a worker process if this is the last task that it has begun."""
        worker = self.workers.get(cid)
        if worker is not None and worker.pid and worker.launcher is not None:
            worker.launcher.end_task(worker.pid, worker.slot, sequence)

    def _receive(self, key: str, launcher: Launcher) -> None:
        events = launcher.events()
        if events is None:
            self.pump.remove(launcher.control.fileno())
            self.launchers.pop(key, None)
            launcher.end()
            for orphan in [w for w in self.workers.values() if w.launcher is launcher]:
                if orphan.pid:
                    end_group(
                        orphan.pid
                    )  # the kernel has killed the worker, but not the processes it started
                self.lost(orphan, "was lost with the process that forks workers")
            return
        for event in events:
            if event["event"] == "forked":
                worker = self.workers.get(event["cid"])
                if worker is None:
                    launcher.kill(event["pid"])
                    continue
                worker.pid = event["pid"]
                self.by_pid[worker.pid] = worker
                self.host.output.started(worker.cid, worker.pid)
                self.host.tell(se.WorkerStarted(se.WORKER_STARTED, worker.cid, worker.pid))
                if worker.kill_wanted:
                    launcher.kill(worker.pid)
            elif event["event"] == "refused":
                number = event["errno"]
                self._cannot_start(event["cid"], OSError(number, os.strerror(number)))
            else:
                found = self.by_pid.pop(event["pid"], None)
                if found is not None:
                    found.status = event["status"]
                    found.peak = event["peak"]
                    found.exited = True
                    self.drain(found)
                    self._ended(found)

    def _readable(self, worker: WorkerProcess, events: int) -> None:
        channel = worker.channel
        if events & 4:  # EPOLLOUT
            if channel.flush():
                self.pump.want_write(channel.fd, False)
            if not events & ~4:
                return
        try:
            messages = channel.read()
        except ChannelClosed:
            self._closed(worker)
            return
        self._take(worker, messages)

    def _take(self, worker: WorkerProcess, messages: list[tuple[Any, ...]]) -> None:
        core = self.host.core
        now = time.monotonic()
        cid = worker.cid
        links = self.host.neighbours
        if links is not None and links.congested:
            links.overfull = None
        # With a single program, workers are trusted: check only messages that fail.
        refusal = None if self.host.drivers is None else self.host.guard.refusal
        for message in messages:
            if refusal is not None and (message[0] != DONE or not is_plain_answer(message)):
                refused = refusal(cid, message, True)
                if refused:
                    self._misbehaved(worker, refused)
                    break
            try:
                core.step(cid, message, now)
            except Exception as error:  # one worker's mistake must not end the node
                if not shape_refusal(message, True):
                    raise
                self._misbehaved(worker, f"{type(error).__name__}: {error}")
                break
        self.host.apply_if_idle()
        if self.host.dirty:
            self.host.flush()
        if links is not None and links.overfull is not None:
            links.pause(worker.channel)

    def _misbehaved(self, worker: WorkerProcess, refused: str) -> None:
        """End a worker that has sent an invalid message."""
        text = f"its worker process sent its node an invalid message: {refused}"
        worker.error = Death("RaySystemError", {"message": text})
        self._closed(worker)

    def _closed(self, worker: WorkerProcess) -> None:
        """Handle the end of a worker's channel. The zygote will report the reason."""
        if not worker.closed:
            worker.closed = True
            self.pump.remove(worker.channel.fd)
            if worker.pid and not worker.exited and not worker.killed and worker.launcher is not None:
                # A process without its channel is useless.
                worker.launcher.kill(worker.pid)

    def drain(self, worker: WorkerProcess) -> None:
        """Process the messages that a worker sent before it ended."""
        while not worker.closed:
            try:
                messages = worker.channel.read()
            except ChannelClosed:
                self._closed(worker)
                return
            if not messages:
                return
            self._take(worker, messages)

    def _ended(self, worker: WorkerProcess) -> None:
        """Record the end of a process, and report it once its last output is read, if the output is read at all."""
        known = self.host.snapshot.worker(worker.cid)
        expected = worker.killed or known is None or (known.leaving and worker.status == 0)
        if expected or not self.host.output.reading(worker.cid):
            self.lost(worker, how_it_ended(worker.status))
        else:
            self.ending.append((time.monotonic() + LINES_SECONDS, worker))

    def _output_ended(self) -> None:
        if self.ending:
            self.pump.kick()

    def see_ended(self, now: float) -> float:
        """Report ended processes whose output was read, or takes too long; return the seconds until the next check."""
        waiting, self.ending = self.ending, []
        for until, worker in waiting:
            if now < until and self.host.output.reading(worker.cid):
                self.ending.append((until, worker))
            else:
                self.lost(worker, how_it_ended(worker.status))
        return min((until - now for until, _ in self.ending), default=LINES_SECONDS)

    def lost(self, worker: WorkerProcess, reason: str) -> None:
        if self.workers.pop(worker.cid, None) is None:
            return
        if not worker.closed:
            worker.closed = True
            self.pump.remove(worker.channel.fd)
        worker.channel.close()
        self.by_pid.pop(worker.pid, None)
        begun, ahead = 0, frozenset[int]()
        now = time.monotonic()
        if worker.slot >= 0:
            begun, ahead, answers = self.host.status_table.give_back(worker.slot)
            for answer in answers:
                self.host.core.step(worker.cid, answer, now)
        lines = list(self.host.output.ended(worker.cid))
        error, status = worker.error, worker.status
        if not begun and status is not None and os.waitstatus_to_exitcode(status) == CANNOT_BEGIN:
            error = Death("RaySystemError", {"message": could_not_begin(lines)})
        elif not begun and status is not None and os.waitstatus_to_exitcode(status) == HOOK_FAILED:
            error = Death("RuntimeEnvSetupError", {"message": hook_failed(lines)})
        more = details(worker, lines, None if worker.killed else self.host.monitor.limit_now())
        beyond = tuple(sorted(ahead))
        oom_peak = worker.peak if self._killed_by_kernel(worker) else -1
        event = se.WorkerLost(se.WORKER_LOST, worker.cid, reason, begun, beyond, error, more, oom_peak)
        self.host.core.step(SHELL, event, now)
        if not self.host._applying:
            self.host.apply()
            self.host.flush()

    def _killed_by_kernel(self, worker: WorkerProcess) -> bool:
        """Return True if the kernel killed a process because it was out of memory."""
        status = worker.status
        if status is None or not os.WIFSIGNALED(status) or worker.killed:
            return False
        return os.WTERMSIG(status) == signal.SIGKILL and self.host.monitor.killed_by_kernel()

    # -- the end

    def forked(self) -> None:
        """Close the sockets in a forked child, so that they close when the parent ends."""
        for launcher in self.launchers.values():
            launcher.control.close()
        for worker in self.workers.values():
            worker.channel.close()

    def close(self) -> None:
        """Kill all workers and their zygotes, and wait for them."""
        for launcher in self.launchers.values():
            launcher.end()
        for worker in self.workers.values():
            worker.channel.close()
        self.workers.clear()
