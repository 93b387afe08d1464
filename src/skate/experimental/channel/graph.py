"""Parts of compiled graphs: the shared memory of a graph, and values in it."""

from __future__ import annotations

from skate.client.tensor.graph_channels import (
    SYSTEM_GROUP,
    Closed,
    Failure,
    GraphFile,
    Message,
    Place,
    RingPlan,
    ValueReader,
    ValueWriter,
    Watch,
    adopt_call,
    at_shutdown,
)

__all__ = [
    "SYSTEM_GROUP",
    "Closed",
    "Failure",
    "GraphFile",
    "Message",
    "Place",
    "RingPlan",
    "ValueReader",
    "ValueWriter",
    "Watch",
    "adopt_call",
    "at_shutdown",
]
