"""Asking for more machines, by Ray's names.

A node that is hosted in its driver is all there is, so a demand is compared with what it has, and a warning
says what is missing. What starts and stops clusters is refused: that is left to Slurm, Kubernetes or a
cloud's own tools.
"""

from __future__ import annotations

import logging
from typing import Any, NoReturn

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


def request_resources(
    num_cpus: int | None = None,
    bundles: list[Bundle] | None = None,
    bundle_label_selectors: list[dict[str, str]] | None = None,
) -> None:
    """Say what the program is going to need; logs a warning for what the cluster does not have.

    Args:
        num_cpus: CPUs wanted in all.
        bundles: resources wanted together, such as `[{"GPU": 1}, {"CPU": 4}]`.
        bundle_label_selectors: for each bundle the labels that its node must have.

    Raises TypeError for what is not a number or a list of dicts, ValueError for selectors that do not match
    the bundles.
    """
    if num_cpus is not None and (isinstance(num_cpus, bool) or not isinstance(num_cpus, int)):
        raise TypeError(f"num_cpus is a whole number, not {num_cpus!r}")
    if bundles is not None and not (
        isinstance(bundles, list) and all(isinstance(each, dict) for each in bundles)
    ):
        raise TypeError(f"bundles is a list of dicts of resource to amount, not {bundles!r:.80}")
    if bundle_label_selectors is not None and len(bundle_label_selectors) != len(bundles or ()):
        raise ValueError(
            f"there are {len(bundle_label_selectors)} bundle_label_selectors for {len(bundles or ())} bundles"
        )
    wanted = Resources.total([{"CPU": num_cpus or 0}, *(bundles or ())])
    have = cluster_queries.cluster_resources()
    short = [f"{name}: {wanted[name]:g} of {have.get(name, 0):g}" for name in wanted.lacking(have)]
    if short:
        logging.getLogger("skate.autoscaler").warning(
            "request_resources: more is asked for than the cluster has (%s); it does not grow by itself, so "
            "start it with "
            "more, or ask for less",
            ", ".join(short),
        )


def configure_logging(
    log_style: str | None = None, color_mode: str | None = None, verbosity: int | None = None
) -> None:
    """No-op: there is no autoscaler with log lines."""


def _refuse(what: str) -> NoReturn:
    raise NotImplementedError(
        f"{what} belongs to Ray's cluster launcher, which Skate does not have: start machines with Slurm, "
        "Kubernetes or "
        "your cloud's tools"
    )


def create_or_update_cluster(cluster_config: Any, **kwargs: Any) -> dict[str, Any]:
    """Raises NotImplementedError: Skate launches no clusters."""
    _refuse("create_or_update_cluster")


def teardown_cluster(cluster_config: Any, workers_only: bool = False, keep_min_workers: bool = False) -> None:
    """Raises NotImplementedError: Skate launches no clusters."""
    _refuse("teardown_cluster")


def run_on_cluster(cluster_config: Any, **kwargs: Any) -> str | None:
    """Raises NotImplementedError: Skate launches no clusters."""
    _refuse("run_on_cluster")


def rsync(cluster_config: Any, **kwargs: Any) -> None:
    """Raises NotImplementedError: Skate launches no clusters."""
    _refuse("rsync")


def get_head_node_ip(cluster_config: Any) -> str:
    """Raises NotImplementedError: Skate launches no clusters."""
    _refuse("get_head_node_ip")


def get_worker_node_ips(cluster_config: Any) -> list[str]:
    """Raises NotImplementedError: Skate launches no clusters."""
    _refuse("get_worker_node_ips")


def bootstrap_config(cluster_config: dict[str, Any], no_config_cache: bool = False) -> dict[str, Any]:
    """Raises NotImplementedError: Skate launches no clusters."""
    _refuse("bootstrap_config")


def fillout_defaults(config: dict[str, Any]) -> dict[str, Any]:
    """Raises NotImplementedError: Skate launches no clusters."""
    _refuse("fillout_defaults")


def register_callback_handler(event_name: str, callback: Any) -> None:
    """Raises NotImplementedError: Skate launches no clusters."""
    _refuse("register_callback_handler")


def get_docker_host_mount_location(cluster_name: str) -> str:
    """Raises NotImplementedError: Skate launches no clusters."""
    _refuse("get_docker_host_mount_location")
