"""The main function of a worker process."""

from __future__ import annotations

import _signal
import atexit
import os
import signal
import socket
import sys
import threading
import traceback
from functools import partial
from typing import Any

from skate import stack_dumps
from skate.client.process import Process
from skate.client.session import session
from skate.client.session.link import Throttle
from skate.protocol import messages as m
from skate.protocol.version import VERSION
from skate.wire.channel import Channel, ChannelClosed
from skate.wire.limits import HOOK_FAILED
from skate.wire.memory import Memory
from skate.wire.pump import Pump
from skate.wire.status import SLOT_BYTES, Slot
from skate.worker import environment, forked_children, output
from skate.worker.context import WorkerContext
from skate.worker.executor import Executor

#: `signal.signal` without the wrapper that makes enum members of numbers, which costs a new worker 45 page faults.
set_signal_handler: Any = _signal.signal
_DEFAULT = int(signal.SIG_DFL)
STARTS_WORK = frozenset({m.SUBMIT, m.CALL})


class WorkerLink:
    """A worker's connection to its node: the channel, with notices about waiting tasks.

    A call is sent immediately if no other call is pending. Otherwise calls are sent together, within a few milliseconds.
    """

    def __init__(self, channel: Channel, context: WorkerContext, process: Process) -> None:
        self._channel = channel
        self._context = context
        self._pending = process.pending
        self._pump = process.pump
        self.throttle = Throttle(channel, process.pump).wait
        self.executor: Executor

    def send(self, message: tuple[Any, ...]) -> None:
        """Queue a message, and make sure that a call is sent soon."""
        channel = self._channel
        channel.push(message)
        if channel.hurried or message[0] not in STARTS_WORK:
            return
        if len(self._pending) < 2:
            channel.flush()
        else:
            channel.hurried = True
            self._pump.soon()

    def flush(self) -> None:
        """Write queued data."""
        self._channel.flush()

    def block(self, lasting: bool = True) -> bool:
        """Tell the node that the current task waits, which releases its CPU and returns queued tasks.

        An actor without a CPU has neither: the node is told only of a wait that lasts, for those who look at its state.
        """
        context = self._context
        task_id = context.task_id()
        if not task_id or (not lasting and context.actor_id and not context.resources().get("CPU")):
            self._channel.flush()
            return False
        self.executor.block(task_id, threading.current_thread() is threading.main_thread())
        self._channel.flush()
        return True

    def unblock(self) -> None:
        """Tell the node that the thread no longer waits."""
        self.executor.unblock(self._context.task_id())


def _breakpoint(*args: Any, **options: Any) -> Any:
    """Wait for `skate debug` in `breakpoint()`, because a worker has no terminal; PYTHONBREAKPOINT overrides it."""
    if "PYTHONBREAKPOINT" in os.environ:
        return sys.__breakpointhook__(*args, **options)
    from skate.client import debugger  # takes 20 ms, and only debugging needs it

    debugger.set_trace(sys._getframe(1))
    return None


class Worker:
    """A worker, with all parts that depend neither on its request nor on its process.

    The process that forks workers makes it once, so that no worker has to: to run a function for the first time, a forked
    process copies the pages of the function, its code and its results.
    """

    def __init__(self, memory_fds: list[int], config: dict[str, Any]) -> None:
        self.pump = pump = Pump(threading.RLock(), "loop", open_now=False)
        self.process = process = Process(0, pump, config["node_id"], config["job"])
        process.namespace = config["namespace"]
        process.node_id = config["node_id"]
        process.node_ip_address = config["node_ip_address"]
        process.realm = config.get("realm", "")
        process.packages = config.get("packages", "")
        self.arena_fd, overflow_fd = [*memory_fds, -1][:2]
        self._memory = partial(
            Memory, self.arena_fd, config["arena_bytes"], overflow_fd, config["overflow_bytes"]
        )
        self.context = context = WorkerContext(process)
        process.context = context
        self.channel = channel = Channel()
        self.link = link = WorkerLink(channel, context, process)
        process.connect(link)
        self.executor = link.executor = Executor(process, channel, context)
        pump.before_poll = partial(_before_poll, process, channel)
        # One thread may answer while another polls, and a task may begin before everything is written.
        channel.on_backlog = lambda: pump.want_write(channel.fd, True)
        output.current_task[0] = context.current
        sys.breakpointhook = _breakpoint

    def open(self) -> None:
        """Open what each worker has for itself. Call it once, in a fresh worker."""
        set_signal_handler(signal.SIGCHLD, _DEFAULT)
        output.take_over()
        self.pump.open_in_child()
        self.executor.title.open()
        stack_dumps.offer()

    def map_memory(self) -> None:
        """Map the memory for large values, unless that was done. Raises LimitReached if the system refuses it."""
        if self.process.mapping is None:
            self.process.mapping = self._memory()

    def serve(self, channel_fd: int, config: dict[str, Any]) -> int:
        """Serve the node at the other end of `channel_fd` until it ends this process; return the exit code."""
        environ = config.get("env_vars") or {}
        os.environ.update(environ)
        environment.remember(environ, "OMP_NUM_THREADS" in config.get("set_by_user", ()))
        if "PYTHONPATH" in environ:  # the interpreter runs already, and reads it no more
            first = [each for each in environ["PYTHONPATH"].split(os.pathsep) if each]
            sys.path[:] = [*first, *(each for each in sys.path if each not in first)]
        sys.path[:0] = config.get("path_front") or []
        if config.get("directory"):
            os.chdir(config["directory"])
            sys.path.insert(0, config["directory"])
        _import_compat()
        pump, process, channel, executor = self.pump, self.process, self.channel, self.executor
        channel.connect(socket.socket(fileno=channel_fd))
        process.identify(config["cid"])
        executor.take_slot(Slot(self.arena_fd, config["status_table_at"] + config["slot"] * SLOT_BYTES))
        set_signal_handler(signal.SIGINT, executor.on_interrupt)
        set_signal_handler(signal.SIGTERM, executor.departure.on_terminate)
        pump.add(channel.fd, partial(_readable, channel, process, pump))
        session.attach(process, None, in_worker=True)
        channel.push(m.Ready(m.READY, os.getpid(), VERSION))
        if config.get("setup_hook"):
            from skate.runtime_env.hooks import run as run_hook  # only environments with a setup hook need it

            try:
                run_hook(config["setup_hook"])
            except BaseException:  # user code may raise anything; the node has the lines of it
                traceback.print_exc()
                return HOOK_FAILED
        if "SKATE_LOGGING_CONFIG" in os.environ:
            from skate.client.session import job_log_config  # few programs configure it

            job_log_config.adopt()
        if "SKATE_TRACING_HOOK" in os.environ:
            from skate.worker import tracing  # only traced sessions need it

            tracing.start()
        pump.start()
        forked_children.guard(executor)
        executor.run()
        return _leave(channel, executor)


def _readable(channel: Channel, process: Process, pump: Pump, events: int) -> None:
    if events & 4:  # EPOLLOUT
        if channel.flush():
            pump.want_write(channel.fd, False)
        if not events & ~4:
            return
    try:
        messages = channel.read()
    except ChannelClosed:
        # The node is gone, so no process needs this one any more.
        os._exit(0)
    handlers = process.handlers
    for message in messages:
        handlers[message[0]](message)


def _before_poll(process: Process, channel: Channel) -> None:
    if process.pending_releases:
        process.tidy()
    if channel.queued or channel.backlog:
        channel.flush()


def _leave(channel: Channel, executor: Executor) -> int:
    """Run the exit handlers of user code, and send remaining messages; return the exit code."""
    try:
        executor.departure.farewell()
        atexit._run_exitfuncs()
    finally:
        output.flush()
        executor.process.report_metrics()
        channel.sock.setblocking(True)
        channel.flush()
    if executor.departure.by_signal:  # so that the node can name it
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTERM)
    return executor.departure.exit_code


def _import_compat() -> None:
    if os.environ.get("SKATE_COMPAT") == "1":
        from skate import compat  # only for programs that `import ray`

        compat.install()
