"""Direct transport: tensors stay with the actor that created them, and go directly to the actor that needs them.

tensor_transport_manager.py    the interface of a transport
collective_tensor_transport.py gloo and NCCL, between members of a collective group
"""

from __future__ import annotations

from typing import Any

from skate.client.session import session
from skate.client.task import option_values
from skate.client.tensor import tensor_store, tensor_transports, tensors
from skate.experimental.rdt.tensor_transport_manager import (
    CommunicatorMetadata,
    FetchRequest,
    TensorTransportManager,
    TensorTransportMetadata,
)

__all__ = [
    "CommunicatorMetadata",
    "FetchRequest",
    "TensorTransportManager",
    "TensorTransportMetadata",
    "register_tensor_transport",
    "set_target_device_for_ref",
    "set_target_for_ref",
    "wait_tensor_freed",
]


def register_tensor_transport(
    transport_name: str,
    devices: list[str],
    transport_manager_class: type[TensorTransportManager],
    data_type: type,
) -> None:
    """Register a transport, for actors that are called from this process.

    `devices`: the supported kinds of devices, such as "cpu". `data_type`: the supported type, such as
    torch.Tensor or numpy.ndarray. Raises ValueError for a taken name, and for a class that is not a
    TensorTransportManager.
    """
    if transport_name.upper() not in option_values.TENSOR_TRANSPORTS and not issubclass(
        transport_manager_class, TensorTransportManager
    ):
        raise ValueError(
            f"transport_manager_class {transport_manager_class.__name__} must be a subclass of TensorTransportManager."
        )
    tensor_transports.register(transport_name, devices, transport_manager_class, data_type)


def wait_tensor_freed(tensor: Any, timeout: float | None = None) -> None:
    """Wait until no refs to a value with this tensor are left, so that the actor may write to it.

    `timeout` is in seconds. Raises TimeoutError after the timeout.
    """
    store = tensor_store.existing(session.current_or_none())
    if store is not None:
        store.wait_freed(tensor, timeout)


def set_target_for_ref(ref: Any, target: list[Any]) -> None:
    """Make `ray.get` receive the tensors of a ref into these, if its transport supports it; shapes and types
    must match.

    Raises ValueError for a ref that was not created with a tensor transport; `ray.get` raises it for tensors
    that do not fit.
    """
    tensors.set_target(ref, list(target))


def set_target_device_for_ref(ref: Any, target_device: str) -> None:
    """Make `ray.get` receive the tensors of a ref on a device, such as "cpu" or "cuda:0", if its transport supports it.

    Raises ValueError for a ref that was not created with a tensor transport, and for a device that the
    transport does not support.
    """
    tensors.set_target(ref, str(target_device))
