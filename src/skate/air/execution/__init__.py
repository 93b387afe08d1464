"""Resources that a program asks for, waits for, and hands to the tasks and actors it starts."""

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
