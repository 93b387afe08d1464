"""Ray's channels in shared memory, which are rings of a compiled graph here and cannot be created alone."""

from __future__ import annotations

from typing import Any

from skate.experimental.channel.interface import ChannelInterface


class _GraphChannel(ChannelInterface):
    """A channel that only a compiled graph has."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError(
            f"{type(self).__name__} cannot be created alone: values of a compiled graph pass through rings in shared memory that "
            "belong to the graph. Use experimental_compile() for a pipeline of actors, ray.util.queue.Queue for a queue between "
            f"processes{self._more}"
        )

    _more = ""


class Channel(_GraphChannel):
    """Refused with NotImplementedError, which names what to use instead."""


class BufferedSharedMemoryChannel(_GraphChannel):
    """Refused with NotImplementedError, which names what to use instead."""


class CompositeChannel(_GraphChannel):
    """Refused with NotImplementedError, which names what to use instead."""


class TorchTensorAcceleratorChannel(_GraphChannel):
    """Refused with NotImplementedError, which names what to use instead."""

    _more = ", with_tensor_transport() of a node or ray.util.collective for tensors"


__all__ = ["BufferedSharedMemoryChannel", "Channel", "CompositeChannel", "TorchTensorAcceleratorChannel"]
