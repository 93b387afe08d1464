"""Records of the REST API's status: the instance, its applications, deployments and replicas."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass, field
from typing import Any

from skate.serve.config.checked import Checked
from skate.serve.config.http import ProxyLocation
from skate.serve.controller.states import (
    ApplicationStatus,
    DeploymentStatus,
    DeploymentStatusTrigger,
    ProxyStatus,
    ReplicaState,
)
from skate.serve.schema.deploy import (
    DeploymentSchema,
    HTTPOptionsSchema,
    ServeApplicationSchema,
    gRPCOptionsSchema,
)


class APIType(str, enum.Enum):
    """The way an application was deployed: from Python, or with a config."""

    UNKNOWN = "unknown"
    IMPERATIVE = "imperative"
    DECLARATIVE = "declarative"

    @classmethod
    def get_valid_user_values(cls) -> list[str]:
        """Return the values that a query may use."""
        return [cls.IMPERATIVE.value, cls.DECLARATIVE.value]


class AutoscalingMetricsHealth(str, enum.Enum):
    """The health of the metrics for autoscaling."""

    HEALTHY = "healthy"
    DELAYED = "delayed"
    UNAVAILABLE = "unavailable"


class AutoscalingStatus(str, enum.Enum):
    """The direction in which the number of replicas changes."""

    UPSCALING = "UPSCALING"
    DOWNSCALING = "DOWNSCALING"
    STABLE = "STABLE"


class RequestProtocol(str, enum.Enum):
    """The protocol of requests."""

    UNDEFINED = "UNDEFINED"
    HTTP = "HTTP"
    GRPC = "gRPC"


@dataclass(kw_only=True)
class ServeActorDetails(Checked):
    """An actor of Serve and its location."""

    node_id: str | None = None
    node_ip: str | None = None
    node_instance_id: str | None = None
    actor_id: str | None = None
    actor_name: str | None = None
    worker_id: str | None = None
    log_file_path: str | None = None


@dataclass(kw_only=True)
class ReplicaDetails(ServeActorDetails):
    """A replica; `start_time_s` is seconds since the epoch."""

    replica_id: str
    state: ReplicaState
    pid: int | None = None
    start_time_s: float


@dataclass(kw_only=True)
class ProxyDetails(ServeActorDetails):
    """The process that accepts requests on a node."""

    status: ProxyStatus


@dataclass(kw_only=True)
class ScalingDecision(Checked):
    """A change of the number of replicas."""

    timestamp_s: float
    reason: str
    prev_num_replicas: int
    curr_num_replicas: int
    policy: str | None = None


@dataclass(kw_only=True)
class DeploymentAutoscalingDetail(Checked):
    """The autoscaling state of a deployment."""

    scaling_status: AutoscalingStatus
    decisions: list[ScalingDecision] = field(default_factory=list)
    metrics: dict[str, Any] | None = None
    metrics_health: AutoscalingMetricsHealth = AutoscalingMetricsHealth.HEALTHY
    errors: list[str] = field(default_factory=list)


@dataclass(kw_only=True)
class DeploymentDetails(Checked):
    """A deployment, with its current settings and replicas."""

    name: str
    status: DeploymentStatus
    status_trigger: DeploymentStatusTrigger
    message: str
    deployment_config: DeploymentSchema
    target_num_replicas: int
    required_resources: dict[str, Any]
    replicas: list[ReplicaDetails]
    recent_dead_replicas: list[ReplicaDetails] = field(default_factory=list)
    autoscaling_detail: DeploymentAutoscalingDetail | None = None


@dataclass(kw_only=True)
class DeploymentNode(Checked):
    """A deployment and the deployments that it calls."""

    name: str
    app_name: str
    outbound_deployments: list[dict[str, Any]] = field(default_factory=list)
    is_ingress: bool = False


@dataclass(kw_only=True)
class DeploymentTopology(Checked):
    """The call graph of an application's deployments."""

    app_name: str
    nodes: dict[str, DeploymentNode]
    ingress_deployment: str | None = None


@dataclass(kw_only=True)
class ApplicationDetails(Checked):
    """An application; times are seconds since the epoch."""

    name: str
    route_prefix: str | None
    docs_path: str | None
    status: ApplicationStatus
    message: str
    last_deployed_time_s: float
    deployed_app_config: ServeApplicationSchema | None = None
    source: APIType
    deployments: dict[str, DeploymentDetails]
    external_scaler_enabled: bool
    deployment_topology: DeploymentTopology | None = None


@dataclass(kw_only=True)
class Target(Checked):
    """An address that accepts requests."""

    ip: str
    port: int
    instance_id: str
    name: str


@dataclass(kw_only=True)
class TargetGroup(Checked):
    """The addresses that accept requests for a route prefix."""

    targets: list[Target]
    route_prefix: str
    protocol: RequestProtocol
    app_name: str = ""
    ingress_request_router_targets: list[Target] = field(default_factory=list)
    ingress_deployment_name: str = ""


@dataclass(kw_only=True)
class DurationStats(Checked):
    """Statistics of recent durations, all in the same unit."""

    mean: float = 0.0
    std: float = 0.0
    min: float = 0.0
    max: float = 0.0

    @classmethod
    def from_values(cls, values: list[float]) -> DurationStats:
        """Compute the statistics of values; all zero if there are none."""
        if not values:
            return cls()
        mean = sum(values) / len(values)
        deviation = math.sqrt(sum((each - mean) ** 2 for each in values) / len(values))
        return cls(mean=mean, std=deviation, min=min(values), max=max(values))


@dataclass(kw_only=True)
class ControllerHealthMetrics(Checked):
    """The health of the controller. Durations are in seconds unless named otherwise, times are since the epoch."""

    timestamp: float = 0.0
    controller_start_time: float = 0.0
    uptime_s: float = 0.0
    last_control_loop_time: float = 0.0
    num_control_loops: int = 0
    loop_duration_s: DurationStats | None = None
    loops_per_second: float = 0.0
    last_sleep_duration_s: float = 0.0
    expected_sleep_duration_s: float = 0.0
    event_loop_delay_s: float = 0.0
    num_asyncio_tasks: int = 0
    handle_ingest_duration_ms: DurationStats | None = None
    replica_ingest_duration_ms: DurationStats | None = None
    metrics_decompress_duration_ms: DurationStats | None = None
    columnar_decode_duration_ms: DurationStats | None = None
    handle_reports_received: int = 0
    replica_reports_received: int = 0
    ingest_reports_received: int = 0
    ingest_cpu_fraction: float = 0.0
    deployment_state_update_duration_s: DurationStats | None = None
    application_state_update_duration_s: DurationStats | None = None
    proxy_state_update_duration_s: DurationStats | None = None
    node_update_duration_s: DurationStats | None = None
    handle_metrics_delay_ms: DurationStats | None = None
    replica_metrics_delay_ms: DurationStats | None = None
    process_memory_mb: float = 0.0


@dataclass(kw_only=True)
class ServeInstanceDetails(Checked):
    """The complete state of Serve."""

    controller_info: ServeActorDetails = field(default_factory=ServeActorDetails)
    proxy_location: ProxyLocation | None = None
    http_options: HTTPOptionsSchema | None = None
    grpc_options: gRPCOptionsSchema | None = None
    proxies: dict[str, ProxyDetails]
    applications: dict[str, ApplicationDetails]
    target_capacity: float | None = None
    target_groups: list[TargetGroup] = field(default_factory=list)
    controller_health_metrics: ControllerHealthMetrics = field(default_factory=ControllerHealthMetrics)
    restores_unset_config_options: bool = False

    @staticmethod
    def get_empty_schema_dict() -> dict[str, Any]:
        """Return the record for when Serve is not running."""
        return {"controller_info": {}, "proxies": {}, "applications": {}, "target_capacity": None}


@dataclass(kw_only=True)
class ScaleDeploymentRequest(Checked):
    """The body of a request to change the number of replicas."""

    target_num_replicas: int

    def check(self) -> None:
        """Check the number of replicas."""
        if self.target_num_replicas < 0:
            raise ValueError(
                f"target_num_replicas must not be negative, got {self.target_num_replicas}. Input should be greater than or "
                "equal to 0"
            )
