"""The network of a standing node: where a head listens, or which cluster a node joins, and with which token.

Only a node that has a network imports Dask.distributed, in its own process.
"""

from __future__ import annotations

import contextlib
import os
import resource
import socket
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from skate.node.driver.address import CLUSTER_NAME, TOKEN_NAME, cluster_of, find
from skate.node.registry.store import ETCD_SCHEME
from skate.protocol.values import LOOPBACK

if TYPE_CHECKING:
    from skate.fabric.fabric import Fabric
    from skate.node.registry.head_state import HeadState
    from skate.wire.pump import Pump

JOIN_SECONDS = 30.0
#: How long nodes continue when most of them do not hear a head that has no durable state, so that it does not come back.
GRACE_SECONDS = 2.0
#: How long nodes continue without a head that has durable state.
STAY_SECONDS = 60.0
#: A route to the world, of which nothing is sent: the address of this machine on it is the one that others see.
SOMEWHERE = ("203.0.113.1", 9)
#: Open files of a node in a large cluster: the head needs two connections for each member, and the usual limit is 1024.
DESCRIPTORS_MAX = 1 << 16


@dataclass(frozen=True)
class Network:
    """The network of one node. The head itself leaves `head` empty; it listens on `port`, or on any free port if that is 0.

    `head` may be several addresses with commas between them, one of which leads to the head. A node `behind_head` connects to no
    other node than the head. A head keeps its `state` in a folder, or at an address of etcd; while it is not there, other nodes
    continue for `grace` seconds. A `standby` waits until no other head has that state.
    """

    ip: str
    port: int = 0
    head: str = ""
    token_file: str | None = None
    timeout: float = JOIN_SECONDS
    behind_head: bool = False
    state: str = ""
    grace: float = STAY_SECONDS
    standby: bool = False


@dataclass(frozen=True)
class Joined:
    """A node in its network: its number there, where the cluster is found, and the file of the token.

    Call `begin` once the fabric has a handler.
    """

    fabric: Fabric
    number: int
    address: str
    token_file: str
    begin: Callable[[], None]


def connect(
    network: Network,
    folder: str,
    pump: Pump,
    info: dict[str, Any],
    leave: Callable[[str], None],
    state: HeadState | None = None,
) -> Joined:
    """Listen as a head, or join the cluster.

    Calls `leave` with the reason when this node has to end. Raises ConnectionError and ValueError with the cause.
    """
    try:
        # with Dask.distributed, which takes half a second
        from skate.fabric.dask import carrier
        from skate.fabric.directory import Timing
        from skate.fabric.lanes import BEHIND_HEAD, CLIENT_PATIENCE_SECONDS
        from skate.fabric.mesh_head import MeshHead, Predecessor
        from skate.fabric.mesh_member import GRACE, MeshMember
    except ImportError as error:
        raise ValueError(
            f"a cluster of several machines needs Dask.distributed ({error}): pip install 'skate[cluster]'"
        ) from error
    token, token_file = _token(network, folder)
    _allow_descriptors()
    if network.head:
        if not token:
            raise ValueError(
                f"the cluster at {network.head} requires its token: name its file with --token-file, or set "
                "SKATE_AUTH_TOKEN_PATH; the head prints the path when it starts"
            )
        name = info["node_id"].hex()
        member = carrier.MemberCarrier(pump, name, network.head, network.ip, token=token)
        member.start(network.timeout)
        timing = Timing(grace=GRACE_SECONDS)
        if network.behind_head:
            info = {**info, BEHIND_HEAD: True}
            timing = replace(timing, silence=timing.silence + CLIENT_PATIENCE_SECONDS)
        joining = MeshMember(pump, info, member, timing=timing)
        joining.on_end = lambda: leave(joining.reason)
        try:
            _check_python(joining.greet(network.timeout).get("python"))
        except BaseException:  # also Ctrl-C while it waits for the head
            joining.close()
            raise
        return Joined(joining, joining.number, network.head, token_file, joining.begin)
    listening = carrier.HeadCarrier(pump, network.ip, network.port, token=token)
    listening.start()
    config: dict[str, Any] = {"python": list(sys.version_info[:2])}
    predecessor = None
    if state is not None:
        config[GRACE] = network.grace
        if state.epoch > 1:
            predecessor = Predecessor(state.epoch - 1, state.newest, state.members.__contains__)
    head = MeshHead(pump, info, config, listening, predecessor=predecessor)
    head.on_end = lambda: leave("a later head has taken its place")
    if state is not None:
        head.numbered = state.numbered
    return Joined(head, head.number, listening.address.rpartition("://")[2], token_file, _nothing)


def check_standby(network: Network, folder: str) -> None:
    """Raise ValueError for what a standby would lack once it is the head; also loads what it needs then."""
    from skate.fabric.dask import carrier as carrier  # with Dask.distributed, which takes half a second
    from skate.fabric.dask.connection import check_free

    check_free(network.ip, network.port)
    _token(network, folder)


def _allow_descriptors() -> None:
    """Raise the limit of open files as far as the system allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = DESCRIPTORS_MAX if hard == resource.RLIM_INFINITY else min(hard, DESCRIPTORS_MAX)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(OSError, ValueError):  # then opening the next file fails with its own error
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _token(network: Network, folder: str) -> tuple[str, str]:
    """Return the token of the cluster and its file, as far as they are known; a head without one makes it."""
    from skate.fabric.dask.credentials import find_token, make_token  # with Dask.distributed

    token = find_token(network.token_file)
    if token is not None or network.head:
        return token or "", network.token_file or ""
    if network.state.startswith(ETCD_SCHEME):
        raise ValueError(
            "a head with --state-store may be started on another machine, so its token must not be on this one alone: make one "
            "with `skate get-auth-token --generate`, or name its file with --token-file"
        )
    path = os.path.join(network.state or folder, TOKEN_NAME)
    if network.state and os.path.exists(path):
        return find_token(path) or "", path
    return make_token(path), path


def _check_python(theirs: list[int] | None) -> None:
    """Raise ValueError if the head has another minor version of Python: functions of one do not run on another."""
    ours = list(sys.version_info[:2])
    if theirs and list(theirs) != ours and not os.environ.get("RAY_IGNORE_VERSION_MISMATCH"):
        raise ValueError(
            f"the head runs Python {'.'.join(map(str, theirs))}, and this node Python {'.'.join(map(str, ours))}: use the same "
            "minor version, or set RAY_IGNORE_VERSION_MISMATCH=1"
        )


def _nothing() -> None:
    """No-op: members come to a head later."""


def record(folder: str, joined: Joined) -> None:
    """Write to the node's folder which cluster it belongs to, for programs that ask for this cluster."""
    fd = os.open(
        os.path.join(folder, CLUSTER_NAME), os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600
    )
    with open(fd, "w") as file:
        file.write(joined.address)


# -- addresses


def node_of(address: str, folder: str) -> str | None:
    """Return the socket of this machine's node of a cluster, or None if there is none."""
    return find(folder) if same(cluster_of(folder), address) else None


def same(one: str, other: str) -> bool:
    """Return True if two addresses have a port in common, as far as this machine knows the names."""
    if one == other:
        return True
    pairs = [(a.rpartition(":"), b.rpartition(":")) for a in one.split(",") for b in other.split(",")]
    return any(a[2] == b[2] and bool(_numeric(a[0]) & _numeric(b[0])) for a, b in pairs)


def _numeric(host: str) -> set[str]:
    try:
        return {str(found[4][0]) for found in socket.getaddrinfo(host.strip("[]"), None)}
    except OSError:
        return {host}


def own_address(towards: str = "") -> str:
    """Return the address of this machine on the way to a host (the first of several), or to the world."""
    host = towards.partition(",")[0].rpartition(":")[0].strip("[]")
    try:
        family, _, _, _, place = (
            socket.getaddrinfo(host, 9, type=socket.SOCK_DGRAM)[0]
            if host
            else (socket.AF_INET, 0, 0, "", SOMEWHERE)
        )
        with socket.socket(family, socket.SOCK_DGRAM) as sock:
            sock.connect(place)  # sends nothing
            return str(sock.getsockname()[0])
    except OSError:
        return LOOPBACK
