"""Clusters in Spark jobs, which Skate does not support: the functions raise errors with the replacement."""

from __future__ import annotations

from typing import Any, NoReturn

MAX_NUM_WORKER_NODES = -1

__all__ = ["MAX_NUM_WORKER_NODES", "setup_global_ray_cluster", "setup_ray_cluster", "shutdown_ray_cluster"]


def setup_ray_cluster(*, max_worker_nodes: int, **settings: Any) -> NoReturn:
    """Raise NotImplementedError: clusters on Spark's executors are not supported."""
    raise _refusal(f"setup_ray_cluster(max_worker_nodes={max_worker_nodes})")


def setup_global_ray_cluster(*, max_worker_nodes: int, **settings: Any) -> NoReturn:
    """Raise NotImplementedError: clusters on Spark's executors are not supported."""
    raise _refusal(f"setup_global_ray_cluster(max_worker_nodes={max_worker_nodes})")


def shutdown_ray_cluster() -> NoReturn:
    """Raise RuntimeError: there is no such cluster."""
    raise RuntimeError("there is no cluster on Spark to shut down; a session ends with ray.shutdown()")


def _refusal(call: str) -> NotImplementedError:
    return NotImplementedError(
        f"{call} would start nodes on Spark's executors, which Skate does not do; call ray.init() in the driver, which uses "
        "the machine that it runs on"
    )
