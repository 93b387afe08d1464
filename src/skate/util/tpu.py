"""Arithmetic and facts of TPU slices. Slices of several hosts are not scheduled here."""

from __future__ import annotations

import math
import os
from typing import Any, NoReturn

import skate
from skate.util.state import list_nodes

VERSIONS = ("v2", "v3", "v4", "v5p", "v5litepod", "v6e", "v7x")
#: Versions with up to eight chips per host; the others have four.
_EIGHT_IN_A_HOST = ("v5litepod", "v6e")
_SLICE_LABEL = "ray.io/tpu-slice-name"
_TOPOLOGY_LABEL = "ray.io/tpu-topology"


def get_tpu_version_from_type(accelerator_type: str) -> str:
    """Return the version in a name such as "TPU-V6E": "v6e". Raises ValueError for a name that is not a TPU's."""
    version = accelerator_type.lower().removeprefix("tpu-")
    if version not in VERSIONS:
        raise ValueError(
            f"Invalid accelerator_type: {accelerator_type}. Must be one of {list(VERSIONS)} or start with 'TPU-' followed by "
            "one of them."
        )
    return version


def get_current_pod_name() -> str | None:
    """Return the name of this machine's pod, from TPU_NAME; None without a pod."""
    return os.environ.get("TPU_NAME") or None


def get_current_pod_worker_count() -> int | None:
    """Return the number of hosts in this machine's pod, from TPU_WORKER_HOSTNAMES; None without a pod."""
    hosts = os.environ.get("TPU_WORKER_HOSTNAMES")
    return len(hosts.split(",")) if hosts else None


def get_num_tpu_chips_on_node() -> int:
    """Return the number of TPU chips of this machine."""
    try:
        return sum(name.startswith("accel") for name in os.listdir("/dev"))
    except OSError:
        return 0


def _chips_of_host(topology: str, version: str) -> int:
    chips = math.prod(int(each) for each in topology.lower().split("x"))
    most = 8 if version in _EIGHT_IN_A_HOST and chips == 8 else 4
    return min(chips, most)


def get_tpu_worker_resources(
    topology: str,
    accelerator_type: str,
    resources_per_worker: dict[str, float] | None = None,
    num_slices: int = 1,
    chips_per_vm: int | None = None,
    tpu_resource_per_chip: int | None = None,
) -> tuple[int, dict[str, float]]:
    """Return the number of workers that fill slices, and the resources of each.

    Args:
        topology: chips in each direction, such as "4x4".
        accelerator_type: the TPU, such as "TPU-V6E".
        resources_per_worker: the resources of a worker; a whole host if it names no TPUs.
        num_slices: the number of slices.
        chips_per_vm: the chips of a host, if not the usual number.
        tpu_resource_per_chip: the number of TPUs per chip; 1 by default.

    Raises ValueError if the chips cannot be divided evenly.
    """
    version = get_tpu_version_from_type(accelerator_type)
    factor = tpu_resource_per_chip or 1
    total = math.prod(int(each) for each in topology.lower().split("x")) * factor * num_slices
    wanted = dict(resources_per_worker or {})
    wanted.setdefault("CPU", 1)
    each_tpu = wanted.setdefault("TPU", (chips_per_vm or _chips_of_host(topology, version)) * factor)
    if each_tpu <= 0:
        raise ValueError(f"a worker of a TPU slice must request TPUs, got {each_tpu}")
    if total % each_tpu:
        raise ValueError(
            f"Total TPU resources ({total}) not divisible by TPUs requested per worker ({each_tpu})."
        )
    return int(total // each_tpu), wanted


def get_tpu_num_slices_for_workers(
    topology: str | None,
    accelerator_type: str | None,
    num_workers: int,
    resources_per_worker: dict[str, float] | None = None,
    tpu_resource_per_chip: int | None = None,
) -> int:
    """Return the number of slices that a number of workers needs; 1 without slices."""
    if not topology or not accelerator_type:
        return 1
    in_one, _ = get_tpu_worker_resources(
        topology, accelerator_type, resources_per_worker, 1, None, tpu_resource_per_chip
    )
    return max(1, math.ceil(num_workers / in_one))


def get_tpu_coordinator_env_vars(
    coordinator_address: str, num_slices: int, slice_id: int, coordinator_port: str = "8081"
) -> dict[str, str]:
    """Return the environment variables for the rendezvous of programs on several slices."""
    return {
        "MEGASCALE_COORDINATOR_ADDRESS": coordinator_address,
        "MEGASCALE_PORT": coordinator_port,
        "MEGASCALE_NUM_SLICES": str(num_slices),
        "MEGASCALE_SLICE_ID": str(slice_id),
    }


def get_tpu_slice_name_from_node(node: dict[str, Any]) -> str | None:
    """Return the slice of a node, given as an entry of `ray.nodes()`, or None."""
    name: str | None = node.get("Labels", {}).get(_SLICE_LABEL)
    return name


def get_tpu_nodes_for_slice(
    slice_name: str, nodes: list[dict[str, Any]] | None = None
) -> list[dict[str, Any]]:
    """Return the living nodes of a slice, among the given ones or all."""
    return [
        each
        for each in (skate.nodes() if nodes is None else nodes)
        if each.get("Alive") and get_tpu_slice_name_from_node(each) == slice_name
    ]


def get_num_tpu_slices(topology: str, accelerator_type: str, tpu_resource_per_chip: int | None = None) -> int:
    """Return how many slices of a topology the session's nodes form."""
    get_tpu_version_from_type(accelerator_type)
    found = {
        each.labels.get(_SLICE_LABEL)
        for each in list_nodes(limit=10_000)
        if each.state == "ALIVE" and each.labels.get(_TOPOLOGY_LABEL) == topology
    }
    return len(found - {None})


def get_num_ready_tpu_slices(
    topology: str, accelerator_type: str, tpu_resource_per_chip: int | None = None
) -> int:
    """Return the same number: every node in the session is ready."""
    return get_num_tpu_slices(topology, accelerator_type, tpu_resource_per_chip)


def init_jax_profiler(port: int | None = None) -> int:
    """Start JAX's profiler in this process, at a port of its choice if none is given; returns the port."""
    from skate.installed import require  # the error, if JAX is missing

    profiler = require("jax.profiler", "init_jax_profiler()", "jax")
    if port is None:
        import socket  # imported only if used

        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = int(probe.getsockname()[1])
    profiler.start_server(port)
    return port


class _OfSeveralHosts:
    """Base of unsupported classes for slices of several hosts."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _refuse(type(self).__name__)


class SlicePlacementGroup(_OfSeveralHosts):
    """Raise NotImplementedError: slices of several hosts need a cluster of several machines."""


class SubslicePlacementGroup(_OfSeveralHosts):
    """Raise NotImplementedError: slices of several hosts are not supported."""


def slice_placement_group(topology: str, accelerator_version: str, **kwargs: Any) -> NoReturn:
    """Raise NotImplementedError: slices of several hosts are not supported."""
    _refuse("slice_placement_group")


def subslice_placement_group(subslice_topology: str, accelerator_version: str, **kwargs: Any) -> NoReturn:
    """Raise NotImplementedError: slices of several hosts are not supported."""
    _refuse("subslice_placement_group")


def run_on_slice(fn: Any, *args: Any, **kwargs: Any) -> NoReturn:
    """Raise NotImplementedError: slices of several hosts are not supported."""
    _refuse("run_on_slice")


def dispatch(*args: Any, **kwargs: Any) -> NoReturn:
    """Raise NotImplementedError: slices of several hosts are not supported."""
    _refuse("dispatch")


def _refuse(what: str) -> NoReturn:
    raise NotImplementedError(
        f"ray.util.tpu.{what} places work on all hosts of a TPU slice, but a session here has only its own "
        'machine; request its chips with resources={"TPU": 4}'
    )
