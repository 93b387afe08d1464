"""The interface of a manager of resources."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from skate.air.execution.resources.request import AcquiredResources, ResourceRequest


class ResourceManager(ABC):
    """Takes requests, says when one can be met, and gives and takes back what it is met with."""

    @abstractmethod
    def request_resources(self, resource_request: ResourceRequest) -> None:
        """Ask for resources. Asking twice for the same means two of them."""

    @abstractmethod
    def cancel_resource_request(self, resource_request: ResourceRequest) -> None:
        """Take back a request that nothing was acquired for."""

    @abstractmethod
    def has_resources_ready(self, resource_request: ResourceRequest) -> bool:
        """Return True if `acquire_resources` would return resources."""

    @abstractmethod
    def acquire_resources(self, resource_request: ResourceRequest) -> AcquiredResources | None:
        """Return the resources for a request; None if there are too few now."""

    @abstractmethod
    def free_resources(self, acquired_resource: AcquiredResources) -> None:
        """Give back what was acquired."""

    def get_resource_futures(self) -> list[Any]:
        """References that are there when more may be ready, for `ray.wait`."""
        return []

    def update_state(self) -> None:  # noqa: B027  # a budget has nothing to look at
        """Look now at what is ready."""

    def clear(self) -> None:
        """Forget all requests and give everything back."""
        raise NotImplementedError
