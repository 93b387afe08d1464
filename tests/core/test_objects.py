"""Objects: grants and pins, memory, and values that are never created."""

from skate.core.object.lifetimes import FREED
from skate.protocol import messages as m
from tests.core.rig import Rig, first


def allocate(rig, cid, oid, size=100_000):
    rig.send(cid, m.ALLOCATE, 1, oid, size)
    return rig.received(cid, m.REPLY)[-1][3]


def test_a_put_value_lives_until_its_holder_lets_go():
    rig = Rig()
    oid = rig.oid()
    offset = allocate(rig, 1, oid)
    rig.send(1, m.PUT, oid, ())
    assert rig.core.objects.records[oid].payload == (offset, 100_000)
    rig.send(1, m.FREE, oid, 1)
    assert not rig.core.objects.records
    assert rig.core.allocator.used == 0


def test_a_value_keeps_what_is_inside_it():
    rig = Rig()
    inner, outer = rig.oid(), rig.oid()
    rig.send(1, m.PUBLISH, inner, m.INLINE, b"inner", (), True)
    rig.send(1, m.PUBLISH, outer, m.INLINE, b"outer", (inner,), True)
    rig.send(1, m.FREE, inner, 1)
    assert inner in rig.core.objects.records
    rig.send(1, m.FREE, outer, 1)
    assert not rig.core.objects.records


def test_grants_that_cross_on_the_wire_are_counted():
    rig = Rig(drivers=2)
    oid = rig.oid()
    rig.send(1, m.ESCAPE, oid)
    rig.send(2, m.HOLD, oid)
    rig.send(2, m.HOLD, oid)
    rig.send(2, m.FREE, oid, 1)
    rig.send(1, m.PUBLISH, oid, m.INLINE, b"value", (), False)
    rig.send(1, m.FREE, oid, 1)
    assert rig.core.objects.records[oid].holders == {2: 1}
    rig.send(2, m.FREE, oid, 1)
    assert not rig.core.objects.records


def test_a_fetched_value_in_the_arena_is_held_for_who_fetched_it():
    rig = Rig(drivers=2)
    oid = rig.oid()
    allocate(rig, 1, oid)
    rig.send(2, m.HOLD, oid)
    rig.send(2, m.FETCH, oid)
    assert rig.received(2, m.VALUE) == []
    rig.send(1, m.PUT, oid, ())
    assert len(rig.received(2, m.VALUE)) == 1
    assert rig.core.objects.records[oid].holders == {1: 1, 2: 2}


def test_a_value_whose_only_teller_died_is_an_error_for_all_who_wait():
    rig = Rig(drivers=2)
    oid = rig.oid(1)
    rig.send(1, m.ESCAPE, oid)  # announced, but the value itself was never sent
    rig.send(2, m.HOLD, oid)
    rig.send(2, m.FETCH, oid)
    waiting = rig.submit(oid, cid=2)
    rig.lose(1)
    assert rig.received(2, m.VALUE)[0][3][0] == "OwnerDiedError"
    assert rig.result(waiting, 2) == "OwnerDiedError"


def test_a_ref_that_nobody_can_ever_fill_is_not_waited_for():
    rig = Rig()
    nobodys = b"\x07" * 28
    rig.send(1, m.HOLD, nobodys)
    rig.send(1, m.FETCH, nobodys)
    assert rig.received(1, m.VALUE)[0][2] == m.ERROR


def test_memory_of_a_task_that_fails_after_it_was_set_apart_is_free_again():
    rig = Rig()
    task = rig.submit(returns=2)
    worker = rig.worker_of(task)
    allocate(rig, worker, first(task))
    assert rig.core.allocator.used
    rig.done(worker, task, m.FAILED)
    assert rig.result(task) == "RayTaskError"
    assert rig.core.allocator.used == 0
    rig.send(1, m.FREE, first(task), 1)  # received with the result
    assert not rig.core.objects.records


def test_memory_of_a_first_attempt_is_free_again_when_the_second_answers_inline():
    rig = Rig()
    task = rig.submit(retries=1)
    worker = rig.worker_of(task)
    allocate(rig, worker, first(task))
    rig.done(worker, task, m.FAILED, retriable=True)
    rig.done(rig.worker_of(task), task)
    assert rig.result(task) == "ok"
    assert rig.core.allocator.used == 0


def test_memory_of_a_writer_that_died_or_gave_up_is_free_again():
    rig = Rig()
    worker = rig.worker_of(rig.submit())
    allocate(rig, worker, rig.oid(worker))
    oid = rig.oid(1)
    allocate(rig, 1, oid)
    rig.send(1, m.FREE, oid, 0)
    assert list(rig.core.objects.records.values())[0].writer == worker
    assert len(rig.core.objects.records) == 1
    rig.lose(worker)
    assert rig.core.allocator.used == 0
    assert not rig.core.objects.records


def test_a_full_store_is_said_in_numbers_and_recovers():
    rig = Rig(arena_bytes=1 << 20)
    oid = rig.oid()
    rig.send(1, m.ALLOCATE, 1, oid, 1 << 21)
    _, _, ok, (name, fields) = rig.received(1, m.REPLY)[0]
    assert not ok
    assert name == "ObjectStoreFullError"
    assert str(1 << 21) in fields["message"]
    assert allocate(rig, 1, oid, 1000) is not None


def test_a_task_that_ends_before_its_arguments_come_no_longer_keeps_them():
    rig = Rig(drivers=2)
    oid = rig.oid(1)
    rig.send(1, m.ESCAPE, oid)
    rig.send(2, m.HOLD, oid)
    waiting = rig.submit(oid, oid, cid=2)
    rig.send(2, m.CANCEL, waiting, False, True)
    rig.send(2, m.FREE, oid, 1)
    rig.send(1, m.FREE, oid, 1)
    assert not rig.core.objects.records


def test_who_asked_for_a_value_and_gives_its_ref_back_waits_for_it_no_more():
    rig = Rig(drivers=2)
    oid = rig.oid(1)
    rig.send(2, m.HOLD, oid)
    rig.send(2, m.FETCH, oid)
    assert oid in rig.core.objects.records
    rig.send(2, m.FREE, oid, 1)
    assert not rig.core.objects.records


def test_who_watches_an_object_is_told_when_it_is_freed():
    rig = Rig(drivers=2)
    inner, outer = rig.oid(), rig.oid()
    rig.send(1, m.PUBLISH, inner, m.INLINE, b"inner", (), True)
    rig.send(1, m.WATCH, inner)
    rig.send(1, m.PUBLISH, outer, m.INLINE, b"outer", (inner,), True)
    rig.send(1, m.FREE, inner, 1)
    rig.send(2, m.HOLD, inner)
    rig.send(1, m.FREE, outer, 1)
    assert rig.received(1, m.FREED) == []
    rig.send(2, m.FREE, inner, 1)
    assert rig.received(1, m.FREED) == [(m.FREED, inner)]
    assert not rig.core.objects.watched


def test_who_watches_what_is_not_there_is_told_at_once():
    rig = Rig()
    oid = rig.oid()
    rig.send(1, m.WATCH, oid)
    assert rig.received(1, m.FREED) == [(m.FREED, oid)]


def test_the_end_of_a_stream_whose_reader_dies_is_an_error() -> None:
    rig = Rig(cpus=2, drivers=2)
    stream = rig.submit(streaming=True)
    end = stream + bytes(4)
    rig.send(1, m.ESCAPE, end)
    rig.send(2, m.HOLD, end)
    waiting = rig.submit(end, cid=2)
    rig.lose(1)
    rig.done(rig.worker_of(stream), stream)
    assert rig.result(waiting, 2) == "OwnerDiedError"


def test_what_its_owner_has_freed_is_an_error_for_whoever_asks_for_it():
    rig = Rig(drivers=3)
    freed = rig.oid(1)
    rig.send(1, m.PUBLISH, freed, m.INLINE, b"value", (), True)
    rig.send(1, m.FREE, freed, 1)
    assert not rig.core.objects.records
    rig.send(2, m.FETCH, freed)  # without a HOLD, as of a process whose HOLD was lost
    assert rig.received(2, m.VALUE)[0][3][0] == FREED
    assert not rig.core.objects.records
    rig.send(2, m.HOLD, freed)
    assert rig.result(rig.submit(freed, cid=2), 2) == FREED
    rig.send(2, m.FREE, freed, 1)
    outer = rig.oid(3)
    rig.send(3, m.PUBLISH, outer, m.INLINE, b"outer", (freed,), True)
    rig.send(1, m.HOLD, freed)  # also the owner itself does not wait for what it has freed
    rig.send(1, m.FETCH, freed)
    assert rig.received(1, m.VALUE)[0][3][0] == FREED
    rig.send(1, m.FREE, freed, 1)
    rig.send(3, m.FREE, outer, 1)
    assert not rig.core.objects.records


def test_a_result_that_is_yet_to_come_is_waited_for_also_after_it_was_let_go():
    rig = Rig()
    task = rig.submit()
    result = first(task)
    rig.send(1, m.ESCAPE, result)
    rig.send(1, m.FREE, result, 1)
    assert result not in rig.core.objects.records
    rig.send(1, m.HOLD, result)
    rig.send(1, m.FETCH, result)
    assert rig.received(1, m.VALUE) == []
    rig.done(rig.worker_of(task), task)
    assert [message[2] for message in rig.received(1, m.VALUE)] == [m.INLINE]


def test_an_item_of_a_stream_that_was_let_go_does_not_come_again():
    rig = Rig()
    task = rig.submit(streaming=True)
    worker = rig.worker_of(task)
    rig.send(1, m.ESCAPE, first(task))
    rig.send(worker, m.ITEM, task, 1, m.INLINE, b"one", ())
    rig.send(1, m.FREE, first(task), 2)
    assert not rig.core.objects.records
    rig.send(1, m.FETCH, first(task))
    assert rig.received(1, m.VALUE)[0][3][0] == FREED
