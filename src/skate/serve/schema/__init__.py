"""Records for Serve's config files and status reports."""

from __future__ import annotations

import importlib
from typing import Any

_HOMES = {
    "skate.serve.controller.states": (
        "ApplicationStatus",
        "DeploymentStatus",
        "DeploymentStatusTrigger",
        "ProxyStatus",
        "ReplicaState",
    ),
    "skate.serve.config.autoscaling": ("AutoscalingConfig", "AutoscalingPolicy"),
    "skate.serve.config.deployment": (
        "BackpressureConfig",
        "DeploymentActorConfig",
        "EncodingType",
        "GangSchedulingConfig",
        "LoggingConfig",
        "RequestRouterConfig",
    ),
    "skate.serve.config.http": ("ControllerOptions", "ProxyLocation"),
    "skate.serve.context": ("ReplicaRank",),
    "skate.serve.schema.deploy": (
        "DeploymentSchema",
        "HTTPOptionsSchema",
        "RayActorOptionsSchema",
        "ServeApplicationSchema",
        "ServeDeploySchema",
        "gRPCOptionsSchema",
    ),
    "skate.serve.schema.details": (
        "APIType",
        "ApplicationDetails",
        "AutoscalingMetricsHealth",
        "AutoscalingStatus",
        "ControllerHealthMetrics",
        "DeploymentAutoscalingDetail",
        "DeploymentDetails",
        "DeploymentNode",
        "DeploymentTopology",
        "DurationStats",
        "ProxyDetails",
        "ReplicaDetails",
        "RequestProtocol",
        "ScaleDeploymentRequest",
        "ScalingDecision",
        "ServeActorDetails",
        "ServeInstanceDetails",
        "Target",
        "TargetGroup",
    ),
    "skate.serve.schema.status": ("ApplicationStatusOverview", "DeploymentStatusOverview", "ServeStatus"),
    "skate.serve.schema.tracing": ("TracingConfig",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = sorted(_HOME_OF)


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'skate.serve.schema' has no attribute {name!r}")
    return getattr(importlib.import_module(home), name)
