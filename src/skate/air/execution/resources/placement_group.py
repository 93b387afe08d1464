"""A resource manager with one placement group per request."""

from __future__ import annotations

import contextlib
import time
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import skate
from skate.air.execution.resources.request import AcquiredResources, ResourceRequest, options_of
from skate.air.execution.resources.resource_manager import ResourceManager
from skate.util.placement_group import PlacementGroup, remove_placement_group
from skate.util.scheduling_strategies import PlacementGroupSchedulingStrategy


@dataclass
class PlacementGroupAcquiredResources(AcquiredResources):
    """Resources of a placement group."""

    placement_group: PlacementGroup

    def _annotate_remote_entity(self, entity: Any, bundle: dict[str, float], bundle_index: int) -> Any:
        place = PlacementGroupSchedulingStrategy(
            placement_group=self.placement_group,
            placement_group_bundle_index=bundle_index,
            placement_group_capture_child_tasks=True,
        )
        return entity.options(scheduling_strategy=place, **options_of(bundle))


class PlacementGroupResourceManager(ResourceManager):
    """Creates a placement group for each request, and removes it when its resources are freed.

    Args:
        update_interval_s: the least seconds between two checks of which groups are ready.
    """

    def __init__(self, update_interval_s: float = 0.1) -> None:
        self.update_interval_s = update_interval_s
        self._forget()

    def _forget(self) -> None:
        self._pg_to_request: dict[PlacementGroup, ResourceRequest] = {}
        self._request_to_staged_pgs: dict[ResourceRequest, set[PlacementGroup]] = defaultdict(set)
        self._request_to_ready_pgs: dict[ResourceRequest, set[PlacementGroup]] = defaultdict(set)
        self._staging_future_to_pg: dict[Any, PlacementGroup] = {}
        self._pg_to_staging_future: dict[PlacementGroup, Any] = {}
        self._acquired_pgs: set[PlacementGroup] = set()
        self._last_update = time.monotonic() - self.update_interval_s - 1

    def get_resource_futures(self) -> list[Any]:
        """Return refs that become available when pending groups are ready."""
        return list(self._staging_future_to_pg)

    def update_state(self) -> None:
        """Check which groups have become ready."""
        waiting = self.get_resource_futures()
        ready = skate.wait(waiting, num_returns=len(waiting), timeout=0)[0] if waiting else []
        for future in ready:
            group = self._staging_future_to_pg.pop(future)
            del self._pg_to_staging_future[group]
            request = self._pg_to_request[group]
            self._request_to_staged_pgs[request].remove(group)
            self._request_to_ready_pgs[request].add(group)
        self._last_update = time.monotonic()

    def request_resources(self, resource_request: ResourceRequest) -> None:
        """Create a placement group."""
        group = resource_request.to_placement_group()
        future = group.ready()
        self._pg_to_request[group] = resource_request
        self._request_to_staged_pgs[resource_request].add(group)
        self._staging_future_to_pg[future] = group
        self._pg_to_staging_future[group] = future

    def cancel_resource_request(self, resource_request: ResourceRequest) -> None:
        """Remove a pending or ready group.

        Raises:
            RuntimeError: there is none for the request.
        """
        staged, ready = (
            self._request_to_staged_pgs[resource_request],
            self._request_to_ready_pgs[resource_request],
        )
        if not staged and not ready:
            raise RuntimeError(
                "Cannot cancel resource request: No placement group was staged or is ready for it. Cancel no more requests "
                f"than were made. The request: {resource_request}"
            )
        group = (staged or ready).pop()
        future = self._pg_to_staging_future.pop(group, None)
        if future is not None:
            del self._staging_future_to_pg[future]
            skate.cancel(future)
        del self._pg_to_request[group]
        remove_placement_group(group)

    def has_resources_ready(self, resource_request: ResourceRequest) -> bool:
        """Return True if a group for the request is ready."""
        late = time.monotonic() > self._last_update + self.update_interval_s
        if not self._request_to_ready_pgs[resource_request] and late:
            self.update_state()
        return bool(self._request_to_ready_pgs[resource_request])

    def acquire_resources(self, resource_request: ResourceRequest) -> PlacementGroupAcquiredResources | None:
        """Take a ready group; None if there is none."""
        if not self.has_resources_ready(resource_request):
            return None
        group = self._request_to_ready_pgs[resource_request].pop()
        self._acquired_pgs.add(group)
        return PlacementGroupAcquiredResources(resource_request, group)

    def free_resources(self, acquired_resource: AcquiredResources) -> None:
        """Remove an acquired group."""
        assert isinstance(acquired_resource, PlacementGroupAcquiredResources)
        group = acquired_resource.placement_group
        self._acquired_pgs.remove(group)
        del self._pg_to_request[group]
        remove_placement_group(group)

    def clear(self) -> None:
        """Remove all groups."""
        if not skate.is_initialized():
            return
        for group in self._pg_to_request:
            remove_placement_group(group)
        self._forget()

    def __del__(self) -> None:
        with contextlib.suppress(Exception):  # the interpreter may be shutting down
            self.clear()
