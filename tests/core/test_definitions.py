"""Functions, classes and dead actors: unreachable records are forgotten."""

from __future__ import annotations

from skate.core.actor.actor_table import DEAD_MAX
from skate.core.placement.placement_table import REMOVED_MAX
from skate.core.task.function_table import LOOSE_MAX
from skate.protocol import messages as m
from skate.protocol.effects import Spawn
from skate.simulation.programs.spec import CPU
from tests.core.rig import Rig


def define(rig: Rig, name: bytes, cid: int = 1, **fields: object) -> bytes:
    rig.send(cid, m.FUNCTION, b"code of " + name, b"blob", fields.pop("held", ()))
    fields = {"name": name.decode(), "function": b"code of " + name, "request": {"CPU": CPU}, **fields}
    rig.send(cid, m.TEMPLATE, name, fields)
    return name


def submit(rig: Rig, key: bytes, cid: int = 1) -> bytes:
    task_id = rig.task_id(cid)
    rig.send(cid, m.SUBMIT, task_id, key, b"", (), (), b"")
    return task_id


def keys(rig: Rig) -> set[bytes]:
    return {*rig.core.templates, *rig.core.functions}


def test_a_function_goes_with_the_last_process_that_names_it():
    rig = Rig(drivers=2)
    for cid in (1, 2):
        define(rig, b"f", cid)
    rig.send(1, m.FORGET, (b"f", b"code of f"))
    assert keys(rig) == {b"f", b"code of f"}
    rig.send(2, m.FORGET, (b"f", b"code of f"))
    assert keys(rig) == set()
    define(rig, b"f")
    submit(rig, b"f")
    assert len(rig.shell_cids(Spawn)) == 1


def test_a_function_stays_while_a_task_that_nobody_names_needs_it():
    rig = Rig(cpus=1)
    first, second = submit(rig, define(rig, b"f")), submit(rig, define(rig, b"g"))
    rig.send(1, m.FORGET, (b"f", b"code of f", b"g", b"code of g"))
    (worker,) = rig.shell_cids(Spawn)
    rig.done(worker, first)
    (known,) = [each for each in rig.received(worker, m.FUNCTION) if each[1] == b"code of g"]
    assert known[2] == b"blob"
    rig.done(worker, second)
    assert rig.results() == {first: "ok", second: "ok"}
    rig.send(1, m.FORGET, ())
    assert keys(rig) == set()
    assert set(rig.received(worker, m.FORGET)[-1][1]) == {b"f", b"code of f", b"g", b"code of g"}
    assert not rig.core.scheduler.workers[worker].known
    define(rig, b"f")
    submit(rig, b"f")
    assert [each[1] for each in rig.received(worker, m.FUNCTION)] == [b"code of f"]  # sent again


def test_a_function_stays_while_another_template_names_its_code():
    rig = Rig()
    define(rig, b"f")
    rig.send(1, m.TEMPLATE, b"f with options", {"name": "f", "function": b"code of f"})
    rig.send(1, m.FORGET, (b"f", b"code of f"))
    assert keys(rig) == {b"f with options", b"code of f"}


def test_what_a_forgotten_function_captured_is_freed():
    rig = Rig()
    oid = rig.oid()
    rig.send(1, m.PUBLISH, oid, m.INLINE, b"value", (), True)
    define(rig, b"f", held=(oid,))
    rig.send(1, m.FREE, oid, 1)
    assert oid in rig.core.objects.records
    rig.send(1, m.FORGET, (b"f", b"code of f"))
    assert oid not in rig.core.objects.records


def test_a_living_actor_keeps_its_class():
    rig = Rig()
    actor_id, worker = rig.living(max_restarts=1)
    rig.send(1, m.FORGET, (*rig.core.templates, *rig.core.functions))
    assert keys(rig)
    rig.lose(worker)
    (again,) = rig.shell_cids(Spawn)[-1:]
    assert rig.received(again, m.FUNCTION)
    rig.done(again, actor_id, returns=())
    rig.send(1, m.KILL, actor_id, True)
    rig.send(1, m.FORGET, ())
    assert not keys(rig)


def test_processes_that_end_leave_a_bounded_number_of_functions():
    rig = Rig()
    for number in range(2 * LOOSE_MAX):
        cid = rig.join()
        define(rig, b"f%d" % number, cid)
        rig.lose(cid)
    assert len(keys(rig)) <= LOOSE_MAX + 2


def test_classes_of_shapes_that_nobody_names_go():
    rig = Rig()
    for number in range(50):
        key = define(rig, b"f%d" % number, request={"CPU": CPU - number})
        task_id = submit(rig, key)
        worker = next(iter(rig.core.scheduler.workers))
        rig.done(worker, task_id)
    assert len(rig.core.scheduler.classes) == 50
    rig.send(
        1, m.FORGET, tuple(key for number in range(50) for key in (b"f%d" % number, b"code of f%d" % number))
    )
    assert not rig.core.scheduler.classes


def test_a_bounded_number_of_the_dead_is_remembered():
    rig = Rig()
    kept = rig.create()
    rig.send(1, m.KILL, kept, True)
    for _ in range(DEAD_MAX + 20):
        actor_id = rig.create()
        rig.send(1, m.KILL, actor_id, True)
        rig.send(1, m.FREE, actor_id, 1)
        rig.outbox.clear()
    assert len(rig.core.actors.actors) <= DEAD_MAX + 1
    call = rig.call(kept)  # a process still holds it, so the cause of its death is kept
    assert "ray.kill" in str(rig.received(1, m.RESULT)[-1]), call


def test_a_bounded_number_of_removed_groups_is_remembered():
    rig = Rig()
    for _ in range(REMOVED_MAX + 10):
        group_id = rig.group({"CPU": CPU})
        rig.ask("remove_group", group_id)
    assert len(rig.core.placement.groups) == REMOVED_MAX


def test_what_is_forgotten_is_told_in_the_order_in_which_it_was_let_go():
    rig = Rig()
    names = [b"f%d" % number for number in range(20)]
    for name in names:
        task_id = submit(rig, define(rig, name))
        worker = next(iter(rig.core.scheduler.workers))
        rig.done(worker, task_id)
    rig.send(1, m.FORGET, (*names, *(b"code of " + name for name in names)))
    assert rig.received(worker, m.FORGET)[-1][1] == (*names, *(b"code of " + name for name in names))


def test_a_function_that_is_used_no_more_goes_from_other_nodes_too():
    rig = Rig(cpus=1)
    peer, other = 50, 51
    for cid, name in ((peer, b"there"), (other, b"elsewhere")):
        info = {"node_id": name.ljust(28, b"."), "total": {"CPU": CPU, "x": CPU}, "labels": {}}
        rig.core.cluster.join(cid, info, 0.0)
    first, second = submit(rig, define(rig, b"f", request={"x": CPU})), submit(rig, b"f")
    assert [each[1] for each in rig.received(peer, m.TEMPLATE)] == [b"f"]
    rig.send(1, m.FORGET, (b"f", b"code of f"))
    assert not rig.received(peer, m.FORGET)
    rig.send(peer, m.FINISHED, first, 1, None)
    rig.send(other, m.FINISHED, second, 1, None)
    rig.send(1, m.FORGET, ())
    assert keys(rig) == set()
    for cid in (peer, other):
        assert rig.received(cid, m.FORGET) == [(m.FORGET, (b"f", b"code of f"))]
    # The other side, which hears this from a peer.
    rig.send(peer, m.FUNCTION, b"code of g", b"blob", ())
    rig.send(peer, m.TEMPLATE, b"g", {"name": "g", "function": b"code of g", "request": {"CPU": CPU}})
    task_id = bytes(8) + b"there..." + bytes(8)
    fields = {"attempt": 0, "retries": 0, "job": "", "namespace": ""}
    rig.send(peer, m.FORWARD, 0, task_id, b"g", b"", (), (), b"", fields)
    rig.send(peer, m.FORGET, (b"g", b"code of g"))
    assert keys(rig) == {b"g", b"code of g"}
    (worker,) = rig.shell_cids(Spawn)
    rig.done(worker, task_id)
    rig.send(peer, m.FORGET, ())
    assert keys(rig) == set()
