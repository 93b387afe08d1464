"""What Ray calls experimental: progress bars from workers, and where objects are.

Tensor transports between GPUs are not here: tensors travel through the shared-memory store.
"""

from __future__ import annotations

import importlib
from typing import Any

_REFUSED = {
    "RDTManager", "TensorTransportManager", "TensorTransportMetadata", "CommunicatorMetadata",
    "deregister_nixl_memory", "register_nixl_memory", "register_nixl_memory_pool",
    "register_tensor_transport", "set_nixl_cuda_stream", "set_target_device_for_ref", "set_target_for_ref",
    "wait_tensor_freed",
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
    if name in ("tqdm_ray", "locations", "channel", "collective"):
        return importlib.import_module(f"skate.experimental.{name}")
    if name in _REFUSED:
        raise AttributeError(
            f"Skate has no ray.experimental.{name}: tensors travel through the shared-memory store, not "
            "from GPU to GPU"
        )
    raise AttributeError(f"module 'skate.experimental' has no attribute {name!r}")
