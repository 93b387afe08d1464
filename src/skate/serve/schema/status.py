"""Records returned by `serve.status()`."""

from __future__ import annotations

from dataclasses import dataclass, field

from skate.serve.controller.states import (
    ApplicationStatus,
    DeploymentStatus,
    DeploymentStatusTrigger,
    ProxyStatus,
)


@dataclass(frozen=True)
class DeploymentStatusOverview:
    """The status of a deployment."""

    status: DeploymentStatus
    status_trigger: DeploymentStatusTrigger
    replica_states: dict[str, int]
    message: str


@dataclass(frozen=True)
class ApplicationStatusOverview:
    """The status of an application; times are in seconds since the epoch."""

    status: ApplicationStatus
    message: str
    last_deployed_time_s: float
    deployments: dict[str, DeploymentStatusOverview]


@dataclass(frozen=True)
class ServeStatus:
    """The status of all applications by name, and of all proxies by node."""

    proxies: dict[str, ProxyStatus] = field(default_factory=dict)
    applications: dict[str, ApplicationStatusOverview] = field(default_factory=dict)
    target_capacity: float | None = None
