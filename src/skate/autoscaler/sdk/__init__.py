"""Requests for more machines, under Ray's names.

`skate autoscale` serves requests. In a cluster without it, a request is compared with the cluster's resources, and a warning
names the missing ones. Functions that start or stop the cluster of a file do what `skate up` and its siblings do.
"""

from __future__ import annotations

import logging
from typing import Any, NoReturn

from skate.autoscaler import view
from skate.autoscaler.sdk.clusters import (
    create_or_update_cluster,
    get_head_node_ip,
    get_worker_node_ips,
    rsync,
    run_on_cluster,
    teardown_cluster,
)
from skate.client.state import cluster_queries
from skate.resources import Resources

__all__ = [
    "bootstrap_config",
    "configure_logging",
    "create_or_update_cluster",
    "fillout_defaults",
    "get_docker_host_mount_location",
    "get_head_node_ip",
    "get_worker_node_ips",
    "register_callback_handler",
    "request_resources",
    "rsync",
    "run_on_cluster",
    "teardown_cluster",
]

Bundle = dict[str, float]
_logger = logging.getLogger("skate.autoscaler")


def request_resources(
    num_cpus: int | None = None,
    bundles: list[Bundle] | None = None,
    bundle_label_selectors: list[dict[str, str]] | None = None,
) -> None:
    """Announce the resources that the program will need, in the place of the last announcement; return at once.

    An autoscaler starts nodes for them, and keeps these until they are replaced, such as by `request_resources(num_cpus=0)`.
    Without an autoscaler, a warning names what the cluster lacks.

    Args:
        num_cpus: the total number of CPUs.
        bundles: bundles of resources, such as `[{"GPU": 1}, {"CPU": 4}]`.
        bundle_label_selectors: the required node labels of each bundle.

    Raises TypeError for arguments of other types, ValueError if the number of selectors differs from that of
    bundles.
    """
    if num_cpus is not None and (isinstance(num_cpus, bool) or not isinstance(num_cpus, int)):
        raise TypeError(f"num_cpus must be an integer, got {num_cpus!r}")
    if bundles is not None and not (
        isinstance(bundles, list) and all(isinstance(each, dict) for each in bundles)
    ):
        raise TypeError(f"bundles must be a list of dicts of resource to amount, got {bundles!r:.80}")
    if bundle_label_selectors is not None and len(bundle_label_selectors) != len(bundles or ()):
        raise ValueError(
            "bundle_label_selectors must have one entry per bundle, got "
            f"{len(bundle_label_selectors)} for {len(bundles or ())} bundles"
        )
    shapes = [*([{"CPU": 1.0}] * (num_cpus or 0)), *(bundles or ())]
    if cluster_queries.can_grow():
        view.request([{name: float(amount) for name, amount in shape.items()} for shape in shapes])
        return
    wanted = Resources.total(shapes)
    have = cluster_queries.cluster_resources()
    short = [f"{name}: {wanted[name]:g} of {have.get(name, 0):g}" for name in wanted.lacking(have)]
    if short:
        _logger.warning(
            "request_resources: the request exceeds the resources of the cluster (%s), which does "
            "not grow automatically; start it with more, or request less",
            ", ".join(short),
        )


def configure_logging(
    log_style: str | None = None, color_mode: str | None = None, verbosity: int | None = None
) -> None:
    """No-op: there is no autoscaler to log anything."""


def _refuse(what: str) -> NoReturn:
    raise NotImplementedError(
        f"{what} belongs to the cloud providers of Ray's cluster launcher, which Skate does not have; "
        "create_or_update_cluster starts machines that a file with `provider: {type: local}` names"
    )


def bootstrap_config(cluster_config: dict[str, Any], no_config_cache: bool = False) -> dict[str, Any]:
    """Raises NotImplementedError: Skate has no cloud providers."""
    _refuse("bootstrap_config")


def fillout_defaults(config: dict[str, Any]) -> dict[str, Any]:
    """Raises NotImplementedError: Skate has no cloud providers."""
    _refuse("fillout_defaults")


def register_callback_handler(event_name: str, callback: Any) -> None:
    """Raises NotImplementedError: Skate has no cloud providers."""
    _refuse("register_callback_handler")


def get_docker_host_mount_location(cluster_name: str) -> str:
    """Raises NotImplementedError: Skate has no cloud providers."""
    _refuse("get_docker_host_mount_location")
