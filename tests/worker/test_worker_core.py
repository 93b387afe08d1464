"""The worker core without a process: messages in, messages and effects out."""

from __future__ import annotations

from typing import Any

import pytest

from skate.protocol import messages as m
from skate.wire.status import SLOT_BYTES, begun_in
from skate.worker.worker_core import (
    DEFAULT_GROUP,
    FLUSH_SECONDS,
    SHORT_SECONDS,
    SYSTEM_GROUP,
    CancelCall,
    Interrupt,
    LeaveByForce,
    Running,
    WorkerCore,
)

VALUE = (0, b"o" * 28, m.ARENA, (0, 100))
SMALL = (1, b"p" * 28, m.INLINE, b"x")


class Template:
    def __init__(self, key: bytes, fields: dict[str, Any], functions: dict[bytes, Any]) -> None:
        self.group: str = fields.get("group", "")


class Rig(WorkerCore):
    """A core whose messages, releases and system calls are recorded."""

    def __init__(self) -> None:
        self.sent: list[tuple[Any, ...]] = []
        self.released: list[tuple[bytes, int]] = []
        self.system: list[Any] = []
        super().__init__(
            {}, Template, self.sent.append, self.sent.append, self.release_one, bytearray(SLOT_BYTES)
        )
        for group in ("", "io", SYSTEM_GROUP):
            self.receive((m.TEMPLATE, group.encode(), {"group": group}))

    def release_one(self, oid: bytes, grants: int) -> None:
        self.released.append((oid, grants))

    def receive(self, message: tuple[Any, ...]) -> Any:
        return self.handlers[message[0]](message)

    def system_call(self, message: Any) -> None:
        self.system.append(message)

    def task(self, number: int, *deps: Any) -> None:
        self.receive((m.EXECUTE, task_id(number), b"", b"", deps, 0))

    def invoke(self, number: int, group: str = "", *deps: Any) -> None:
        self.receive((m.INVOKE, task_id(number), group.encode(), b"", deps, 0))

    def take(self) -> Running | None:
        """Let the main thread take the first queued call; return the call that runs, or None if it waits for its group."""
        sequence, message = self.queue.popleft()
        _, task, key, *_ = message
        running = Running(task, self.templates[key], 0)  # type: ignore[index]
        if self.groups is None:
            self.begin(sequence, running)
        elif not self.admit(sequence, running, message):  # type: ignore[arg-type]
            return None
        return running


def task_id(number: int) -> bytes:
    return bytes([number]) * 24


@pytest.fixture
def rig() -> Rig:
    return Rig()


def actor(rig: Rig, **limits: int) -> Rig:
    """Return a rig with an actor; the constructor was the first task."""
    rig.receive((m.CONSTRUCT, b"a" * 16, b"", b"", (), {}))
    rig.take()
    rig.running = None
    rig.actor = object()
    if limits:
        rig.run_side_by_side({DEFAULT_GROUP: limits.pop("default"), **limits})
    return rig


def test_work_is_numbered_in_the_order_it_comes(rig: Rig) -> None:
    rig.receive((m.LEASE, {}))
    rig.task(1)
    rig.task(2)
    assert [(sequence, message[0]) for sequence, message in rig.queue] == [
        (0, m.LEASE),
        (1, m.EXECUTE),
        (2, m.EXECUTE),
    ]
    rig.queue.popleft()
    running = rig.take()
    assert running is rig.running
    assert begun_in(rig.status) == (1, frozenset())


def test_what_is_forgotten_is_gone(rig: Rig) -> None:
    rig.receive((m.FUNCTION, b"f", b"code", ()))
    rig.receive((m.FORGET, (b"f", b"io", b"never sent")))
    assert not rig.functions
    assert b"io" not in rig.templates


def test_tasks_that_have_not_begun_are_returned_with_their_grants(rig: Rig) -> None:
    rig.task(1)
    rig.take()
    rig.receive((m.LEASE, {}))
    rig.task(2, VALUE, SMALL)
    rig.task(3)
    rig.receive((m.TAKE_BACK,))
    assert rig.sent == [(m.RETURNED, (task_id(2), task_id(3)))]
    assert rig.released == [(VALUE[1], 1)]
    assert [message[0] for _, message in rig.queue] == [m.LEASE]
    rig.receive((m.TAKE_BACK,))
    assert len(rig.sent) == 1


def test_an_actor_keeps_its_calls(rig: Rig) -> None:
    actor(rig)
    rig.invoke(1)
    rig.receive((m.TAKE_BACK,))
    assert not rig.sent
    assert len(rig.queue) == 1


def test_a_task_that_waits_gives_back_what_is_queued_behind_it(rig: Rig) -> None:
    rig.task(1)
    rig.take()
    rig.task(2)
    rig.block(task_id(1), in_main=True)
    rig.task(3)
    rig.block(task_id(9), in_main=False)
    rig.unblock(task_id(1))
    assert [message[0] for message in rig.sent] == [m.BLOCKED, m.RETURNED, m.BLOCKED, m.UNBLOCKED]
    assert len(rig.queue) == 1


def test_a_queued_task_is_cancelled_with_an_answer(rig: Rig) -> None:
    rig.receive((m.LEASE, {}))
    rig.task(1, VALUE)
    rig.task(2)
    assert rig.receive((m.STOP_TASK, task_id(1), True)) is None
    assert rig.sent == [(m.DONE, task_id(1), m.CANCELLED, (), 0, False)]
    assert rig.released == [(VALUE[1], 1)]
    assert [message[0] for _, message in rig.queue] == [m.LEASE, m.EXECUTE]
    assert rig.receive((m.STOP_TASK, task_id(7), True)) is None, "it has been answered meanwhile"
    assert len(rig.sent) == 1


@pytest.mark.parametrize("force", [False, True])
def test_a_running_task_is_interrupted_or_leaves_by_force(rig: Rig, force: bool) -> None:
    rig.task(1)
    running = rig.take()
    effect = rig.receive((m.STOP_TASK, task_id(1), force))
    assert type(effect) is (LeaveByForce if force else Interrupt)
    assert effect.running is running
    assert running is not None and running.cancelled
    assert not rig.sent, "it answers for itself"


def test_an_ordinary_actor_is_not_interrupted(rig: Rig) -> None:
    actor(rig)
    rig.invoke(1)
    running = rig.take()
    assert rig.receive((m.STOP_TASK, task_id(1), False)) is None
    assert running is not None and running.cancelled


def test_calls_of_a_group_run_side_by_side_up_to_its_limit(rig: Rig) -> None:
    actor(rig, default=2, io=1)
    for number, group in ((1, ""), (2, "io"), (3, "io"), (4, ""), (5, "")):
        rig.invoke(number, group)
    calls = [rig.take() for _ in range(5)]
    assert [call is not None for call in calls] == [True, True, False, True, False]
    assert begun_in(rig.status) == (3, frozenset({5})), "the third waits, the fourth has begun ahead of it"
    assert rig.waits
    assert calls[1] is not None
    following = rig.end(calls[1])
    assert following is not None
    assert following[0].task_id == task_id(3)
    assert set(rig.side) == {task_id(1), task_id(3), task_id(4)}
    assert begun_in(rig.status)[0] == 5
    assert rig.end(following[0]) is None
    assert rig.groups is not None
    assert [group.active for group in rig.groups.values()] == [2, 0]


def test_cancelling_calls_beside_the_main_thread(rig: Rig) -> None:
    actor(rig, default=1)
    rig.invoke(1)
    rig.invoke(2, "", VALUE)
    running, waiting = rig.take(), rig.take()
    assert waiting is None
    assert rig.receive((m.STOP_TASK, task_id(1), False)) == CancelCall(running)  # type: ignore[arg-type]
    rig.receive((m.STOP_TASK, task_id(2), False))
    assert rig.sent == [(m.DONE, task_id(2), m.CANCELLED, (), 0, False)]
    assert rig.released == [(VALUE[1], 1)]
    assert begun_in(rig.status)[0] == 3, "what is cancelled counts as begun: it need not run elsewhere"
    assert not rig.waits


def test_a_call_of_an_unknown_group_is_refused_and_counts_as_begun(rig: Rig) -> None:
    actor(rig, default=2, disk=1)
    rig.invoke(1, "io")
    with pytest.raises(ValueError, match=r"no concurrency group 'io' \(it has: disk\)"):
        rig.take()
    assert begun_in(rig.status)[0] == 2
    assert not rig.side


def test_system_calls_go_past_the_queue(rig: Rig) -> None:
    actor(rig, default=1)
    rig.invoke(1)
    rig.invoke(2, SYSTEM_GROUP)
    assert [call[1] for call in rig.system] == [task_id(2)]
    assert len(rig.queue) == 1
    assert begun_in(rig.status) == (1, frozenset({3}))


def test_a_stream_waits_until_its_reader_has_taken_enough(rig: Rig) -> None:
    assert rig.may_yield(task_id(1), 1, 2)
    assert not rig.may_yield(task_id(1), 2, 2)
    rig.receive((m.ACK, task_id(1), 1))
    assert rig.may_yield(task_id(1), 2, 2)
    assert not rig.may_yield(task_id(1), 3, 2)
    rig.receive((m.EXIT, "out of scope"))
    assert rig.may_yield(task_id(1), 9, 2)


def test_an_answer_ends_the_running_task(rig: Rig) -> None:
    rig.task(1)
    running = rig.take()
    assert running is not None
    running.kept.append(object())
    rig.item(running, 1, m.INLINE, b"x", ())
    assert not running.kept
    running.kept.append(object())
    rig.done(running, m.OK, (), 7, False)
    assert rig.sent == [
        (m.ITEM, task_id(1), 1, m.INLINE, b"x", ()),
        (m.DONE, task_id(1), m.OK, (), 7, False),
    ]
    assert rig.running is None
    assert not running.kept


def test_which_answers_may_be_late(rig: Rig) -> None:
    plain, held = ((m.INLINE, b"x", ()),), ((m.INLINE, b"x", (b"o" * 28,)),)
    quick, slow = SHORT_SECONDS / 2, SHORT_SECONDS * 2
    rig.flushed_at = now = 100.0
    assert not rig.may_be_late(m.OK, plain, now, quick, False), "nothing else is queued"
    rig.task(1)
    assert rig.may_be_late(m.OK, plain, now, quick, False)
    assert rig.may_be_late(m.FAILED, ("RayTaskError", {}), now, quick, False)
    assert not rig.may_be_late(m.OK, plain, now, slow, False)
    assert not rig.may_be_late(m.OK, plain, now + 2 * FLUSH_SECONDS, quick, False)
    assert not rig.may_be_late(m.FAILED, ("RayTaskError", {}), now, quick, True), "it is to be tried again"
    assert not rig.may_be_late(m.OK, held, now, quick, False), "refs are said before it"
    assert not rig.may_be_late(m.FAILED, ("RayTaskError", {"held": ()}), now, quick, False)


def test_an_actor_that_leaves_runs_nothing_more(rig: Rig) -> None:
    actor(rig, default=1)
    woken: list[int] = []
    rig.wake = lambda: woken.append(1)
    rig.invoke(1)
    rig.invoke(2)
    first, _ = rig.take(), rig.take()
    rig.invoke(3)
    assert len(woken) == 3
    rig.exit_actor("exit_actor()")
    assert rig.sent == [(m.EXITING, "exit_actor()")]
    assert rig.leaving and rig.final
    rig.invoke(4)
    assert not rig.queue
    assert first is not None
    assert rig.end(first) is None
    rig.receive((m.EXIT, ""))
    assert len(woken) == 4
