"""Runtime environments of workers, prepared in threads so that the node's loop is not blocked."""

from __future__ import annotations

import functools
import json
import os
import socket
import threading
from typing import TYPE_CHECKING, Any

from skate.protocol.fields import Death
from skate.wire.limits import start_thread

if TYPE_CHECKING:
    from pathlib import Path

    from skate.node.package_transfers import PackageTransfers
    from skate.node.worker.worker_pool import WorkerPool
    from skate.node.worker.worker_process import WorkerProcess


class Environments:
    """Prepares environments before workers start in them, and remembers those that are ready."""

    def __init__(self, pool: WorkerPool) -> None:
        self._pool = pool
        self._prepared: list[Any] = []
        self._cancelled = threading.Event()
        #: Folders with packages that have come over HTTP.
        self.stores: list[Path] = []

    def prepare(self, worker: WorkerProcess, theirs: socket.socket, text: str) -> None:
        """Start a worker once its environment is ready. The lock is held."""
        env = json.loads(text)
        if set(env) <= {"env_vars"} and "${" not in text:
            # There is nothing to install or expand, so no thread is needed.
            self._start(worker, theirs, _Plain(env.get("env_vars", {})))
            return
        work = functools.partial(self._prepare_in_thread, worker, theirs, text, env)
        start_thread(work, "skate-environment", " that prepares its runtime environment")

    def _prepare_in_thread(
        self, worker: WorkerProcess, theirs: socket.socket, text: str, env: dict[str, Any]
    ) -> None:
        from skate.runtime_env.prepare import prepare  # only programs with such environments need it

        failure = ""
        prepared: Any = None
        try:
            fetch_package = self._packages().fetcher(worker.job)
            prepared = prepare(env, cancelled=self._cancelled, fetch_package=fetch_package)
        except Exception as error:  # installers fail in many ways; the task gets the message
            failure = getattr(error, "error_message", None) or str(error) or type(error).__name__
        with self._pool.host.lock:
            if prepared is not None:
                self._prepared.append(prepared)
            if self._cancelled.is_set():
                theirs.close()
                return
            if failure:
                theirs.close()
                self._fail(worker, f"{self._place()}{failure}")
                return
            self._start(worker, theirs, prepared)

    def _packages(self) -> PackageTransfers:
        """Return the source of packages that are not in the cache of this node."""
        from skate.node.package_transfers import PackageTransfers  # as above

        host = self._pool.host
        if host.neighbours is not None:
            return host.neighbours.packages
        return PackageTransfers(None, host.pump, {}, self.stores)

    def _place(self) -> str:
        """Return what says which node has failed, if there are several machines."""
        host = self._pool.host
        if not host.zygote_config.get("packages"):
            return ""
        return f"on the node at {host.settings.node_ip_address} ({os.uname().nodename}), "

    def _fail(self, worker: WorkerProcess, failure: str) -> None:
        pool = self._pool
        worker.error = Death("RuntimeEnvSetupError", {"message": failure})
        pool.lost(worker, failure)
        if pool.pump.watched:
            pool.pump.wake_ready()

    def _start(self, worker: WorkerProcess, theirs: socket.socket, prepared: Any) -> None:
        hook = prepared.setup_hook
        request = {
            "env_vars": prepared.env_vars,
            "path_front": prepared.sys_path,
            "directory": prepared.cwd,
            "setup_hook": hook,
        }
        self._pool.fork(worker, theirs, prepared.argv or self._pool.python_for(worker.job), request)

    def close(self) -> None:
        """Abandon the preparation of environments, because the node ends."""
        self._cancelled.set()
        if self._prepared:
            from skate.runtime_env.prepare import release  # already loaded

            for prepared in self._prepared:
                release(prepared)
            self._prepared.clear()


class _Plain:
    """An environment that consists only of variables."""

    sys_path: tuple[str, ...] = ()
    cwd = None
    argv = None
    setup_hook = None

    def __init__(self, env_vars: dict[str, str]) -> None:
        self.env_vars = env_vars
