"""Kinds of value, status of an answer, and the client id of the shell."""

from __future__ import annotations

from typing import Final

# A value is (kind, payload).
PENDING: Final = 0  # not available yet
INLINE: Final = 1  # payload: bytes
ARENA: Final = 2  # payload: (offset, size) in the arena of this node
ERROR: Final = 3  # payload: (exception class name, fields)
UNKNOWN: Final = 4  # a borrowed ref: ask the node
REMOTE: Final = 5  # on another node, or not in memory; payload: size in bytes
SPILLED: Final = 6  # on disk, known only to the node; its clients see REMOTE

# Status of DONE.
OK: Final = 0
FAILED: Final = 1
CANCELLED: Final = 2
PARTIAL: Final = 3  # failed after the first results: returns are (error, results)

# Kinds of metrics.
COUNTER: Final = "counter"
GAUGE: Final = "gauge"
HISTOGRAM: Final = "histogram"

#: Client id of the shell around a node, whose effects are not messages.
SHELL: Final = -1

#: The address of a node that no other machine can reach.
LOOPBACK: Final = "127.0.0.1"
#: Keys of packages of runtime environments, which nodes fetch from each other as values, begin so.
PACKAGE: Final = b"package "
#: Label of a node that is there for one driver, on a machine outside of the cluster: it gets work only if nothing else fits.
DRIVER_NODE: Final = "skate.io/driver-node"
