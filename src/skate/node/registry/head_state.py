"""The durable state of a head: what it begins with, and where its core's records go."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgpack

from skate.node.registry.etcd_store import EtcdStore
from skate.node.registry.record_keys import changes_of, records_in
from skate.node.registry.sqlite_store import SqliteStore
from skate.node.registry.store import ETCD_SCHEME, Change, Store
from skate.node.registry.writer import RecordWriter
from skate.protocol import registry_records as rr
from skate.protocol import shell_events as se

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from skate.protocol.effects import AppendRecords
    from skate.protocol.registry_records import RegistryRecord

#: Keys of this file, which are not the core's; those are packed tuples and begin otherwise.
NEWEST: Final = b"shell/newest number of a member"
#: Numbers of members are reserved so many at a time, so that no join waits for the disk.
RESERVED: Final = 64


class HeadState:
    """Opens a store for a head; call `start` once there is a host, whose core gets `records`.

    Args:
        store: A store that is not open yet.

    Raises:
        ValueError: the store cannot be used as it is.
        ConnectionError: another head uses it.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self.epoch, stored = store.open()
        try:
            own = {NEWEST: stored[NEWEST]} if NEWEST in stored else {}
            kept, self._useless = records_in({key: value for key, value in stored.items() if key not in own})
        except BaseException:  # whatever is wrong with them: nobody else could open the store
            store.close()
            raise
        #: A number that no member has had after it.
        self.newest: int = msgpack.unpackb(own[NEWEST]) if own else 0
        self._reserved = self.newest
        self.records: list[RegistryRecord] = [each for each in kept if each[0] != rr.EPOCH]
        if self.epoch > 1:
            self.records.insert(0, rr.EpochRecord(rr.EPOCH, self.epoch - 1))
        #: The ids of the nodes of the head before.
        self.members = frozenset(each.node_id for each in kept if isinstance(each, rr.MemberRecord))
        self._writer: RecordWriter | None = None
        self._answer: Callable[[Sequence[se.ShellEvent]], None] = lambda events: None
        self._leave: Callable[[str], None] = lambda reason: None

    @classmethod
    def at(cls, place: str) -> HeadState:
        """Open the state at an address of etcd, or in a folder of this machine."""
        return cls(EtcdStore(place) if place.startswith(ETCD_SCHEME) else SqliteStore(place))

    def start(self, answer: Callable[[Sequence[se.ShellEvent]], None], leave: Callable[[str], None]) -> None:
        """Write what a core appends, from now on.

        Args:
            answer: Passes events to the core; called in a thread of its own.
            leave: Ends the head, with the reason; called in another thread than that of the host.
        """
        self._answer, self._leave = answer, leave
        self.store.on_lost = self.lost
        self._writer = RecordWriter(self.store, self)
        self._writer.append(0, [*self._useless, *self._reservation(self.newest)])

    def append(self, effect: AppendRecords) -> None:
        """Write records of the core. The answer comes as an event."""
        assert self._writer is not None, "records are appended by a host that has started"
        self._writer.append(effect.number, list(changes_of(effect.records)))

    def numbered(self, number: int) -> None:
        """Note that a member has this number; later heads give it to nobody else."""
        if self._writer is not None and number + RESERVED // 2 > self._reserved:
            self._writer.append(0, self._reservation(number))

    def _reservation(self, number: int) -> list[Change]:
        self._reserved = number + RESERVED
        return [Change(NEWEST, msgpack.packb(self._reserved))]

    def close(self) -> None:
        """Write what is queued, and release the store. Safe to call more than once."""
        if self._writer is not None:
            self._writer.close()
        else:
            self.store.close()

    # -- outcomes, in the writer's thread

    def stored(self, number: int) -> None:
        """Pass an outcome to the core."""
        self._answer([se.RecordsStored(se.RECORDS_STORED, number)])

    def refused(self, number: int, problem: str) -> None:
        """Pass an outcome to the core."""
        self._answer([se.RecordsRefused(se.RECORDS_REFUSED, number, problem)])

    def lost(self, problem: str) -> None:
        """End the head: another one has its state, or may have it."""
        self._leave(problem)
