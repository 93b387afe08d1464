"""Channels of compiled graphs: transport of values, and the interface of custom transports for tensors.

types.py               SharedMemoryType, TorchTensorType
communicator.py        Communicator
group_communicator.py  CPUCommunicator, NCCLCommunicator
context.py             ChannelContext
graph.py               the shared memory of a graph, for `skate.dag`
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from skate.experimental.channel.communicator import Communicator
    from skate.experimental.channel.context import ChannelContext
    from skate.experimental.channel.group_communicator import CPUCommunicator
    from skate.experimental.channel.types import ChannelOutputType, SharedMemoryType, TorchTensorType

_HOME = {
    "CPUCommunicator": "group_communicator",
    "ChannelContext": "context",
    "ChannelOutputType": "types",
    "Communicator": "communicator",
    "SharedMemoryType": "types",
    "TorchTensorType": "types",
}

__all__ = [
    "CPUCommunicator",
    "ChannelContext",
    "ChannelOutputType",
    "Communicator",
    "SharedMemoryType",
    "TorchTensorType",
]


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'skate.experimental.channel' has no attribute {name!r}")
    return getattr(importlib.import_module(f"skate.experimental.channel.{home}"), name)
