"""Values are spilled when others need memory, and restored when they are read."""

from __future__ import annotations

import pytest

from skate.core.memory.spill_manager import FULL_SECONDS
from skate.core.memory.spill_move import RECALL_SECONDS, REFUSED_SECONDS
from skate.protocol import messages as m
from skate.protocol import shell_events as se
from skate.protocol.effects import DropCopy, FreeBlocks, ServeReads, Spill
from tests.core.rig import first
from tests.core.store import DISK, ROOM, UNIT, Store

# -- out


def test_what_fits_stays_and_the_disk_is_told_nothing() -> None:
    store = Store()
    values = [store.put() for _ in range(4)]
    assert not any(store.on_disk(*values)) and store.work() == 0 and store.disk_used == 0
    assert not store.core.spill_manager.used_once


def test_the_value_that_was_not_used_for_the_longest_time_goes_first() -> None:
    store = Store()
    a, b, c, d = (store.put() for _ in range(4))
    store.get(a)
    e = store.put()
    assert store.on_disk(a, b, c, d, e) == [False, True, False, False, False]
    assert store.in_memory == ROOM and store.disk_used == UNIT


def test_a_value_goes_only_when_every_process_that_holds_it_has_given_it_up() -> None:
    store = Store(drivers=3)
    value = store.put(cid=1)
    for cid in (2, 3):
        store.send(cid, m.HOLD, value)
        store.get(value, cid)
    store.silent = {3}
    for _ in range(3):
        store.put()
    store.core.spill_manager.refused_at = {oid: 0.0 for oid in store.core.spill_manager.warm if oid != value}
    store.want()
    store.obey()
    assert {1, 2} <= set(store.recalled) and not store.shell(Spill) and store.answer() is None
    store.silent.clear()
    store.work()
    assert store.kind(value) == m.SPILLED and isinstance(store.answer(), int)


def test_values_that_are_looked_at_are_never_moved() -> None:
    store = Store(drivers=2)
    seen = [store.put(cid=2) for _ in range(3)]
    other = store.put()
    store.looking = {2}
    made = [store.put() for _ in range(8)]
    assert store.on_disk(*seen) == [False] * 3, "a process has views of them"
    assert store.on_disk(other, *made[:-1]) == [True] * 8
    assert all(store.core.objects.records[oid].payload is not None for oid in seen)


def test_what_all_look_at_makes_new_values_go_to_disk_at_once() -> None:
    store = Store()
    seen = [store.put() for _ in range(4)]
    store.looking = {1}
    value = store.put()
    assert store.core.objects.records[value].payload[0] >= ROOM and not any(store.on_disk(*seen))
    assert store.get(value) == (m.ARENA, (ROOM, UNIT)), "it is read there"


def test_a_process_that_is_told_the_place_meanwhile_ends_the_move() -> None:
    store = Store(drivers=2)
    values = [store.put() for _ in range(4)]
    store.want()
    store.obey()
    (moved,) = [job.oid for job in store.shell(Spill)]
    assert moved == values[0]
    store.send(2, m.HOLD, moved)
    assert store.get(moved, 2)[0] == m.ARENA
    store.report(se.SpillDone(se.SPILL_DONE, next(iter(store.core.spill_manager.writes)), True))
    assert store.kind(moved) == m.ARENA, "it was being used while its copy was written"
    store.work()
    assert isinstance(store.answer(), int) and store.disk_used == UNIT


def test_a_process_that_knows_of_fewer_grants_has_not_looked_at_all_it_was_sent() -> None:
    store = Store()
    value = store.put()
    for _ in range(3):
        store.put()
    store.silent = {1}
    store.want()
    ((_, number, oid),) = store.received(1, m.RECALL)
    assert oid == value
    store.send(1, m.RECALLED, number, oid, 0)
    assert not store.shell(Spill) and store.kind(value) == m.ARENA


def test_a_stopped_process_does_not_stop_the_others() -> None:
    store = Store(drivers=2)
    kept = [store.put(cid=2) for _ in range(3)]
    store.put()
    store.silent = {2}
    store.want()
    assert store.work() == 0 and store.answer() is None
    store.tick(RECALL_SECONDS)
    assert store.work() == 1, "what is the other's goes instead"
    assert isinstance(store.answer(), int) and not any(store.on_disk(*kept))


def test_a_process_that_ends_gives_up_what_it_looked_at() -> None:
    store = Store(drivers=2)
    for _ in range(4):
        oid = store.put()
        store.send(2, m.HOLD, oid)
        store.get(oid, 2)
    store.silent = {2}
    store.want()
    assert store.work() == 0
    store.lose(2)
    store.work()
    assert isinstance(store.answer(), int)


def test_a_refused_value_is_left_alone_for_a_while() -> None:
    store = Store(drivers=2)
    seen = store.put(cid=2)
    for _ in range(3):
        store.put()
    store.looking = {2}
    store.put()
    assert store.recalled.count(2) == 1
    store.put()
    assert store.recalled.count(2) == 1
    store.tick(REFUSED_SECONDS * 2)
    for _ in range(4):
        store.put()
    assert store.recalled.count(2) == 2 and store.kind(seen) == m.ARENA


@pytest.mark.parametrize("begun", [True, False])
def test_arguments_of_tasks_that_run_or_are_next_stay(begun: bool) -> None:
    store = Store()
    if not begun:
        busy = store.submit(name="busy")
    value = store.put()
    task = store.submit(value)
    if begun:
        worker = store.worker_of(task)
        store.silent = {worker}
    others = [store.put() for _ in range(6)]
    assert store.kind(value) == m.ARENA and sum(store.on_disk(*others)) == 3
    if not begun:
        store.done(store.worker_of(busy), busy)
        assert store.worker_of(task)


# -- restored values


def test_a_value_comes_back_when_it_is_asked_for() -> None:
    store = Store()
    values = [store.put() for _ in range(12)]
    assert sum(store.on_disk(*values)) == 8
    for value in values:
        kind, payload = store.get(value)
        assert kind == m.ARENA and payload[0] < ROOM
    assert store.in_memory <= ROOM


def test_a_value_that_came_back_leaves_again_for_free() -> None:
    store = Store()
    values = [store.put() for _ in range(8)]
    for value in values:
        store.get(value)
    store.work()
    before = store.disk_used
    assert store.work() == 0
    for value in values:
        store.send(1, m.FETCH, value)
        assert store.work() == 0, "its copy is still there"
    assert store.disk_used == before == 8 * UNIT


def test_a_value_goes_with_its_last_ref_from_disk_too() -> None:
    store = Store()
    values = [store.put() for _ in range(12)]
    for value in values[:2]:
        store.get(value)
    on_disk = store.disk_used
    assert on_disk == 10 * UNIT, "copies stay there when a value comes back"
    for value in values:
        store.send(1, m.FREE, value, store.core.objects.records[value].holders[1])
    assert not store.core.objects.records and store.core.allocator.used == 0
    assert sum(size for _, size in store.shell(FreeBlocks)) == on_disk, "its blocks go back to the disk"


def test_a_task_waits_for_its_argument_to_come_back() -> None:
    store = Store(cpus=2)
    values = [store.put() for _ in range(8)]
    task = store.submit(values[0])
    assert store.core.tasks[task].worker is None
    assert "on disk" in store.core.why_waiting(store.core.tasks[task])
    store.work()
    assert store.core.tasks[task].worker is not None
    assert store.kind(values[0]) == m.ARENA


def test_a_call_of_an_actor_waits_for_its_argument_and_calls_keep_their_order() -> None:
    store = Store(cpus=2)
    actor, worker = store.living()
    values = [store.put() for _ in range(8)]
    calls = [store.call(actor, values[0]), store.call(actor)]
    assert not store.received(worker, m.INVOKE)
    store.work()
    assert [message[1] for message in store.received(worker, m.INVOKE)] == calls


def test_a_cancelled_task_does_not_keep_those_behind_it_waiting() -> None:
    store = Store()
    values = [store.put() for _ in range(8)]
    lacking, other = store.submit(values[0]), store.submit()
    assert store.core.tasks[other].worker is None, "it is behind one that waits for its argument"
    store.send(1, m.CANCEL, lacking, False, False)
    assert store.core.tasks[other].worker is not None


def test_a_value_larger_than_memory_is_read_on_disk() -> None:
    store = Store()
    small = store.put()
    value = store.put(size=2 * ROOM)
    assert store.get(value) == (m.ARENA, (ROOM, 2 * ROOM))
    assert store.kind(small) == m.ARENA, "nothing had to go for it"


def test_what_finds_no_room_in_memory_is_read_on_disk() -> None:
    store = Store()
    values = [store.put() for _ in range(5)]
    (spilled,) = [oid for oid in values if store.kind(oid) == m.SPILLED]
    store.looking = {1}
    kind, payload = store.get(spilled)
    assert kind == m.ARENA and payload[0] >= ROOM


# -- the disk


def test_a_full_disk_is_an_error_and_loses_nothing() -> None:
    store = Store()
    values = [store.put() for _ in range(4)]
    store.want()
    store.work(full=True)
    name, fields = store.answer()
    assert name == "OutOfDiskError"
    for output in (
        f"{UNIT} bytes",
        f"{ROOM} of {ROOM} bytes",
        "the disk of /data has 3 KiB free",
        "object_spilling_directory",
    ):
        assert output in fields["message"]
    for value in values:
        assert store.get(value)[0] == m.ARENA
    assert store.disk_used == 0


def test_a_full_disk_is_looked_at_again_after_a_while_or_when_something_was_given_back() -> None:
    store = Store()
    values = [store.put() for _ in range(4)]
    store.want()
    store.work(full=True)
    store.answer()
    assert not store.core.spill_manager.able
    store.send(1, m.FREE, values[0], 1)
    store.tick(FULL_SECONDS)
    store.put()
    store.put()
    assert store.core.spill_manager.able and store.disk_used


def test_no_disk_at_all_is_a_full_store() -> None:
    store = Store(disk_bytes=())
    values = [store.put() for _ in range(4)]
    store.want()
    name, fields = store.answer()
    assert name == "ObjectStoreFullError" and "no disk to spill to" in fields["message"]
    assert "init(object_store_memory=" in fields["message"]
    assert all(store.get(value)[0] == m.ARENA for value in values)


def test_copies_go_to_one_disk_after_the_other_and_round_a_full_one() -> None:
    store = Store(disk_bytes=(DISK, DISK, DISK))
    for _ in range(4):
        store.put()
    numbers = []
    for turn in range(6):
        store.want()
        store.obey()
        job = store.shell(Spill)[0]
        disk = store.core.allocator.disk_of(job.place + store.core.allocator.boundary)
        numbers.append(disk)
        full = disk == 2
        store.report(se.SpillDone(se.SPILL_DONE, job.number, not full))
        store.work()
        offset = store.answer()
        assert isinstance(offset, int) and offset < ROOM, f"turn {turn} found no room in memory"
        store.send(1, m.PUT, list(store.core.objects.records)[-1], ())
    assert set(numbers) == {0, 1, 2} and numbers.count(2) == 1


def test_a_copy_that_others_cannot_read_comes_back_to_the_first_disk_if_memory_is_in_use() -> None:
    store = Store(disk_bytes=(DISK, DISK))
    values = [store.put() for _ in range(6)]
    store.looking = {1}
    for value in values:
        kind, payload = store.get(value)
        assert kind == m.ARENA and store.core.allocator.disk_of(payload[0]) < 1


def test_a_copy_that_cannot_be_read_is_a_lost_value_and_the_error_says_why() -> None:
    store = Store()
    values = [store.put() for _ in range(5)]
    store.send(1, m.FETCH, values[0])
    store.work(unreadable=True)
    kind, (name, fields) = store.got()
    assert kind == m.ERROR and name == "ObjectReconstructionFailedError"
    assert "its copy is damaged" in fields["reason_message"]


def test_a_task_whose_result_cannot_be_read_runs_again() -> None:
    store = Store(cpus=2, spill_outside=True)
    task = store.submit(retries=3)
    worker = store.worker_of(task)
    result = first(task)
    store.send(1, m.ESCAPE, result)
    store.send(worker, m.ALLOCATE, 1, result, UNIT)
    offset = store.answer(worker)
    store.done(worker, task, returns=((m.ARENA, (offset, UNIT), ()),))
    for _ in range(4):
        store.put()
    assert store.kind(result) == m.SPILLED
    store.send(1, m.FETCH, result)
    store.work(unreadable=True)
    again = store.core.tasks[task]
    assert again.attempt == 1 and again.worker is not None, "it is made again"
    store.send(again.worker.cid, m.ALLOCATE, 2, result, UNIT)
    store.work()
    offset = store.answer(again.worker.cid)
    store.done(again.worker.cid, task, returns=((m.ARENA, (offset, UNIT), ()),))
    assert store.got()[0] == m.ARENA


def test_what_a_cancelled_stream_has_given_is_not_made_again() -> None:
    store = Store(cpus=2, spill_outside=True)
    task = store.submit(retries=3, streaming=True)
    worker, item = store.worker_of(task), first(task)
    store.send(worker, m.ALLOCATE, 1, item, UNIT)
    store.send(worker, m.ITEM, task, 1, m.ARENA, (store.answer(worker), UNIT), ())
    store.send(1, m.CANCEL, task, True, False)
    store.lose(worker)
    for _ in range(4):
        store.put()
    store.send(1, m.FETCH, item)
    store.work(unreadable=True)
    assert store.got()[0] == m.ERROR and task not in store.core.tasks


def test_storage_outside_is_told_the_numbers_of_values_and_to_delete_them() -> None:
    store = Store(spill_outside=True)
    values = [store.put() for _ in range(6)]
    assert store.core.allocator.used == ROOM, "nothing is on a disk here"
    assert store.get(values[0])[0] == m.ARENA
    for value in values:
        store.send(1, m.FREE, value, store.core.objects.records[value].holders[1])
    assert len(store.shell(DropCopy)) == 3 and store.core.allocator.used == 0


def test_a_value_that_another_node_reads_stays_for_a_while() -> None:
    store = Store()
    values = [store.put() for _ in range(4)]
    store.report(se.RemoteRead(se.REMOTE_READ, values[0]))
    store.put()
    assert store.on_disk(*values) == [False, True, False, False]
    assert store.core.snapshot.on_disk(values[1]), "it has to come back first"
    store.report(se.RemoteRead(se.REMOTE_READ, values[1]))
    store.work()
    assert [each.oid for each in store.shell(ServeReads)] == [values[1]] and store.kind(values[1]) == m.ARENA
