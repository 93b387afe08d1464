"""Channels of compiled graphs: transport of values, and the interface of custom transports for tensors.

types.py               SharedMemoryType, TorchTensorType
communicator.py        Communicator
group_communicator.py  CPUCommunicator, NCCLCommunicator
context.py             ChannelContext
graph.py               the shared memory of a graph, for `skate.dag`
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from skate import lazy_loader

if TYPE_CHECKING:
    from skate.experimental.channel.communicator import Communicator as Communicator
    from skate.experimental.channel.context import ChannelContext as ChannelContext
    from skate.experimental.channel.group_communicator import CPUCommunicator as CPUCommunicator
    from skate.experimental.channel.types import ChannelOutputType as ChannelOutputType
    from skate.experimental.channel.types import SharedMemoryType as SharedMemoryType
    from skate.experimental.channel.types import TorchTensorType as TorchTensorType

_HOMES = {
    "skate.experimental.channel.communicator": ("Communicator",),
    "skate.experimental.channel.context": ("ChannelContext",),
    "skate.experimental.channel.group_communicator": ("CPUCommunicator",),
    "skate.experimental.channel.types": ("ChannelOutputType", "SharedMemoryType", "TorchTensorType"),
}

__getattr__, __dir__, __all__ = lazy_loader.attach(globals(), _HOMES)
