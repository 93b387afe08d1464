"""Ray's channels in shared memory. They are rings of a compiled graph here, and cannot be created alone."""

from __future__ import annotations

from typing import Any

from skate.experimental.channel.interface import ChannelInterface


class _GraphChannel(ChannelInterface):
    """A channel that only exists in a compiled graph."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError(
            f"{type(self).__name__} cannot be created alone: values of a compiled graph pass through rings in shared memory that "
            "belong to the graph. Use experimental_compile() for a pipeline of actors, ray.util.queue.Queue for a queue between "
            f"processes{self._more}"
        )

    _more = ""


class Channel(_GraphChannel):
    """Raises NotImplementedError, which names the alternative."""


class BufferedSharedMemoryChannel(_GraphChannel):
    """Raises NotImplementedError, which names the alternative."""


class CompositeChannel(_GraphChannel):
    """Raises NotImplementedError, which names the alternative."""


class TorchTensorAcceleratorChannel(_GraphChannel):
    """Raises NotImplementedError, which names the alternative."""

    _more = ", with_tensor_transport() of a node or ray.util.collective for tensors"


__all__ = ["BufferedSharedMemoryChannel", "Channel", "CompositeChannel", "TorchTensorAcceleratorChannel"]
