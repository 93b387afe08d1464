"""Names and addresses of this machine, and the growth of its cluster."""

from __future__ import annotations

import os
import socket

from skate.client.runtime_context import node_ip_address
from skate.client.state.cluster_queries import can_grow as can_grow


def get_node_ip_address(address: str | None = None) -> str:
    """Return the IP address of this node.

    Args:
        address: "host:port" of an external machine; without a running node, the result is the address that this
            machine would use to reach it. Nothing is sent.
    """
    this_node: str = node_ip_address()
    if address is None:
        return this_node
    host, _, port = address.rpartition(":")
    try:
        port_number = int(port)
    except ValueError:
        raise ValueError(f'address must be "host:port", not {address!r}') from None
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((host, port_number))
        except OSError:
            return this_node
        return str(probe.getsockname()[0])


def get_node_instance_id() -> str:
    """Return the cloud's name for this machine: the environment variable RAY_CLOUD_INSTANCE_ID, or ""."""
    return os.environ.get("RAY_CLOUD_INSTANCE_ID", "")
