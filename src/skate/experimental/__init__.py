"""Ray's experimental API: progress bars from workers, and object locations.

Direct transport of tensors is in rdt/. NIXL is not supported: tensors of a method that names it go through the
object store.
"""

from __future__ import annotations

import importlib
from typing import Any

_REFUSED = {
    "RDTManager", "deregister_nixl_memory", "register_nixl_memory", "register_nixl_memory_pool", "set_nixl_cuda_stream",
}  # fmt: skip
_DIRECT = {
    "TensorTransportManager", "TensorTransportMetadata", "CommunicatorMetadata", "register_tensor_transport",
    "set_target_device_for_ref", "set_target_for_ref", "wait_tensor_freed",
}  # fmt: skip

__all__ = ["get_local_object_locations", "get_object_locations", "set_resource", "tqdm_ray"]


def set_resource(resource_name: str, capacity: float, node_id: str | None = None) -> None:
    """Raises DeprecationWarning, as in Ray: the resources of a node are set when it starts."""
    raise DeprecationWarning(
        f"the resource {resource_name!r} cannot be changed while the node runs; start it with "
        f"init(resources={{{resource_name!r}: {capacity}}})"
    )


def __getattr__(name: str) -> Any:
    if name in ("get_object_locations", "get_local_object_locations"):
        return getattr(importlib.import_module("skate.experimental.locations"), name)
    if name in _DIRECT:
        return getattr(importlib.import_module("skate.experimental.rdt"), name)
    if name in ("tqdm_ray", "locations", "channel", "collective", "rdt"):
        return importlib.import_module(f"skate.experimental.{name}")
    if name in _REFUSED:
        raise AttributeError(
            f"Skate has no ray.experimental.{name}: it has no NIXL, and tensors of methods that name it go through the "
            "object store in shared memory"
        )
    raise AttributeError(f"module 'skate.experimental' has no attribute {name!r}")
