"""Settings of Serve: options, defaults, and validation."""

from __future__ import annotations

from skate.serve.config.autoscaling import (
    DEFAULT_METRICS_INTERVAL_S,
    AggregationFunction,
    AutoscalingConfig,
    AutoscalingContext,
    AutoscalingPolicy,
)
from skate.serve.config.deployment import (
    BackpressureConfig,
    DeploymentActorConfig,
    DeploymentConfig,
    GangPlacementStrategy,
    GangRuntimeFailurePolicy,
    GangSchedulingConfig,
    LoggingConfig,
    RequestRouterConfig,
)
from skate.serve.config.http import ControllerOptions, HTTPOptions, ProxyLocation, gRPCOptions
from skate.serve.identity import DeploymentID as DeploymentID

__all__ = [
    "DEFAULT_METRICS_INTERVAL_S",
    "AggregationFunction",
    "AutoscalingConfig",
    "AutoscalingContext",
    "AutoscalingPolicy",
    "BackpressureConfig",
    "ControllerOptions",
    "DeploymentActorConfig",
    "DeploymentConfig",
    "GangPlacementStrategy",
    "GangRuntimeFailurePolicy",
    "GangSchedulingConfig",
    "HTTPOptions",
    "LoggingConfig",
    "ProxyLocation",
    "RequestRouterConfig",
    "gRPCOptions",
]
