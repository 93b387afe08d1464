"""Several nodes on one machine, for experiments and tests of a cluster.

Nodes talk over Unix sockets, through the head. With SKATE_CLUSTER_FABRIC=dask in the environment they talk as nodes on several
machines do: registered and connected by Dask.distributed, on loopback and without encryption.
"""

from __future__ import annotations

import atexit
import importlib.util
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import ExitStack
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import msgpack

from skate.client.session import session
from skate.client.session.embedded import join
from skate.fabric.local import HeadFabric
from skate.node.host import NodeHost
from skate.node.peer_links import PeerLinks
from skate.node.settings import Settings
from skate.node.worker import zygote_spawn
from skate.protocol.values import LOOPBACK

if TYPE_CHECKING:
    from skate.fabric.mesh_head import MeshHead

#: The default resources of a node.
DEFAULTS: dict[str, Any] = {"num_cpus": 1, "num_gpus": 0, "object_store_memory": 150 * 1024 * 1024}
#: Supported arguments of nodes. `memory` is called `_memory` elsewhere.
NODE_ARGUMENTS = frozenset(
    {
        *DEFAULTS,
        "resources",
        "labels",
        "memory",
        "node_ip_address",
        "node_name",
        "log_to_driver",
        "namespace",
        "preload",
    }
)
#: Accepted for compatibility: nodes on one machine have no ports, and need no such settings.
WITHOUT_EFFECT = frozenset(
    {
        *(
            "include_dashboard",
            "dashboard_host",
            "dashboard_port",
            "redis_port",
            "env_vars",
            "_system_config",
        ),
        *(
            "system_config",
            "min_worker_port",
            "max_worker_port",
            "enable_object_reconstruction",
            "object_spilling_directory",
        ),
        *(
            "num_workers",
            "node_manager_port",
            "raylet_socket_name",
            "plasma_store_socket_name",
        ),
    }
)
END_SECONDS = 5.0
#: The variable that chooses how nodes talk.
FABRIC = "SKATE_CLUSTER_FABRIC"


class ClusterNode:
    """One node of a cluster; `node_id` is its id in `ray.nodes()`."""

    def __init__(
        self, cluster: Cluster, node_id: str, process: subprocess.Popen[bytes] | None, address: str
    ) -> None:
        self._cluster = cluster
        self._process = process  # None for the head, which is in this process
        self._number = 0  # empty until it has joined
        self.node_id = node_id
        self.unique_id = node_id
        self.head = process is None
        self.address = cluster.address
        self.node_ip_address = address

    @property
    def pid(self) -> int:
        """The id of the node's process."""
        return os.getpid() if self._process is None else self._process.pid

    def is_alive(self) -> bool:
        """True until the node has ended or was killed."""
        return self._process is None or self._process.poll() is None

    any_processes_alive = is_alive

    def kill(self) -> None:
        """Kill the node's process immediately, as in a power failure."""
        if self._process is None:
            raise ValueError("the head runs in this process; call shutdown() of the cluster to end it")
        self._process.kill()
        self._process.wait()

    def kill_all_processes(
        self, check_alive: bool = True, allow_graceful: bool = False, wait: bool = False
    ) -> None:
        """End the node."""
        self._cluster.remove_node(self, allow_graceful=allow_graceful)

    def __repr__(self) -> str:
        return f"<ClusterNode {self.node_id[:8]} {'head' if self.head else f'pid={self.pid}'}>"


class Cluster:
    """A head node hosted in this process, and more nodes in separate processes on this machine.

    Args:
        initialize_head: True to start the head now; otherwise the first `add_node` starts it.
        connect: True to make this process the driver as well, as `connect()` does.
        head_node_args: the arguments of the head, as for `add_node`.
        shutdown_at_exit: True to end the nodes when this process ends.
    """

    def __init__(
        self,
        initialize_head: bool = False,
        connect: bool = False,
        head_node_args: dict[str, Any] | None = None,
        shutdown_at_exit: bool = True,
    ) -> None:
        self.head_node: ClusterNode | None = None
        self.worker_nodes: list[ClusterNode] = []
        self.address = ""
        self.connected = False
        self._host: NodeHost | None = None
        self._fabric: HeadFabric | MeshHead | None = None
        self._at_exit = shutdown_at_exit
        if not initialize_head and connect:
            raise RuntimeError("connect=True requires a head; pass initialize_head=True as well")
        if not initialize_head and head_node_args:
            raise RuntimeError("head_node_args require a head; pass initialize_head=True as well")
        if initialize_head:
            self.add_node(**(head_node_args or {}))
            if connect:
                self.connect()

    @property
    def gcs_address(self) -> str:
        """The address of the head."""
        return self.address

    # -- nodes

    def add_node(self, wait: bool = True, **node_args: Any) -> ClusterNode:
        """Start a node and return it; the first one is the head.

        Args:
            wait: True to wait until the node has joined.
            node_args: num_cpus (1), num_gpus (0), resources, labels, object_store_memory (150 MB), memory,
                node_ip_address.

        Raises TypeError for arguments that nodes do not have, ValueError for invalid amounts, TimeoutError if
        the node does not join.
        """
        settings = _settings(node_args)
        if self.head_node is None:
            return self._start_head(settings)
        assert self._host is not None and self._fabric is not None
        source = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        code = f"import sys; sys.path.insert(0, {source!r}); from skate.node.member import main; main()"
        given: dict[str, Any] = {"settings": asdict(settings)}
        with ExitStack() as stack:
            with self._host.lock:
                known = set(self._fabric.ids)
                if isinstance(self._fabric, HeadFabric):
                    given["socket"] = stack.enter_context(self._fabric.invite()).fileno()
                else:
                    given["head"] = self._fabric.address
            process = subprocess.Popen(
                [sys.executable, "-c", code],
                stdin=subprocess.PIPE,
                start_new_session=True,
                pass_fds=[given["socket"]] if "socket" in given else [],
            )
        assert process.stdin is not None
        with process.stdin as pipe:
            pipe.write(msgpack.packb(given))
        node = ClusterNode(self, "", process, settings.node_ip_address)
        self.worker_nodes.append(node)
        if wait:
            self._await(
                lambda: self._identify(node, known), 30.0, f"node {len(self.worker_nodes)} to join", process
            )
        else:
            threading.Thread(
                target=self._identify_later, args=(node, known), name="skate-join", daemon=True
            ).start()
        return node

    def _identify_later(self, node: ClusterNode, known: set[int]) -> None:
        self._await(lambda: self._identify(node, known), 30.0, "a node to join", node._process)

    def _identify(self, node: ClusterNode, known: set[int]) -> bool:
        assert self._fabric is not None
        for (name, number), info in list(self._fabric.infos.items()):
            if number not in known and info["facts"]["pid"] == node.pid:
                node.node_id = node.unique_id = name
                node._number = number
                return True
        return False

    def _start_head(self, settings: Settings) -> ClusterNode:
        on_dask = _is_on_dask()
        try:
            host = NodeHost.start(settings)
        finally:
            zygote_spawn.discard()
        try:
            with host.lock:
                fabric = _fabric_of(host, on_dask)
                host.neighbours = PeerLinks(host, fabric)
                host.pump.wake_background()
        except BaseException:  # also Ctrl-C: its processes run by now
            host.shutdown()
            raise
        self._host, self._fabric = host, fabric
        self.address = host.address
        session.clusters[self.address] = self
        if self._at_exit:
            atexit.register(self.shutdown)
        self.head_node = ClusterNode(self, host.node_id.hex(), None, settings.node_ip_address)
        return self.head_node

    def remove_node(self, node: ClusterNode, allow_graceful: bool = True) -> None:
        """End a node. Its work runs elsewhere or fails. With `allow_graceful`, the node itself ends its
        workers.

        Raises ValueError for the head, which ends with the cluster.
        """
        if node._process is None:
            raise ValueError(
                "the head cannot be removed, because it runs in this process and ends with the cluster; "
                "call shutdown()"
            )
        fabric, host = self._fabric, self._host
        if fabric is None or host is None:
            return
        member = (node.node_id, node._number)
        with host.lock:
            fabric.reasons[node._number] = "was removed" if allow_graceful else "has died (it was killed)"
            if allow_graceful:
                fabric.request_leave(member)
        _end(node._process, graceful=allow_graceful)
        self._await(lambda: node._number not in fabric.ids, 10.0, f"{node} to end", None)
        if node in self.worker_nodes:
            self.worker_nodes.remove(node)

    def list_all_nodes(self) -> list[ClusterNode]:
        """Return the nodes that were not removed, the head first."""
        return [*([self.head_node] if self.head_node is not None else []), *self.worker_nodes]

    def wait_for_nodes(self, timeout: float = 30) -> None:
        """Wait until all nodes have joined; raises TimeoutError after `timeout` seconds."""

        def joined() -> bool:
            return self.remaining_processes_alive() and all(node.node_id for node in self.worker_nodes)

        self._await(joined, timeout, "all nodes", None)

    def remaining_processes_alive(self) -> bool:
        """Return True if no node has ended unexpectedly."""
        return all(node.is_alive() for node in self.worker_nodes)

    @staticmethod
    def _await(ready: Any, timeout: float, what: str, process: subprocess.Popen[bytes] | None) -> None:
        deadline = time.monotonic() + timeout
        pause = threading.Event()
        while not ready():
            if process is not None and process.poll() is not None:
                raise RuntimeError(
                    f"waited for {what}, but its process has ended with code {process.returncode}"
                )
            if time.monotonic() > deadline:
                raise TimeoutError(f"waited {timeout:g} s for {what}")
            pause.wait(0.002)

    # -- drivers

    def connect(self, namespace: str | None = None) -> None:
        """Make this process the driver of the cluster."""
        session.init(self.address, namespace=namespace)
        self.connected = True

    def join(self, settings: dict[str, Any]) -> Driver:
        """Connect like `init` with this cluster's address."""
        host = self._host
        assert host is not None
        return Driver(host, Settings.joining(self.address, settings))

    def shutdown(self) -> None:
        """End all nodes, and the session if it uses them. No-op if they have already ended."""
        host, self._host = self._host, None
        if host is None:
            return
        session.clusters.pop(self.address, None)
        atexit.unregister(self.shutdown)
        current = session.host()
        if isinstance(current, Driver) and current.node is host:
            session.shutdown()
        for node in self.worker_nodes:
            assert node._process is not None and self._fabric is not None
            with host.lock:
                if node._number in self._fabric.ids:
                    self._fabric.request_leave((node.node_id, node._number))
        for node in self.worker_nodes:
            assert node._process is not None
            _end(node._process, graceful=True)
        host.shutdown()
        self.worker_nodes.clear()
        self.head_node = None
        self._fabric = None

    def __repr__(self) -> str:
        return f"<Cluster {self.address} nodes={len(self.list_all_nodes())}>"


class Driver:
    """A session of this process on a cluster that outlives it."""

    address = ""

    def __init__(self, host: NodeHost, settings: Settings) -> None:
        self.node = host
        with host.lock:
            host.control_c.take()
            self.process = join(host, settings.namespace, settings.runtime_env)
            self.output = host.output
            host.output.enabled = settings.log_to_driver

    def preload(self, name: str) -> bool:
        """Return False: workers belong to the cluster."""
        return False

    def forked(self) -> None:
        """In a forked child: leave everything to the parent."""
        self.node.forked()

    def shutdown(self) -> None:
        """End the session; the cluster continues to run."""
        self.node.detach_driver()


def _is_on_dask() -> bool:
    """Return the choice of the environment. Raises ValueError for one that there is not, or that cannot work here."""
    kind = os.environ.get(FABRIC, "")
    if kind not in ("", "dask"):
        raise ValueError(f"{FABRIC} may be 'dask', or absent for Unix sockets, got {kind!r}")
    if kind and importlib.util.find_spec("distributed") is None:
        raise ValueError(f"{FABRIC}=dask needs Dask.distributed: pip install 'skate[cluster]'")
    return bool(kind)


def _fabric_of(host: NodeHost, on_dask: bool) -> HeadFabric | MeshHead:
    if not on_dask:
        return HeadFabric(host.pump, host.info(), host.config)
    from skate.fabric.dask.carrier import HeadCarrier  # with Dask.distributed, which takes half a second
    from skate.fabric.mesh_head import MeshHead

    carrier = HeadCarrier(host.pump, LOOPBACK, 0)
    carrier.start()
    return MeshHead(host.pump, host.info(), host.config, carrier)


def _settings(given: dict[str, Any]) -> Settings:
    unknown = sorted(set(given) - NODE_ARGUMENTS - WITHOUT_EFFECT)
    if unknown:
        raise TypeError(
            f"nodes have no argument {unknown[0]!r}; the arguments are: {', '.join(sorted(NODE_ARGUMENTS))}"
        )
    known = {
        **DEFAULTS,
        **{name: value for name, value in given.items() if name in NODE_ARGUMENTS and value is not None},
    }
    memory = known.pop("memory", None)
    if memory is not None:
        known["_memory"] = memory
    known["_node_ip_address"] = known.pop("node_ip_address", None)
    known["_node_name"] = known.pop("node_name", None)
    return Settings.of("local", known)


def _end(process: subprocess.Popen[bytes], graceful: bool) -> None:
    """Wait until a node's process has ended; kill it after a timeout."""
    if graceful:
        try:
            process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            # it hangs; it is killed below
            pass
    if process.poll() is None:
        process.send_signal(signal.SIGKILL)
    process.wait()


__all__ = ["Cluster", "ClusterNode"]
