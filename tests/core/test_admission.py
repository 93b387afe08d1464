"""Requests for memory wait in fair queues while memory is freed, and for no other reason."""

from __future__ import annotations

import pytest

from skate.core.memory.admission import LOOK_SECONDS, WRITERS_SECONDS
from skate.protocol import messages as m
from skate.protocol import shell_events as se
from skate.protocol.effects import Restore, Spill
from tests.core.store import ROOM, UNIT, Store


def fill(store: Store, cid: int = 1) -> list[bytes]:
    """Fill the memory of a store with values that can be moved; return their ids."""
    return [store.put(cid) for _ in range(4)]


def test_where_there_is_room_nobody_waits() -> None:
    store = Store()
    assert [store.want() and store.answer() for _ in range(4)] == [0, UNIT, 2 * UNIT, 3 * UNIT]
    assert not store.core.admission.lanes and not store.core.snapshot.watchful


def test_who_waits_is_answered_as_soon_as_a_value_goes() -> None:
    store = Store()
    values = fill(store)
    store.want()
    store.obey()
    assert store.answer() is None
    store.send(1, m.FREE, values[3], 1)
    assert store.answer() == 3 * UNIT, "before the disk has done anything"


def test_processes_take_turns() -> None:
    store = Store(drivers=3)
    fill(store)
    for cid, count in ((1, 3), (2, 2), (3, 1)):
        for _ in range(count):
            store.want(cid)
    order = []
    for _ in range(6):
        store.obey()
        number = store.shell(Spill)[0].number
        store.report(se.SpillDone(se.SPILL_DONE, number, True))
        order += served(store, 1, 2, 3)
    assert order == [1, 2, 3, 1, 2, 1]


def test_a_large_request_is_not_overtaken_by_small_ones() -> None:
    store = Store(drivers=2)
    values = fill(store)
    store.silent = {1}
    large = store.want(cid=1, size=3 * UNIT)
    store.send(1, m.FREE, values[0], 1)
    store.want(cid=2)
    assert store.answer(2) is None, "there is room for it, but it is not its turn"
    store.silent.clear()
    store.work()
    assert isinstance(store.answer(1), int) and isinstance(store.answer(2), int)
    assert store.core.objects.records[large].payload[1] == 3 * UNIT


def test_writers_are_waited_for_a_while_as_what_they_write_can_be_moved_then() -> None:
    store = Store(drivers=2)
    writing = [store.want(cid=2) for _ in range(4)]
    store.want(cid=1)
    assert store.work() == 0 and store.answer(1) is None and store.core.snapshot.watchful
    assert store.tick(LOOK_SECONDS) is not None
    assert store.answer(1) is None
    store.send(2, m.PUT, writing[0], ())
    assert store.work() == 1 and isinstance(store.answer(1), int)


def test_writers_are_not_waited_for_for_ever() -> None:
    store = Store(drivers=2)
    for _ in range(4):
        store.want(cid=2)
    store.want(cid=1)
    store.tick(WRITERS_SECONDS)
    store.work()
    assert store.answer(1) == ROOM, "it is written to disk at once"


def test_who_writes_and_waits_itself_is_not_waited_for() -> None:
    store = Store(drivers=2)
    for cid in (1, 1, 2, 2, 1, 2):
        store.want(cid)
    store.work()
    assert len(store.received(1, m.REPLY)) == 3, "as both wait, nothing that they write would become whole"
    store.tick(WRITERS_SECONDS)
    store.work()
    assert len(store.received(2, m.REPLY)) == 3


@pytest.mark.parametrize("reserving", [False, True])
def test_who_gives_up_gets_nothing_and_keeps_nothing(reserving: bool) -> None:
    store = Store(drivers=2)
    fill(store)
    store.looking = {1} if reserving else set()
    oid = store.want(cid=2)
    store.obey()
    assert bool(store.core.admission.reserving) is reserving
    store.send(2, m.FREE, oid, 0)
    store.work()
    assert store.answer(2) is None and store.core.allocator.used == ROOM
    assert not store.core.admission.lanes


@pytest.mark.parametrize("reserving", [False, True])
def test_who_dies_leaves_nothing(reserving: bool) -> None:
    store = Store(drivers=2)
    fill(store)
    store.looking = {1} if reserving else set()
    store.want(cid=2)
    store.obey()
    store.lose(2)
    store.work()
    assert store.core.allocator.used == ROOM, "what was there before is in memory or on disk"
    assert not store.core.admission.lanes


def test_a_second_attempt_whose_value_is_there_is_told_so() -> None:
    store = Store()
    oid = store.put()
    store.send(1, m.ALLOCATE, 77, oid, UNIT)
    assert store.received(1, m.REPLY) == [(m.REPLY, 77, True, None)]


def test_restores_and_writers_take_turns() -> None:
    store = Store(drivers=2)
    values = [store.put() for _ in range(8)]
    for _ in range(4):
        store.want(cid=2)
    store.send(1, m.FETCH, values[0])
    order = []
    for _ in range(3):
        store.obey()
        number = store.shell(Spill)[0].number
        store.report(se.SpillDone(se.SPILL_DONE, number, True))
        order += [*served(store, 2), *("restore" for _ in store.shell(Restore))]
    assert order == [2, "restore", 2], "a restore waits for one writer, not for all"


def served(store: Store, *processes: int) -> list[int]:
    """Return the processes that have just received memory, and write their values."""
    found = []
    for cid in processes:
        for reply in store.received(cid, m.REPLY):
            found.append(cid)
            records = store.core.objects.records
            oid = next(oid for oid in records if records[oid].payload and records[oid].payload[0] == reply[3])
            store.send(cid, m.PUT, oid, ())
    return found
