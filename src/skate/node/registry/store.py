"""The interface of a store for the records of a head, and the errors of all stores.

A record has a key, and its last value counts, so what a store returns when it is opened is the state and not its history. The
records come in the order in which their keys were first written.
Each opening is an *epoch*: the store counts it durably before anything else, so that two heads never have the same one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

#: The scheme of stores in etcd.
ETCD_SCHEME: Final = "etcd://"


class StoreTakenError(ConnectionError):
    """Raised when another head uses the store."""


class StoreFullError(OSError):
    """Raised when the store has no space for a record; the records that it has are intact."""


class StoreLostError(ConnectionError):
    """Raised when another head has taken the store over; this one must not write or answer any more."""


class Change(NamedTuple):
    """A new value for a key, or None to remove it."""

    key: bytes
    value: bytes | None


class Opened(NamedTuple):
    """A store that this process has for itself: the epoch, from 1, and the records."""

    epoch: int
    records: Mapping[bytes, bytes]


class Store(Protocol):
    """Keeps records durably, for one head at a time. Any thread may use it, but only one at a time."""

    #: The store as errors and status name it.
    name: str
    #: Called in any thread, once, with the reason if another head may have the store now; this one has to end.
    on_lost: Callable[[str], None]

    def open(self) -> Opened:
        """Take the store for this process, begin its next epoch, and return the records.

        Raises StoreTakenError if another head has it, ValueError if it cannot be used as it is.
        """

    def append(self, changes: Sequence[Change]) -> None:
        """Write changes as one unit: when this returns, all are durable; when it raises, none is.

        Raises StoreFullError without space, StoreLostError if another head has taken the store over, OSError otherwise.
        """

    def close(self) -> None:
        """Release the store. Safe to call more than once."""
