"""The facts about a node that others learn, and the options of its core."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

from skate import procfs

if TYPE_CHECKING:
    from skate.core.node_options import NodeOptions
    from skate.node.registry.head_state import HeadState
    from skate.node.settings import Settings

#: As many workers keep up with one program that submits short tasks; a machine with more CPUs may use them.
SHORT_TASK_WORKERS = 4


def options_of(settings: Settings, node_id: bytes, state: HeadState | None) -> NodeOptions:
    """Return the options of a core that follow from the settings of its session, and from the state of a head."""
    found: NodeOptions = {
        "gpus": settings.gpu_ids,
        "arena_bytes": settings.object_store_memory,
        "node_id": node_id,
        "labels": {**settings.labels, "ray.io/node-id": node_id.hex()},
        "kill_share": settings.memory_threshold,
        "facts": facts(settings.node_ip_address, settings.node_name),
        "short_task_workers": max(SHORT_TASK_WORKERS, procfs.cpu_count()),
    }
    if state is not None:
        found["records"] = state.records
    return found


def facts(node_ip_address: str, name: str = "") -> dict[str, Any]:
    """Return the facts about this node for `ray.nodes`, besides its resources."""
    return {
        "host": os.uname().nodename,
        "name": name or node_ip_address,
        "pid": os.getpid(),
        "address": node_ip_address,
        "machine": _machine(),
        "began_ms": int(time.time() * 1000),
    }


def _machine() -> str:
    """Return what is equal for all nodes of a user that see the same files."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            boot = file.read().strip()
    except OSError:
        boot = os.uname().nodename
    root = os.stat("/")
    return f"{boot}:{os.geteuid()}:{root.st_dev}:{root.st_ino}"
