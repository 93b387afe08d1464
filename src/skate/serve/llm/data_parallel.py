"""Data parallel attention: replicas with ranks form a group, and their engines share the experts of one model."""

from __future__ import annotations

import asyncio
import socket
import time
from typing import Any

import skate
from skate.experimental import internal_kv
from skate.serve.config import AutoscalingConfig
from skate.serve.config.deployment import (
    GangPlacementStrategy,
    GangRuntimeFailurePolicy,
    GangSchedulingConfig,
)
from skate.serve.context import GangContext, get_replica_context
from skate.serve.llm.configs import LLMConfig
from skate.serve.llm.disaggregation import PDDecodeServer, PDPrefillServer
from skate.serve.llm.server import LLMServer

#: The timeout for the first rank's address, and the interval of checks for it, in seconds.
_MEET_S = 120.0
_LOOK_S = 0.1
_NAMESPACE = b"serve"


class DPServer(LLMServer):
    """A rank of a group. If one fails, Serve restarts the whole group.

    Raises RuntimeError outside of a gang.
    """

    async def __init__(self, llm_config: LLMConfig, **more: Any) -> None:  # type: ignore[misc]
        gang = get_replica_context().gang_context
        if gang is None:
            raise RuntimeError(
                "DPServer must be part of a group of replicas that start together, but this one was started "
                "alone; build it with build_dp_deployment and data_parallel_size above 1, which enables gang scheduling"
            )
        address, port = await meet(gang)
        config = llm_config.model_copy(deep=True)
        config.update_engine_kwargs(**rank_arguments(gang.rank, address, port))
        await super().__init__(config, **more)

    @classmethod
    def get_deployment_options(cls, llm_config: LLMConfig) -> dict[str, Any]:
        """Return the options of the deployment; its number of replicas counts groups."""
        return in_groups(super().get_deployment_options(llm_config), size_of(llm_config))


class DPPDPrefillServer(PDPrefillServer, DPServer):
    """A rank of a group that computes prompts."""


class DPPDDecodeServer(PDDecodeServer, DPServer):
    """A rank of a group that generates answers to prompts computed by other replicas."""


def size_of(config: LLMConfig) -> int:
    """Return the number of ranks of a group. Raises ValueError if it is invalid."""
    size = config.engine_kwargs.get("data_parallel_size", 1)
    if not isinstance(size, int) or isinstance(size, bool) or size < 1:
        raise ValueError(f"data_parallel_size of engine_kwargs must be an integer >= 1, got {size!r}")
    return size


def rank_arguments(rank: int, address: str, port: int) -> dict[str, Any]:
    """Return vLLM's arguments for a rank."""
    return {
        "data_parallel_rank": rank,
        "data_parallel_address": address,
        "data_parallel_rpc_port": port,
    }


def in_groups(options: dict[str, Any], size: int) -> dict[str, Any]:
    """Return deployment options that make each replica a group of `size`."""
    if size == 1:
        return options
    options = dict(options)
    replicas, scaling = options.get("num_replicas"), options.get("autoscaling_config")
    if replicas == "auto" or (replicas is None and scaling is not None):
        given = scaling or {}
        if not isinstance(given, dict):
            given = {name: getattr(scaling, name) for name in given.model_dump()}
        found = {**_bounds(), **given}
        for name in ("min_replicas", "max_replicas", "initial_replicas"):
            if found.get(name) is not None:
                found[name] *= size
        options["autoscaling_config"] = found
    else:
        options["num_replicas"] = size * (replicas or 1)
    options["gang_scheduling_config"] = GangSchedulingConfig(
        gang_size=size,
        gang_placement_strategy=GangPlacementStrategy.PACK,
        runtime_failure_policy=GangRuntimeFailurePolicy.RESTART_GANG,
    )
    options.pop("placement_group_strategy", None)
    return options


def _bounds() -> dict[str, Any]:
    default = AutoscalingConfig()
    return {"min_replicas": default.min_replicas, "max_replicas": default.max_replicas}


async def meet(gang: GangContext) -> tuple[str, int]:
    """Return the address and a free port of the first rank of a gang, which calls this as well.

    Raises TimeoutError if it does not within two minutes.
    """
    key = f"llm_gang_{gang.gang_id}".encode()
    if gang.rank == 0:
        with socket.socket() as found:
            found.bind(("", 0))
            port = int(found.getsockname()[1])
        address = skate.util.get_node_ip_address()
        internal_kv._internal_kv_put(key, f"{address} {port}".encode(), namespace=_NAMESPACE)
        return address, port
    until = time.monotonic() + _MEET_S
    while (published := internal_kv._internal_kv_get(key, namespace=_NAMESPACE)) is None:
        if time.monotonic() > until:
            raise TimeoutError(
                f"the first rank of the group {gang.gang_id} did not publish its address within {_MEET_S:g} s"
            )
        # Poll, because another process publishes it and there is no event to wait for.
        await asyncio.sleep(_LOOK_S)
    first, number = published.decode().split()
    return first, int(number)
