"""A resource manager with a fixed budget."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import skate
from skate.air.execution.resources.request import AcquiredResources, ResourceRequest, options_of
from skate.air.execution.resources.resource_manager import ResourceManager
from skate.resources import Resources


@dataclass
class FixedAcquiredResources(AcquiredResources):
    """Resources taken from a budget."""

    bundles: list[dict[str, float]]

    def _annotate_remote_entity(self, entity: Any, bundle: dict[str, float], bundle_index: int) -> Any:
        return entity.options(**options_of(bundle))


class FixedResourceManager(ResourceManager):
    """Allocates from a budget; nothing is reserved in the cluster.

    Args:
        total_resources: the budget; by default the resources of the calling task, in a driver those of the cluster.
    """

    def __init__(self, total_resources: dict[str, float] | None = None) -> None:
        context = skate.get_runtime_context()
        if not total_resources:
            in_task = context.get_task_id() is not None or context.get_actor_id() is not None
            total_resources = context.get_assigned_resources() if in_task else skate.cluster_resources()
        # In a placement group, everything comes from one bundle, to keep it together.
        self._together = (
            skate.util.get_current_placement_group() is not None
            and context.should_capture_child_tasks_in_placement_group
        )
        self._total_resources = dict(total_resources)
        self._requested_resources: list[ResourceRequest] = []
        self._used_resources: list[ResourceRequest] = []

    @property
    def _available_resources(self) -> dict[str, float]:
        used = Resources.total(each.required_resources for each in self._used_resources)
        return dict(Resources(self._total_resources) - used)

    def request_resources(self, resource_request: ResourceRequest) -> None:
        """Request resources.

        Raises:
            RuntimeError: a budget cannot fulfil the strategy.
        """
        strategy = resource_request.strategy
        if strategy == "STRICT_SPREAD" or (strategy == "STRICT_PACK" and not self._together):
            raise RuntimeError(
                f"Requested a resource with placement strategy {strategy}, but this cannot be fulfilled by a "
                "FixedResourceManager: it counts amounts, not nodes. Use PACK or SPREAD, or use a "
                "PlacementGroupResourceManager"
            )
        self._requested_resources.append(resource_request)

    def cancel_resource_request(self, resource_request: ResourceRequest) -> None:
        """Cancel a request."""
        self._requested_resources.remove(resource_request)

    def has_resources_ready(self, resource_request: ResourceRequest) -> bool:
        """Return True if the request was made and fits the budget."""
        if resource_request not in self._requested_resources:
            return False
        return Resources(resource_request.required_resources).fits(self._available_resources)

    def acquire_resources(self, resource_request: ResourceRequest) -> FixedAcquiredResources | None:
        """Allocate from the budget; None if it is insufficient."""
        if not self.has_resources_ready(resource_request):
            return None
        self._used_resources.append(resource_request)
        return FixedAcquiredResources(resource_request, resource_request.bundles)

    def free_resources(self, acquired_resource: AcquiredResources) -> None:
        """Return resources to the budget."""
        self._used_resources.remove(acquired_resource.resource_request)

    def clear(self) -> None:
        """Cancel all requests and free all resources."""
        self._requested_resources.clear()
        self._used_resources.clear()
