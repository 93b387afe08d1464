"""Resources that a program requests, waits for, and assigns to its tasks and actors."""

from skate.air.execution.resources.fixed import FixedResourceManager
from skate.air.execution.resources.placement_group import PlacementGroupResourceManager
from skate.air.execution.resources.request import AcquiredResources, ResourceRequest
from skate.air.execution.resources.resource_manager import ResourceManager

__all__ = [
    "AcquiredResources",
    "FixedResourceManager",
    "PlacementGroupResourceManager",
    "ResourceManager",
    "ResourceRequest",
]
