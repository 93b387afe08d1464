"""Resource requests, and the managers that fulfil them: from a fixed budget, or with placement groups."""

from skate.air.execution.resources.request import AcquiredResources, ResourceRequest
from skate.air.execution.resources.resource_manager import ResourceManager

__all__ = ["AcquiredResources", "ResourceManager", "ResourceRequest"]
