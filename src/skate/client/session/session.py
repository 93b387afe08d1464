"""The one session of a process: init, shutdown, and the implicit start on first use."""

from __future__ import annotations

import atexit
import os
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from skate.client.object import object_ref

if TYPE_CHECKING:
    from skate.client.process import Process


class Cluster(Protocol):
    """A cluster whose head this process hosts."""

    def join(self, settings: dict[str, Any]) -> Host:
        """Become its driver."""


class Host(Protocol):
    """The host of a session: a node in this process, a connection to one elsewhere, local mode, or a cluster for tests."""

    @property
    def process(self) -> Process | None:
        """The driver's process, or None while there is no driver."""

    @property
    def address(self) -> str:
        """The address at which other programs reach the node; empty if they cannot."""

    def preload(self, name: str) -> bool:
        """Import a module for future workers to share; return False, and do nothing, if another process starts them."""

    def forked(self) -> None:
        """Detach a forked child; everything belongs to the parent."""

    def shutdown(self) -> None:
        """End the session."""


_process: Process | None = None
_host: Host | None = None
#: The engine lock of the last session that ended, or ends now: a thread that holds it runs a callback of that session.
_lock_of_ended: Any = None
_starting = threading.Lock()
_in_worker = False
#: How many sessions of this process have ended, and in `_tied.ended` how many had when the thread was tied to its session.
_ended = 0
_tied = threading.local()
#: Called by `shutdown` while the session still runs, so that libraries can end their work.
endings: list[Callable[[], None]] = []
#: Clusters whose head this process hosts, by address: see `cluster_utils`.
clusters: dict[str, Cluster] = {}


def current() -> Process:
    """Return the process of the running session; start one if there is none."""
    process = _process
    if process is None:
        if _in_worker:
            raise RuntimeError("this worker is leaving: its node has closed the session")
        if _lock_of_ended is not None and _lock_of_ended._is_owned():
            # `shutdown` waits for this lock, and the start of another session would wait for `shutdown`.
            raise RuntimeError("the session of this callback has ended")
        if getattr(_tied, "ended", _ended) != _ended:
            raise RuntimeError("the session that this thread worked for has ended")
        init()
        process = _process
        assert process is not None
    return process


def current_or_none() -> Process | None:
    """Return the process of the running session, or None."""
    return _process


def tied_to_session(call: Callable[[], None]) -> Callable[[], None]:
    """Return a function for a new thread that calls `call`, tied to the present session, or to the first one that starts.

    Once that session has ended, what the thread does raises RuntimeError instead of starting another session. For threads
    that a library has started, and which may still be at work when the program calls `shutdown`.
    """
    ended = _ended

    def run() -> None:
        _tied.ended = ended
        call()

    return run


def attach(process: Process | None, host: Host | None = None, in_worker: bool = False) -> None:
    """Set the process and the host of the session."""
    global _process, _host, _in_worker
    _process = process
    _host = host
    _in_worker = in_worker
    object_ref.set_current(process)


def host() -> Host | None:
    """Return the host of the session, or None."""
    return _host


def preload(module: str) -> bool:
    """Preload a module for future workers, in the background.

    Returns False, and does nothing, without a session, and if the node is in another process.
    """
    return _host is not None and _host.preload(module)


def address_of_node() -> str:
    """Return the address of the node; empty if it is hosted in this process."""
    return "" if _host is None else _host.address


def is_initialized() -> bool:
    """Return True while a session runs in this process."""
    return _process is not None


def is_client() -> bool:
    """Return True while a session runs that was started as the client of a cluster, with ray://."""
    return bool(getattr(_host, "is_client", False))


def init(address: str | None = None, **settings: Any) -> RayContext:
    """Start a session: a node hosted in this process, with workers started as they are needed.

    Args are checked by `node.settings.Settings`; see the public `skate.init` for what they are. Raises RuntimeError if
    one runs already (unless `ignore_reinit_error`), ValueError for invalid settings.
    """
    with _starting:
        if _process is not None and _process.lost:
            _end_lost()
        if _process is not None:
            if settings.get("ignore_reinit_error"):
                return RayContext(_process)
            raise RuntimeError(
                "Maybe you called ray.init twice by accident? A session runs already: call shutdown() first, or pass "
                "ignore_reinit_error=True"
            )
        hook = settings.pop("_tracing_startup_hook", None)
        if hook is not None and not settings.get("local_mode"):
            _start_tracing(hook)
        try:
            started = _started(address, settings)
        except BaseException:  # also Ctrl-C
            _stop_tracing()
            raise
        process = started.process
        assert process is not None
        attach(process, started)
        return RayContext(process)


def _started(address: str | None, settings: dict[str, Any]) -> Host:
    if settings.get("local_mode"):
        return _start_local(address, settings)
    joined = _join(address, settings)
    if joined is None:
        return _start_node(address, settings)
    hook = getattr(joined, "tracing_hook", "")
    if hook and not settings.get("_looks") and "SKATE_TRACING_HOOK" not in os.environ:
        try:
            _start_tracing(hook)
        except BaseException:  # the hook may raise anything
            joined.shutdown()
            raise
    return joined


def _start_tracing(hook: Any) -> None:
    from skate.client import tracing  # only sessions that are traced

    tracing.start(hook)


def _stop_tracing(process: Process | None = None) -> None:
    if "SKATE_TRACING_HOOK" in os.environ:
        from skate.client import tracing  # as above

        tracing.stop(process)


def _start_local(address: str | None, settings: dict[str, Any]) -> Host:
    from skate.node.settings import Settings  # needed once, and not by workers
    from skate.worker.local.local_mode import LocalHost  # only local mode runs tasks in the driver

    return LocalHost(Settings.of(address, settings))


def _join(address: str | None, settings: dict[str, Any]) -> Host | None:
    """Become a driver of an existing node if `address` or the environment names one; otherwise return None."""
    if address is not None and not isinstance(address, str):
        raise TypeError(f"address must be a string, got {address!r}")
    from skate.node.driver import address as places  # needed once, and not by workers

    wanted = places.given_address(address)
    if not wanted and not clusters and places.cluster_of(places.directory()):
        wanted = "auto"  # programs for a cluster of machines name no address
    if wanted == "auto" and len(clusters) == 1:
        wanted = next(iter(clusters))
    cluster = clusters.get(wanted or "")
    if cluster is not None:
        return cluster.join(settings)
    if wanted and wanted.startswith("dask://"):
        return _join_dask(wanted, settings)
    if wanted and (wanted == "auto" or wanted.startswith(("/", "skate://")) or places.cluster_in(wanted)):
        from skate.client.session import attached  # only such drivers need it

        return attached.join(wanted, settings)
    return None


def _join_dask(address: str, settings: dict[str, Any]) -> Host:
    try:
        from skate.client.session import dask_session  # with Dask.distributed, which takes half a second
    except ImportError as error:
        raise ImportError(
            f"{address} needs Dask.distributed ({error}): pip install 'skate[cluster]'"
        ) from error
    attachment = dask_session.connect(address, settings)
    # Before Dask closes its clients: functions that are registered later run earlier.
    atexit.unregister(shutdown)
    atexit.register(shutdown, _exiting_interpreter=True)
    return attachment


def _end_lost() -> None:
    """Clean up a session whose node has ended, so that another one may begin."""
    host = _host
    attach(None)
    if host is not None:
        host.shutdown()


def _start_node(address: str | None, settings: dict[str, Any]) -> Host:
    from skate.node.worker import (
        zygote_spawn,  # before all else: the zygote starts up while the rest is loaded
    )

    zygote_spawn.start_early()
    try:
        from skate.client.session.embedded import join  # with all of the node behind it
        from skate.node.host import NodeHost  # the one place where the client starts a node
        from skate.node.settings import Settings

        checked = Settings.of(address, settings)
        return NodeHost.start(checked, lambda host: join(host, checked.namespace, checked.runtime_env))
    finally:
        zygote_spawn.discard()


def shutdown(*, wait_for_processes: bool = False, _exiting_interpreter: bool = False) -> None:
    """End the session, with its workers, actors and values, and release its memory. No-op if none runs."""
    global _ended, _lock_of_ended
    with _starting:
        host, process = _host, _process
        if process is None or _in_worker:
            return
        _ended += 1
        process.exiting = _exiting_interpreter
        # Neither Ctrl-C nor a library that fails to end its work may leave a session that nobody can end.
        try:
            _stop_tracing(process)
            for end in endings:
                end()
        finally:
            _lock_of_ended = process.lock
            try:
                attach(None)
            finally:
                if host is not None:
                    host.shutdown()


class RayContext(Mapping[str, Any]):
    """The result of `init`: facts about the session, and a context manager that shuts it down.

    `address_info` has the facts by name. Reading them from the context itself (`context["address"]`) is deprecated and warns.
    """

    dashboard_url = ""
    ray_commit = ""

    def __init__(self, process: Process) -> None:
        from skate.version import RAY_VERSION  # not read in workers

        self.python_version = sys.version.split()[0]  # as in `platform`, whose import takes 2 ms
        self.ray_version = RAY_VERSION
        self.protocol_version = None
        address = address_of_node()
        self.address_info = {
            "node_ip_address": process.node_ip_address,
            "node_id": process.node_id.hex(),
            "address": address or "local",
            "gcs_address": address,
            "redis_address": None,
            "session_dir": os.path.dirname(address) if address.startswith("/") else "",
            "object_store_address": "",
            "raylet_socket_name": "",
            "webui_url": "",
            "metrics_export_port": -1,
            "dashboard_agent_listen_port": -1,
        }

    def __getitem__(self, name: str) -> Any:
        if name == "webui_url":
            self._warn(
                f'Accessing values through ctx["{name}"] is deprecated; use ctx.dashboard_url',
                DeprecationWarning,
            )
            return self.dashboard_url
        self._warn(
            f'Accessing values through ctx["{name}"] is deprecated; use ctx.address_info["{name}"]',
            DeprecationWarning,
        )
        return self.address_info[name]

    def __iter__(self) -> Iterator[str]:
        self._warn("iter(ctx) is deprecated; use iter(ctx.address_info)", UserWarning)
        return iter(self.address_info)

    def __len__(self) -> int:
        self._warn("len(ctx) is deprecated; use len(ctx.address_info)", UserWarning)
        return len(self.address_info)

    # A context stands for one session, so compare by identity.
    __hash__ = object.__hash__
    __eq__ = object.__eq__

    @staticmethod
    def _warn(text: str, kind: type[Warning]) -> None:
        warnings.warn(text, kind, stacklevel=3)

    def __enter__(self) -> RayContext:
        return self

    def __exit__(self, *exc: object) -> None:
        self.disconnect()

    def disconnect(self) -> None:
        """End the session."""
        shutdown()

    def __repr__(self) -> str:
        return (
            f"RayContext(dashboard_url={self.dashboard_url!r}, python_version={self.python_version!r}, "
            f"ray_version={self.ray_version!r}, ray_commit={self.ray_commit!r})"
        )


def _after_fork() -> None:
    """Detach a forked child, which has none of the threads and must not act for its parent, from the session."""
    global _starting
    _starting = threading.Lock()
    process, host = _process, _host
    if process is None or _in_worker:
        return
    process.closed = True
    process.give_up()
    # A thread that does not exist in the child may have held the lock.
    process.lock = process.pump.lock = threading.RLock()
    if host is not None:
        host.forked()
    attach(None)


os.register_at_fork(after_in_child=_after_fork)
atexit.register(shutdown, _exiting_interpreter=True)
