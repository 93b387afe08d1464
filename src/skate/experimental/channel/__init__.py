"""Channels of compiled graphs: transport of values, and the interface of custom transports for tensors.

types.py               SharedMemoryType, TorchTensorType
interface.py           ChannelInterface, and the channels within one process
endpoints.py           readers and writers of several channels
ring_channels.py       channels in shared memory, which only a graph can create
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
    from skate.experimental.channel.endpoints import AwaitableBackgroundReader as AwaitableBackgroundReader
    from skate.experimental.channel.endpoints import AwaitableBackgroundWriter as AwaitableBackgroundWriter
    from skate.experimental.channel.endpoints import ReaderInterface as ReaderInterface
    from skate.experimental.channel.endpoints import SynchronousReader as SynchronousReader
    from skate.experimental.channel.endpoints import SynchronousWriter as SynchronousWriter
    from skate.experimental.channel.endpoints import WriterInterface as WriterInterface
    from skate.experimental.channel.group_communicator import CPUCommunicator as CPUCommunicator
    from skate.experimental.channel.interface import CachedChannel as CachedChannel
    from skate.experimental.channel.interface import ChannelInterface as ChannelInterface
    from skate.experimental.channel.interface import CompiledDAGArgs as CompiledDAGArgs
    from skate.experimental.channel.interface import IntraProcessChannel as IntraProcessChannel
    from skate.experimental.channel.ring_channels import (
        BufferedSharedMemoryChannel as BufferedSharedMemoryChannel,
    )
    from skate.experimental.channel.ring_channels import Channel as Channel
    from skate.experimental.channel.ring_channels import CompositeChannel as CompositeChannel
    from skate.experimental.channel.ring_channels import (
        TorchTensorAcceleratorChannel as TorchTensorAcceleratorChannel,
    )
    from skate.experimental.channel.types import ChannelOutputType as ChannelOutputType
    from skate.experimental.channel.types import SharedMemoryType as SharedMemoryType
    from skate.experimental.channel.types import TorchTensorType as TorchTensorType

_HOMES = {
    "skate.experimental.channel.communicator": ("Communicator",),
    "skate.experimental.channel.context": ("ChannelContext",),
    "skate.experimental.channel.endpoints": (
        "AwaitableBackgroundReader",
        "AwaitableBackgroundWriter",
        "ReaderInterface",
        "SynchronousReader",
        "SynchronousWriter",
        "WriterInterface",
    ),
    "skate.experimental.channel.group_communicator": ("CPUCommunicator",),
    "skate.experimental.channel.interface": (
        "CachedChannel",
        "ChannelInterface",
        "CompiledDAGArgs",
        "IntraProcessChannel",
    ),
    "skate.experimental.channel.ring_channels": (
        "BufferedSharedMemoryChannel",
        "Channel",
        "CompositeChannel",
        "TorchTensorAcceleratorChannel",
    ),
    "skate.experimental.channel.types": ("ChannelOutputType", "SharedMemoryType", "TorchTensorType"),
}

__getattr__, __dir__, __all__ = lazy_loader.attach(globals(), _HOMES)
