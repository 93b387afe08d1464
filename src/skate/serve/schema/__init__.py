"""Records for Serve's config files and status reports."""

from __future__ import annotations

from skate import lazy_loader

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
    "skate.serve.tasks.adapter": ("TaskProcessorAdapter",),
    "skate.serve.tasks.records": ("CeleryAdapterConfig", "TaskProcessorConfig", "TaskResult"),
}
__getattr__, __dir__, __all__ = lazy_loader.attach(globals(), _HOMES)
