"""The zygote: a small, freshly started interpreter that forks the workers.

It is a new process rather than a fork of the driver, so that workers inherit no threads, locks or CUDA state. It imports the
modules that every worker needs (and those of `preload`) once, so that a worker starts in milliseconds and shares those pages.
It has one thread, and only forks, reaps and kills. When the node's end of the control socket closes, for whatever reason, it
kills all its descendants and exits. If it is killed itself, the kernel kills its workers.
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import os
import select
import signal
import socket
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import msgpack

from skate import procfs
from skate.node.worker import descendants
from skate.node.worker.exit_report import REFUSED
from skate.node.worker.spares import REQUEST_BYTES_MAX, Request, Spares
from skate.node.worker.zygote_spawn import CONTROL_FD
from skate.wire.limits import CANNOT_BEGIN, LimitReached, start_thread
from skate.wire.status import SLOT_BYTES, STATUS_SLOT

#: The unit of `ru_maxrss` in bytes.
MAXRSS_BYTES = 1 if sys.platform == "darwin" else 1024
#: How long a process may take to halt; one that waits for a disk takes longer.
HALT_SECONDS = 0.05
#: Ray's variable for the niceness of workers.
NICENESS = "RAY_worker_niceness"
#: Ray's variable for how much sooner than others workers end when memory is short, up to 1000.
OOM_SCORE = "RAY_worker_oom_score_adjustment"


class Zygote:
    """The main loop of the zygote process."""

    def __init__(self, control: socket.socket) -> None:
        self.control = control
        self.children: set[int] = set()
        #: Events that the node has not received yet.
        self.outgoing: deque[bytes] = deque()
        self.config: dict[str, Any] = {}
        self.memory_fds: list[int] = []
        self.dismissed = False  # the node has ended properly
        #: The worker that each child becomes, complete but for what it opens itself.
        self.worker: Any = None
        self.spares = Spares()

    def run(self) -> None:
        """Serve until the node goes away."""
        wake_read, wake_write = os.pipe()
        os.set_blocking(wake_read, False)
        os.set_blocking(wake_write, False)
        signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        poller = select.poll()
        poller.register(self.control.fileno(), select.POLLIN)
        poller.register(wake_read, select.POLLIN)
        descendants.adopt_orphans()
        try:
            while True:
                events = poller.poll(self.spares.poll_timeout_ms())
                if not events:
                    self.spares.idle(self.fork_spare)
                for fd, happened in events:
                    if fd == wake_read:
                        os.read(wake_read, 4096)
                        self.reap()
                        continue
                    if happened & select.POLLHUP:
                        return  # the node is gone, so its requests no longer matter
                    if happened & select.POLLOUT:
                        self.report()
                    if happened & ~select.POLLOUT and not self.serve():
                        return
                wanted = select.POLLIN | (select.POLLOUT if self.outgoing else 0)
                poller.modify(self.control.fileno(), wanted)
        finally:
            descendants.end_all(self.children | self.spares.pids())
            if not self.dismissed:
                self.clear_storage()

    def clear_storage(self) -> None:
        """Delete what a killed node has spilled to external storage."""
        uri, folder = self.config.get("spilled_outside") or ("", "")
        if not uri:
            return
        from skate.node.spill.storage import storage_of  # imports fsspec

        try:
            storage_of(uri)[0].delete_folder(folder)
        except Exception:  # a storage may raise anything: nothing was spilled, or it is unreachable
            return

    def serve(self) -> bool:
        """Process one request; return False if there will be no more."""
        try:
            data, fds, _, _ = socket.recv_fds(self.control, REQUEST_BYTES_MAX, 8)
        except ConnectionError:
            return False
        if not data:
            return False
        request = msgpack.unpackb(data, strict_map_key=False)
        verb = request["verb"]
        if verb == "fork":
            self.fork(data, request, fds)
        elif verb == "kill":
            if request["pid"] in self.children:
                with contextlib.suppress(
                    ProcessLookupError, PermissionError
                ):  # the process may now belong to another user
                    os.kill(request["pid"], request["signal"])
        elif verb == "end_task":
            if request["pid"] in self.children:
                self.end_task(request["pid"], request["slot"], request["sequence"])
        elif verb == "configure":
            self.spares.clear()
            self.config = request
            self.memory_fds = list(fds)
            self.configure()
        elif verb == "preload":
            self.spares.clear()
            with self._ending_with_the_node():
                self.preload(request["names"])
            gc.freeze()
        elif verb == "end":
            self.dismissed = True
            return False
        return True

    def end_task(self, pid: int, slot: int, sequence: int) -> None:
        """Kill a worker only if it runs this task. It is stopped during the check, so that it cannot start the next task."""
        was_halted = halted(pid)
        os.kill(pid, signal.SIGSTOP)
        deadline = time.monotonic() + HALT_SECONDS
        while not halted(pid) and time.monotonic() < deadline:
            time.sleep(0.0005)
        at = self.config["status_table_at"] + slot * SLOT_BYTES
        (begun,) = STATUS_SLOT.unpack(os.pread(self.memory_fds[0], STATUS_SLOT.size, at))
        if begun == sequence:
            os.kill(pid, signal.SIGKILL)
        elif not was_halted:
            os.kill(pid, signal.SIGCONT)

    def configure(self) -> None:
        """Adopt the driver's paths, environment and directory, and import the modules that workers need."""
        sys.path[:] = merged_path(sys.path, self.config["sys_path"], self.config["stdlib"])
        environ = self.config["environ"]
        own = {} if not self.config.get("by_command") else set_by_command(environ)
        os.environ.clear()
        os.environ.update(environ, **own)
        niceness = os.environ.get(NICENESS, "")
        if niceness.isdigit():
            os.nice(int(niceness))
        try:
            os.chdir(self.config["cwd"])
        except OSError:
            # The driver's directory is gone, so workers stay in that of the zygote.
            pass
        if self.config["preload"]:
            with self._ending_with_the_node():
                self.preload(self.config["preload"])
        from skate.worker.main import Worker  # imported by `main`

        self.worker = Worker(self.memory_fds, self.config)
        gc.collect()
        gc.freeze()

    def preload(self, names: list[str]) -> None:
        """Import the modules named by the program or its libraries."""
        for name in names:
            try:
                __import__(name)
            # The program chooses the modules, so a failing import must not prevent workers from starting.
            except Exception as error:
                sys.stderr.write(f"skate: preload of {name!r} failed: {type(error).__name__}: {error}\n")

    @contextlib.contextmanager
    def _ending_with_the_node(self) -> Iterator[None]:
        """End immediately if the node ends inside the block: imports may take long, and block the main loop."""
        done_read, done_write = os.pipe()

        def watch() -> None:
            poller = select.poll()
            poller.register(self.control.fileno(), 0)  # report only the end
            poller.register(done_read, select.POLLIN)
            if any(fd != done_read for fd, _ in poller.poll()):
                descendants.end_all(())
                os._exit(1)

        watcher = None
        # If the system starts no more threads, the end of the node is noticed once the imports are done.
        with contextlib.suppress(LimitReached):
            watcher = start_thread(watch, "skate-watch")
        try:
            yield
        finally:
            os.write(done_write, b".")
            if watcher is not None:
                watcher.join()
            os.close(done_read)
            os.close(done_write)

    def fork(self, data: bytes, request: dict[str, Any], fds: list[int]) -> None:
        """Start a worker with `fds` as its channel, stdout and stderr."""
        pid = self.spares.take(data, fds)
        if pid:
            for fd in fds:
                os.close(fd)
        else:
            pid = self.fork_now(request, fds)
        if pid:
            self.children.add(pid)
            self.send_event({"event": "forked", "cid": request["cid"], "pid": pid})

    def fork_now(self, request: dict[str, Any], fds: list[int]) -> int:
        """Fork a worker for a request; return its pid, or 0 if the system refuses."""
        parent = os.getpid()
        try:
            pid = os.fork()
        except OSError as error:
            self.send_event({"event": "refused", "cid": request["cid"], "errno": error.errno})
            return 0
        finally:
            if os.getpid() == parent:
                for fd in fds:
                    os.close(fd)
        if pid == 0:
            become_worker(self, parent, lambda: (request, fds), False)
        return pid

    def fork_spare(self, wait: Callable[[], Request]) -> int:
        """Fork a worker that waits for its request; return its pid."""
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            become_worker(self, parent, wait, True)
        return pid

    def send_event(self, event: dict[str, Any]) -> None:
        """Report an event to the node."""
        self.outgoing.append(msgpack.packb(event))
        self.report()

    def report(self) -> None:
        """Send queued events as far as the node accepts them, without blocking: the node may itself be blocked on sending."""
        while self.outgoing:
            try:
                self.control.send(self.outgoing[0], socket.MSG_DONTWAIT)
            except BlockingIOError:
                return
            except OSError:
                # The node is gone, which the loop notices next.
                self.outgoing.clear()
                return
            self.outgoing.popleft()

    def reap(self) -> None:
        """Reap ended children, and report those that are workers."""
        while (pid := descendants.ended_child()) > 0:
            if pid in self.children:
                # Before the child is reaped, while its number cannot be reused.
                descendants.end_group(pid)
            _, status, used = os.wait4(pid, 0)
            self.spares.ended(pid)
            if pid in self.children:
                self.children.discard(pid)
                peak = used.ru_maxrss * MAXRSS_BYTES
                self.send_event({"event": "exited", "pid": pid, "status": status, "peak": peak})


def set_by_command(environ: dict[str, str]) -> dict[str, str]:
    """Return the variables that the command has set for this process, besides those it was given."""
    of_shells = ("_", "SHLVL", "PWD", "OLDPWD", "PYTHONUNBUFFERED")
    return {
        name: value
        for name, value in os.environ.items()
        if environ.get(name) != value and name not in of_shells
    }


def halted(pid: int) -> bool:
    """Return True if a process is stopped, or has ended."""
    fields = procfs.stat(pid)
    return not fields or fields[procfs.STATE] in b"TtZX"


def _volunteer() -> None:
    """Have the kernel end this process before others if the machine is short of memory: its task can run again."""
    amount = os.environ.get(OOM_SCORE, "1000")
    # Without /proc, or if a sandbox forbids it, the kernel chooses by size alone.
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write(amount)


def become_worker(zygote: Zygote, parent: int, wait: Callable[[], Request], spare: bool) -> None:
    """Run a worker in the forked child. Does not return.

    `wait` returns the request, and the descriptors of its channel, stdout and stderr. A spare worker prepares what it can before.
    """
    status = 1
    try:
        signal.set_wakeup_fd(-1)
        descendants.lead_a_group(parent)
        zygote.control.close()
        _volunteer()
        worker = zygote.worker
        if spare:
            worker.open()
            # It is tried again below, where the worker can tell the node why it fails.
            with contextlib.suppress(LimitReached):
                worker.map_memory()
        request, (channel, out, err) = wait()
        os.dup2(out, 1)
        os.dup2(err, 2)
        os.close(out)
        os.close(err)
        if not spare:
            worker.open()
        worker.map_memory()
        status = worker.serve(channel, {**zygote.config, **request})
    except LimitReached as error:
        sys.stderr.write(f"{REFUSED}{error.strerror}\n")
        status = CANNOT_BEGIN
    except BaseException:  # nothing may return into the zygote's loop
        import traceback  # the worker is lost anyway

        traceback.print_exc()
    finally:
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        except (OSError, ValueError):
            # The node no longer reads.
            pass
        os._exit(status)


def merged_path(own: list[str], drivers: list[str], stdlib: str) -> list[str]:
    """Return the import path of workers: the driver's additions in front, the interpreter's own path, the rest of the driver's.

    Packages in the virtual environment of a runtime environment therefore come before the driver's.
    """
    front = drivers[: drivers.index(stdlib)] if stdlib in drivers else drivers
    merged = dict.fromkeys(front)
    merged.update(dict.fromkeys(path for path in own if path))
    merged.update(dict.fromkeys(drivers))
    return list(merged)


def main() -> None:
    """Run the zygote process. The control socket is descriptor 63."""
    import cloudpickle  # noqa: F401  for the children: nearly every worker needs it, and it takes 15 ms

    import skate.worker.environment
    import skate.worker.main  # noqa: F401  for the children
    from skate.wire import values
    from skate.worker import output
    from skate.worker.title import locate

    locate()
    values.pickler()  # likewise

    # After a crash in C code, a worker's last lines of output contain the Python line that led to it.
    faulthandler.enable(2, all_threads=False)
    control = socket.socket(fileno=CONTROL_FD)
    os.set_inheritable(CONTROL_FD, False)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    output.prepare()
    Zygote(control).run()
