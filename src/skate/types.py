"""Types for annotations: `ray.types.ObjectRef[int]` is the type of a ref to an int."""

from __future__ import annotations

from skate.client.object.object_ref import ObjectRef

__all__ = ["ObjectRef"]
