"""Settings of a replica for vLLM's connectors, which pass the keys and values of prompts between engines."""

from __future__ import annotations

import os
import socket
import uuid
from typing import Any

import skate

_HOST, _PORT = "VLLM_NIXL_SIDE_CHANNEL_HOST", "VLLM_NIXL_SIDE_CHANNEL_PORT"


def prepared(kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return engine arguments in which this replica's connector has a name of its own.

    Engines find each other by it, so replicas with the same config must differ. NIXL also listens on a port, which is
    a free one unless the environment sets it, because several replicas share a machine.
    """
    given = kwargs.get("kv_transfer_config")
    if not isinstance(given, dict) or not given.get("kv_connector"):
        return kwargs
    if given["kv_connector"] == "NixlConnector" and _PORT not in os.environ:
        with socket.socket() as found:
            found.bind(("", 0))
            os.environ[_PORT] = str(found.getsockname()[1])
        os.environ.setdefault(_HOST, skate.util.get_node_ip_address())
    name = "-".join(filter(None, (given.get("engine_id"), uuid.uuid4().hex)))
    return {**kwargs, "kv_transfer_config": {**given, "engine_id": name}}
