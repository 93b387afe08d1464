"""The interface of a manager of resources."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from skate.air.execution.resources.request import AcquiredResources, ResourceRequest


class ResourceManager(ABC):
    """Accepts requests, reports when one can be fulfilled, and allocates and frees its resources."""

    @abstractmethod
    def request_resources(self, resource_request: ResourceRequest) -> None:
        """Request resources. Two equal requests are two requests."""

    @abstractmethod
    def cancel_resource_request(self, resource_request: ResourceRequest) -> None:
        """Cancel a request that has not been fulfilled."""

    @abstractmethod
    def has_resources_ready(self, resource_request: ResourceRequest) -> bool:
        """Return True if `acquire_resources` would return resources."""

    @abstractmethod
    def acquire_resources(self, resource_request: ResourceRequest) -> AcquiredResources | None:
        """Return the resources for a request; None if there are too few now."""

    @abstractmethod
    def free_resources(self, acquired_resource: AcquiredResources) -> None:
        """Free acquired resources."""

    def get_resource_futures(self) -> list[Any]:
        """Return refs for `ray.wait` that become available when more requests may be ready."""
        return []

    def update_state(self) -> None:  # noqa: B027  # a budget has nothing to look at
        """Update which requests are ready."""

    def clear(self) -> None:
        """Cancel all requests and free all resources."""
        raise NotImplementedError
