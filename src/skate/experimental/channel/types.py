"""Transport of a node's value in a compiled graph."""

from __future__ import annotations

from typing import Any

from skate.experimental.channel.communicator import Communicator

AUTO, NCCL, ACCELERATOR, CPU, SHM = "auto", "nccl", "accelerator", "cpu", "shm"
TRANSPORTS = (AUTO, NCCL, ACCELERATOR, CPU, SHM)
DEVICES = ("default", "cpu", "gpu", "cuda")


class ChannelOutputType:
    """Base of all types of channel output."""

    def requires_accelerator(self) -> bool:
        """True if tensors go from device to device."""
        return False

    def get_custom_communicator(self) -> Any:
        """The Communicator that carries tensors; None for shared memory."""
        return None

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class SharedMemoryType(ChannelOutputType):
    """Transport through shared memory, written once and read in place. The size of slots is a setting of the graph."""

    def __init__(self, *, buffer_size_bytes: int | None = None, num_shm_buffers: int | None = None) -> None:
        self.buffer_size_bytes = buffer_size_bytes
        self.num_shm_buffers = num_shm_buffers


class TorchTensorType(ChannelOutputType):
    """A value that contains tensors; `transport` selects how they are sent, the rest goes through shared memory.

    `device` is their device after the transfer: "default" (the sender's), "cpu", "gpu" or "cuda".
    `_static_shape`: all tensors have the shapes of the first ones. `_direct_return`: the value is a single
    tensor. Raises ValueError for a transport or device that does not exist.
    """

    AUTO, NCCL, ACCELERATOR, CPU, SHM = AUTO, NCCL, ACCELERATOR, CPU, SHM

    def __init__(
        self,
        transport: Any = AUTO,
        device: Any = "default",
        _static_shape: bool = False,
        _direct_return: bool = False,
    ) -> None:
        device = getattr(device, "value", device)
        if device not in DEVICES:
            names = ", ".join(map(repr, DEVICES))
            raise ValueError(f"Invalid device {device!r}. Valid options are: {names}.")
        self._communicator = None
        if transport is None:
            transport = AUTO
        if isinstance(transport, Communicator):
            self._communicator = transport
            transport = ACCELERATOR
        if transport not in TRANSPORTS:
            raise ValueError(
                f"Invalid transport type: {transport}. Transport must be one of 'auto', 'nccl', 'shm', 'accelerator' or an "
                "instance of Communicator type."
            )
        self.transport = transport
        self.device = device
        self.static_shape = _static_shape
        self.direct_return = _direct_return

    def requires_accelerator(self) -> bool:
        """True if tensors go from device to device."""
        return self.transport in (NCCL, ACCELERATOR)

    def get_custom_communicator(self) -> Any:
        """The Communicator that carries tensors; None for the one of the graph."""
        return self._communicator

    def __repr__(self) -> str:
        return f"TorchTensorType(transport={self.transport!r}, device={self.device!r})"


__all__ = ["ChannelOutputType", "SharedMemoryType", "TorchTensorType"]
