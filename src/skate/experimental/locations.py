"""Locations and sizes of objects."""

from __future__ import annotations

from typing import Any

from skate.client.object.object_ref import ObjectRef
from skate.client.state import cluster_queries


def get_object_locations(
    obj_refs: list[ObjectRef[Any]], timeout_ms: int = -1
) -> dict[ObjectRef[Any], dict[str, Any]]:
    """Return for each ref the ids of the nodes that have its value, its size in bytes, and True if it was spilled.

    A value that does not exist yet has no nodes; one that never left this process counts as local, with unknown
    size. Raises TypeError if the argument is not a list of refs.
    """
    if not isinstance(obj_refs, list) or not all(isinstance(ref, ObjectRef) for ref in obj_refs):
        raise TypeError(f"get_object_locations takes a list of ObjectRefs, got {obj_refs!r:.80}")
    return {ref: cluster_queries.object_location(ref) for ref in obj_refs}


def get_local_object_locations(obj_refs: list[ObjectRef[Any]]) -> dict[ObjectRef[Any], dict[str, Any]]:
    """Return the locations known to this process, which are all of them here."""
    return get_object_locations(obj_refs)
