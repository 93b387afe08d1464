"""Functions that decide how many replicas a deployment should have."""

from __future__ import annotations

from typing import Any

from skate.serve.config.autoscaling import AutoscalingContext
from skate.serve.controller.autoscaler import desired
from skate.serve.prometheus_query import (
    DEFAULT_PROMETHEUS_CACHE_TTL_S,
    DEFAULT_PROMETHEUS_FETCH_INTERVAL_S,
    DEFAULT_PROMETHEUS_QUERY_TIMEOUT_S,
    PrometheusQueryMixin,
    PrometheusSample,
    PrometheusScalar,
    PrometheusVector,
)

__all__ = [
    "DEFAULT_PROMETHEUS_CACHE_TTL_S",
    "DEFAULT_PROMETHEUS_FETCH_INTERVAL_S",
    "DEFAULT_PROMETHEUS_QUERY_TIMEOUT_S",
    "PrometheusQueryMixin",
    "PrometheusSample",
    "PrometheusScalar",
    "PrometheusVector",
    "default_autoscaling_policy",
    "replica_queue_length_autoscaling_policy",
]


def default_autoscaling_policy(ctx: AutoscalingContext) -> tuple[int, dict[str, Any]]:
    """Compute the number of replicas at which each has its target number of requests."""
    assert ctx.config is not None
    return desired(ctx.total_num_requests, ctx.current_num_replicas, ctx.config), ctx.policy_state or {}


def replica_queue_length_autoscaling_policy(ctx: AutoscalingContext) -> tuple[int, dict[str, Any]]:
    """Older name of `default_autoscaling_policy`."""
    return default_autoscaling_policy(ctx)
