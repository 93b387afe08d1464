"""The watch of a process, which updates its table by long polling of the controller."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any

import skate
from skate.serve import context
from skate.serve.identity import CONTROLLER_NAME, NAMESPACE
from skate.serve.routing.router import Router, retry_thread
from skate.serve.routing.table import Key, Table


class Watch:
    """One process's view of the published table."""

    def __init__(self, controller: Any) -> None:
        self.controller = controller
        self.table = Table()
        self.routers: dict[Key, Router] = {}
        self.closed = False
        here = context.current_replica()
        #: The controller knows the name of a replica's watch, and drops it with the replica.
        self.name = os.urandom(8).hex() if here is None else here.replica_tag
        self.node = skate.get_runtime_context().get_node_id()
        self._callbacks: list[Callable[[Table], None]] = []
        self._lock = threading.Lock()
        self._reported: dict[Key, int] = {}
        retry_thread.report = self._report_waiting
        self._listen()

    def router(self, key: Key) -> Router:
        """Return the router of a deployment."""
        found = self.routers.get(key)
        if found is None:
            with self._lock:
                found = self.routers.setdefault(key, Router(key, self.node))
            if self.table.version >= 0:
                found.update(self.table.deployments.get(key))
        return found

    def on_change(self, call: Callable[[Table], None]) -> None:
        """Call a function with each new table, in the thread that receives it."""
        self._callbacks.append(call)
        if self.table.version >= 0:
            call(self.table)

    def waiting(self) -> dict[Key, int]:
        """Return the number of requests that wait in this process, by deployment."""
        return {key: len(router.waiting) for key, router in list(self.routers.items()) if router.waiting}

    def _report_waiting(self) -> None:
        waiting = self.waiting()
        if waiting != self._reported and not self.closed:
            self._reported = waiting
            try:
                self.controller.demand.remote(self.name, waiting)
            except Exception:  # the session has ended, which may raise anything
                return

    def apply(self, table: Table) -> None:
        """Apply a new table."""
        with self._lock:
            if table.version <= self.table.version and table.version >= 0:
                return
            self.table = table
        for key, router in list(self.routers.items()):
            router.update(table.deployments.get(key))
        for call in list(self._callbacks):
            call(table)

    def close(self) -> None:
        """Close all routers, because Serve has ended."""
        self.closed = True
        for router in list(self.routers.values()):
            router.update(None)

    def _listen(self) -> None:
        try:
            ref = self.controller.listen.remote(self.name, self.table.version, self.waiting())
            future = ref.future()
        except Exception:  # the session has ended, which may raise anything
            self.close()
            return
        future.add_done_callback(self._on_answer)

    def _on_answer(self, future: Any) -> None:
        error = future.exception()
        if error is not None:
            self.close()
            return
        answer = future.result()
        if answer == "remember":
            self.controller.remember.remote(self.table)
        elif answer is not None:
            self.apply(answer)
        self._listen()


_watch: Watch | None = None
_making = threading.Lock()


def controller() -> Any:
    """Return the controller's handle. Raises ValueError if Serve is not running."""
    return skate.get_actor(CONTROLLER_NAME, namespace=NAMESPACE)


def current() -> Watch:
    """Return the watch of this process, created on first use. Raises ValueError if Serve is not running."""
    global _watch
    watch = _watch
    if watch is None or watch.closed:
        with _making:
            if _watch is None or _watch.closed:
                _watch = Watch(controller())
            watch = _watch
    return watch


def adopt(made: Any) -> Watch:
    """Return the watch of a controller, replacing the watch of another one."""
    global _watch
    with _making:
        if _watch is None or _watch.closed or _watch.controller != made:
            if _watch is not None:
                _watch.close()
            _watch = Watch(made)
        return _watch


def drop() -> None:
    """Drop the watch after a shutdown of Serve."""
    global _watch
    with _making:
        if _watch is not None:
            _watch.close()
        _watch = None
