"""Ray's experimental API: progress bars from workers, and object locations.

Direct transport of tensors is in rdt/. NIXL is not supported: tensors of a method that names it go through the
object store.
"""

from __future__ import annotations

from typing import Any

from skate import lazy_loader

_REFUSED = {
    "RDTManager", "deregister_nixl_memory", "register_nixl_memory", "register_nixl_memory_pool", "set_nixl_cuda_stream",
}  # fmt: skip
_HOMES = {
    "skate.experimental.locations": ("get_local_object_locations", "get_object_locations"),
    "skate.experimental.rdt": (
        "TensorTransportManager", "TensorTransportMetadata", "CommunicatorMetadata", "register_tensor_transport",
        "set_target_device_for_ref", "set_target_for_ref", "wait_tensor_freed",
    ),
}  # fmt: skip
_load = lazy_loader.getter(globals(), _HOMES, ("channel", "collective", "locations", "rdt", "tqdm_ray"))

__all__ = ["get_local_object_locations", "get_object_locations", "set_resource", "tqdm_ray"]


def set_resource(resource_name: str, capacity: float, node_id: str | None = None) -> None:
    """Raise DeprecationWarning, as in Ray: the resources of a node are fixed when it starts."""
    raise DeprecationWarning(
        f"the resource {resource_name!r} cannot be changed while the node runs; start it with "
        f"init(resources={{{resource_name!r}: {capacity}}})"
    )


def __getattr__(name: str) -> Any:
    if name in _REFUSED:
        raise AttributeError(
            f"Skate has no ray.experimental.{name}: it has no NIXL, and tensors of methods that name it go through the "
            "object store in shared memory"
        )
    return _load(name)
