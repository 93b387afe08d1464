"""Requests of resources, and the managers that meet them: from a fixed budget, or by placement groups."""

from skate.air.execution.resources.request import AcquiredResources, ResourceRequest
from skate.air.execution.resources.resource_manager import ResourceManager

__all__ = ["AcquiredResources", "ResourceManager", "ResourceRequest"]
