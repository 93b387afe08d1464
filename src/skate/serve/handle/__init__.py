"""Handles: requests to deployments from Python."""

from __future__ import annotations

from skate.serve.exceptions import RayServeException, RequestCancelledError
from skate.serve.handle.handle import DeploymentHandle
from skate.serve.handle.response import (
    DeploymentBroadcastResponse,
    DeploymentResponse,
    DeploymentResponseGenerator,
)

__all__ = [
    "DeploymentBroadcastResponse",
    "DeploymentHandle",
    "DeploymentResponse",
    "DeploymentResponseGenerator",
    "RayServeException",
    "RequestCancelledError",
]
