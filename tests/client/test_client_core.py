"""The client core without a node, lock or thread: messages in, messages out."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest

from skate.client.core.client_core import ClientCore
from skate.client.core.stream import ALL, PICKLED_NONE, Stream
from skate.client.core.wait import IDS_MAX, Wait
from skate.client.object import views
from skate.client.object.generators import ObjectRefGenerator, open_gathered, open_stream
from skate.client.object.object_ref import ObjectRef
from skate.client.task import submission
from skate.protocol import messages as m
from skate.protocol.messages import ARENA, ERROR, INLINE, PENDING, REMOTE, UNKNOWN

FAILURE = ("RayTaskError", {"function": "f"})
OTHER = b"o" * 28
ACTOR = b"a" * 16
ROOT = Path(__file__).parents[2]


class Core(ClientCore):
    """A core whose messages are kept in a list."""

    def __init__(self) -> None:
        self.sent: list[Any] = []
        self.kicks = 0
        self.shown: list[Any] = []
        super().__init__(7, b"nodenode", b"job0", self.sent.append, self._kicked)

    def _kicked(self) -> None:
        self.kicks += 1

    def show_unhandled(self, error: Any, site: Any) -> None:
        self.shown.append(error)

    def take(self, *message: Any) -> None:
        """Process one message from the node."""
        self.handlers[message[0]](message)

    def take_sent(self) -> list[Any]:
        """Remove and return the messages sent so far."""
        found = [tuple(message) for message in self.sent]
        self.sent.clear()
        return found

    def submit(self, returns: int = 1, deps: Any = (), met: Any = ()) -> list[ObjectRef[Any]]:
        """Submit a task."""
        return submission.submit(self, b"", b"key", returns, (b"args", list(deps), list(met)), None)

    def stream(self, backpressure: bool = True) -> ObjectRefGenerator:
        """Submit a streaming task."""
        return open_stream(self, b"", b"key", (b"", [], []), None, backpressure)


@pytest.fixture
def core() -> Core:
    return Core()


# -- results


def test_a_submission_names_its_task_and_waits_for_its_results(core: Core) -> None:
    first, second = core.submit(returns=2)
    ((word, task_id, key, blob, deps, held, parent),) = core.take_sent()
    assert (word, key, blob, deps, held, parent) == (m.SUBMIT, b"key", b"args", (), (), b"")
    assert task_id == (1).to_bytes(8, "little") + b"nodenode" + (7).to_bytes(4, "little") + b"job0"
    assert [ref._id for ref in (first, second)] == [task_id + b"\1\0\0\0", task_id + b"\2\0\0\0"]
    assert set(core.pending) == {first._id, second._id}


def test_a_submission_that_fails_leaves_nothing_pending(core: Core) -> None:
    stranger: ObjectRef[Any] = ObjectRef(OTHER, Core(), INLINE)
    with pytest.raises(ValueError, match="belongs to a session that has ended"):
        core.submit(deps=[(0, stranger)])
    assert not core.pending and not core.take_sent()


def test_a_result_wakes_who_waits_and_costs_no_message(core: Core) -> None:
    (ref,) = core.submit()
    woken: list[int] = []
    oid = ref._id
    ref._waiters = [lambda: woken.append(len(core.pending))]
    core.take_sent()
    core.take(m.RESULT, oid, INLINE, b"v", (), 0)
    assert (ref._kind, ref._value, woken) == (INLINE, b"v", [0])
    del ref
    core.tidy()
    assert not core.take_sent() and not core.kicks, "a ref that never left costs nothing"


def test_a_result_of_a_dropped_ref_is_taken_and_its_grants_go_back(core: Core) -> None:
    (ref,) = core.submit()
    oid = ref._id
    del ref
    core.take_sent()
    core.take(m.RESULT, oid, INLINE, b"v", (OTHER, ACTOR), 0)
    assert core.kicks == 1 and not core.pending
    core.tidy()
    assert sorted(core.take_sent()) == [(m.FREE, ACTOR, 1), (m.FREE, OTHER, 1)]
    assert not core.known and not core.actors


def test_a_result_nobody_asked_for_gives_its_grants_back(core: Core) -> None:
    core.take(m.RESULT, OTHER, ARENA, (0, 8), (), 1)
    assert core.take_sent() == [(m.FREE, OTHER, 1)]
    core.take(m.RESULT, OTHER, INLINE, b"v", (ACTOR,), 0)
    assert core.take_sent() == [(m.FREE, ACTOR, 1)]
    core.take(m.VALUE, OTHER, ARENA, (0, 8), ())
    assert core.take_sent() == [(m.FREE, OTHER, 1)]
    core.closed = True
    core.take(m.RESULT, OTHER, ARENA, (0, 8), (), 1)
    assert not core.take_sent(), "the node takes back all of a driver that leaves"


def test_what_is_inside_a_result_is_held_until_the_result_ends(core: Core) -> None:
    (ref,) = core.submit()
    core.take_sent()
    core.take(m.RESULT, ref._id, INLINE, b"v", (OTHER, ACTOR), 0)
    inner, hold = ref._held
    assert (inner._id, inner._kind, inner._grants) == (OTHER, UNKNOWN, 1)
    assert (hold.actor_id, hold.grants) == (ACTOR, 1)
    core.adopt(OTHER, 1)
    del inner, hold, ref
    core.tidy()
    assert sorted(core.take_sent()) == [(m.FREE, ACTOR, 1), (m.FREE, OTHER, 2)]


def test_errors_are_counted_and_shown_once_if_nobody_looks(core: Core) -> None:
    core.is_driver = True
    first, second = core.submit(), core.submit()
    for refs in (first, second):
        core.take(m.RESULT, refs[0]._id, ERROR, FAILURE, (), 0)
    assert core.failed == 2
    first[0]._forgive()
    first.clear()
    second.clear()
    core.tidy()
    assert core.shown == [FAILURE]


# -- refs in messages


def test_a_pending_ref_that_escapes_is_published_with_its_result(core: Core) -> None:
    (ref,) = core.submit()
    core.take_sent()
    (later,) = core.submit(deps=[(0, ref)], met=[ref])
    escape, submit = core.take_sent()
    assert escape == (m.ESCAPE, ref._id) and submit[4:6] == (((0, ref._id),), (ref._id,))
    core.take(m.RESULT, ref._id, INLINE, b"v", (OTHER,), 0)
    assert core.take_sent() == [(m.PUBLISH, ref._id, INLINE, b"v", (OTHER,), False)]
    oid = ref._id
    del ref
    core.tidy()
    assert sorted(core.take_sent()) == sorted([(m.FREE, oid, 1), (m.FREE, OTHER, 1)])
    assert later._id in core.pending


def test_a_ready_ref_that_escapes_takes_what_is_inside_along(core: Core) -> None:
    inner: ObjectRef[Any] = ObjectRef(core.next_object_id(), core, INLINE, b"in")
    outer: ObjectRef[Any] = ObjectRef(core.next_object_id(), core, INLINE, b"out")
    outer._held = [inner]
    assert core.escape(outer) == outer._id
    assert core.take_sent() == [
        (m.PUBLISH, inner._id, INLINE, b"in", (), True),
        (m.PUBLISH, outer._id, INLINE, b"out", (inner._id,), True),
    ]
    core.escape(outer)
    assert not core.take_sent(), "the node knows it by now"


def test_a_value_that_keeps_others_makes_them_known(core: Core) -> None:
    inner: ObjectRef[Any] = ObjectRef(core.next_object_id(), core, INLINE, b"in")
    hold = core.hold_actor(ACTOR, 1)
    outer: ObjectRef[Any] = ObjectRef(core.next_object_id(), core, INLINE, b"out")
    core.keep_inside(outer, [inner, hold])
    assert core.take_sent() == [(m.PUBLISH, inner._id, INLINE, b"in", (), True)]
    assert outer._held == [inner, hold] and not outer._grants


def test_a_result_that_the_node_keeps_counts_its_grant(core: Core) -> None:
    (ref,) = core.submit()
    core.escape(ref)
    core.take_sent()
    core.take(m.RESULT, ref._id, ARENA, (64, 9), (), 1)
    assert (ref._grants, ref._value) == (2, (64, 9)) and not core.take_sent(), "the node has it already"
    oid = ref._id
    del ref
    core.tidy()
    assert core.take_sent() == [(m.FREE, oid, 2)] and not core.known


def test_the_same_ref_serves_all_who_name_it(core: Core) -> None:
    ref = core.intern(OTHER)
    assert core.take_sent() == [(m.HOLD, OTHER)]
    assert core.intern(OTHER) is ref and core.adopt_any(OTHER) is ref
    assert ref._grants == 2 and not core.take_sent()


def test_a_ref_that_comes_again_while_its_release_is_under_way_is_held_anew(core: Core) -> None:
    ref = core.intern(OTHER)
    core.take_sent()
    del ref
    again = core.intern(OTHER)
    assert core.take_sent() == [(m.FREE, OTHER, 1), (m.HOLD, OTHER)], "in this order"
    assert core.known[OTHER]() is again
    core.tidy()
    assert not core.take_sent()


def test_a_release_leaves_the_entry_of_a_ref_that_came_meanwhile(core: Core) -> None:
    core.intern(OTHER)
    again = core.adopt(OTHER, 1)
    core.tidy()
    assert core.take_sent()[-1] == (m.FREE, OTHER, 1) and core.known[OTHER]() is again


def test_handles_of_one_actor_share_a_hold(core: Core) -> None:
    hold = core.hold_actor(ACTOR, 0)
    assert core.take_sent() == [(m.HOLD, ACTOR)]
    assert core.hold_actor(ACTOR, 0) is hold and core.escape(hold) == ACTOR and not core.take_sent()
    del hold
    core.tidy()
    assert core.take_sent() == [(m.FREE, ACTOR, 1)] and not core.actors


def test_a_ref_kept_forever_outlives_its_user(core: Core) -> None:
    (ref,) = core.submit()
    core.keep_forever(ref)
    core.take_sent()
    del ref
    core.tidy()
    assert not core.take_sent() and len(core.immortal) == 1


# -- memory


def test_a_value_in_the_arena_is_put_behind_what_it_keeps(core: Core) -> None:
    inner: ObjectRef[Any] = ObjectRef(core.next_object_id(), core, INLINE, b"in")
    ref: ObjectRef[Any] = ObjectRef(core.next_object_id(), core, PENDING)
    number = core.ask_for_memory(ref._id, 9)
    core.take(m.REPLY, number, True, 64)
    assert core.answers.pop(number) == (True, 64)
    core.place(ref, (64, 9), [inner])
    assert core.take_sent() == [
        (m.ALLOCATE, number, ref._id, 9),
        (m.PUBLISH, inner._id, INLINE, b"in", (), True),
        (m.PUT, ref._id, (inner._id,)),
    ]
    assert (ref._kind, ref._grants) == (ARENA, 1) and core.known[ref._id]() is ref


def test_memory_that_nobody_will_write_goes_back(core: Core) -> None:
    core.withdraw(OTHER)
    assert core.take_sent() == [(m.FREE, OTHER, 0)]
    error = core.cannot_store(OTHER, "full")
    assert core.take_sent() == [(m.PUBLISH, OTHER, ERROR, error, (), False)]
    core.end()
    core.withdraw(OTHER)
    assert not core.take_sent()


def test_a_value_is_recalled_unless_somebody_looks_at_it(core: Core) -> None:
    ref = core.adopt_any(OTHER)
    ref._kind, ref._value = ARENA, (64, 9)
    views.keep(ref)
    core.take(m.RECALL, 5, OTHER)
    assert core.take_sent() == [(m.RECALLED, 5, OTHER, -1)] and ref._kind == ARENA
    views.let_go(ref)
    core.take(m.RECALL, 6, OTHER)
    assert core.take_sent() == [(m.RECALLED, 6, OTHER, 1)]
    assert (ref._kind, ref._value) == (REMOTE, 9)
    core.ask_for(ref)
    core.ask_for(ref)
    assert core.take_sent() == [(m.FETCH, OTHER)] and core.pending[OTHER] is ref
    core.take(m.VALUE, OTHER, ARENA, (128, 9), ())
    assert (ref._kind, ref._value, ref._grants) == (ARENA, (128, 9), 2)
    core.take(m.RECALL, 7, b"n" * 28)
    assert core.take_sent() == [(m.RECALLED, 7, b"n" * 28, 0)], "it holds nothing of that"


def test_an_error_in_the_place_of_a_value_is_no_grant(core: Core) -> None:
    ref = core.adopt_any(OTHER)
    core.ask_for(ref)
    core.take(m.VALUE, OTHER, ERROR, FAILURE, ())
    assert (ref._kind, ref._grants, core.failed) == (ERROR, 1, 1)


def test_a_ref_of_another_session_has_no_value_here(core: Core) -> None:
    with pytest.raises(ValueError, match="another session"):
        core.ask_for(ObjectRef(OTHER))


# -- requests


def test_a_reply_goes_to_its_question_and_an_unknown_one_nowhere(core: Core) -> None:
    number = core.ask("why", OTHER)
    assert core.take_sent() == [(m.REQUEST, number, "why", (OTHER,))]
    core.take(m.REPLY, number + 1, True, "unrequested")
    assert core.answers == {number: None}
    core.take(m.REPLY, number, False, "no")
    assert core.answers == {number: (False, "no")}


# -- streams


def test_taking_values_gives_credit_until_the_generator_has_ended(core: Core) -> None:
    stream = core.stream()._stream
    task_id = stream.task_id
    generator = ObjectRefGenerator(stream.whole, stream)
    core.abandoned.clear()  # of the first generator, whose stream this one reads on
    core.take_sent()
    for index in (1, 2, 3):
        core.take(m.STREAM, task_id, index, INLINE, b"v", (), 0)
    first = stream.take()
    assert first is not None and first._id == task_id + b"\1\0\0\0"
    assert core.take_sent() == [(m.CONSUMED, task_id, 1)]
    core.take(m.STREAM, task_id, 2, INLINE, b"again", (OTHER,), 0)
    assert core.take_sent() == [(m.FREE, OTHER, 1)] and len(stream.ready) == 2, (
        "one that comes twice goes back"
    )
    core.take(m.STREAM_END, task_id, 3)
    assert stream.take() and stream.take() and stream.take() is None
    assert not core.take_sent() and not core.streams
    assert stream.whole._kind == INLINE
    del generator
    core.tidy()
    assert not core.take_sent(), "nothing waits for the reader any more"


def test_a_stream_without_backpressure_sends_nothing_for_its_values(core: Core) -> None:
    generator = core.stream(backpressure=False)
    task_id = generator._stream.task_id
    core.take_sent()
    for index in (1, 2):
        core.take(m.STREAM, task_id, index, INLINE, b"v", (), 0)
    assert generator._stream.take() and not core.take_sent()
    del generator
    core.tidy()
    assert not core.take_sent(), "no generator waits for the reader"


def test_an_abandoned_stream_lets_its_generator_go_on(core: Core) -> None:
    generator = core.stream()
    task_id = generator._stream.task_id
    core.take(m.STREAM, task_id, 1, INLINE, b"v", (OTHER,), 0)
    core.take_sent()
    del generator
    assert core.kicks == 1
    core.tidy()
    assert core.take_sent() == [(m.CONSUMED, task_id, ALL), (m.FREE, OTHER, 1)], (
        "what had arrived goes with it"
    )
    core.take(m.STREAM, task_id, 2, ARENA, (0, 8), (), 1)
    core.take(m.STREAM_END, task_id, 2)
    core.tidy()
    assert core.take_sent() == [(m.FREE, task_id + b"\2\0\0\0", 1)] and not core.streams


@pytest.mark.parametrize("crashed", [False, True], ids=["raised", "crashed"])
def test_an_error_ends_a_stream_and_is_that_of_the_whole_unless_it_was_raised(
    core: Core, crashed: bool
) -> None:
    stream = core.stream()._stream
    failure = ("WorkerCrashedError", {"message": "killed"}) if crashed else FAILURE
    woken: list[str] = []
    stream.waiters.append(lambda: woken.append("stream"))
    stream.whole._waiters = [lambda: woken.append("whole")]
    core.take(m.STREAM, stream.task_id, 1, ERROR, failure, (), 0)
    core.take(m.STREAM_END, stream.task_id, 1)
    assert (stream.whole._kind, stream.whole._value) == (
        (ERROR, failure) if crashed else (INLINE, PICKLED_NONE)
    )
    assert woken == ["stream", "whole"] and core.failed == 1 + crashed


def test_the_ref_of_a_whole_stream_that_escaped_is_published_at_its_end(core: Core) -> None:
    stream = core.stream()._stream
    core.escape(stream.whole)
    core.abandoned.clear()
    core.pending_releases.clear()
    core.take_sent()
    core.take(m.STREAM_END, stream.task_id, 0)
    assert core.take_sent() == [(m.PUBLISH, stream.whole._id, INLINE, stream.whole._value, (), False)]


def test_a_gathered_stream_is_a_value_of_refs(core: Core) -> None:
    whole = open_gathered(core, b"", b"key", (b"", [], []), None)
    task_id = whole._id[:24]
    core.take_sent()
    core.escape(whole)
    core.take(m.STREAM, task_id, 1, INLINE, b"v", (), 0)
    core.take(m.STREAM_END, task_id, 1)
    item = whole._held[0]
    assert whole._kind == INLINE and item._id == task_id + b"\1\0\0\0"
    assert core.take_sent() == [
        (m.ESCAPE, whole._id),
        (m.PUBLISH, item._id, INLINE, b"v", (), True),
        (m.PUBLISH, whole._id, INLINE, whole._value, (item._id,), False),
    ]


# -- waits


def test_a_wait_is_reported_confirmed_and_ended(core: Core) -> None:
    first, second = core.submit(returns=2)
    generator = core.stream()
    core.take_sent()
    wait = Wait([first, second, generator], 0, b"t" * 24)
    core.begin_wait(wait)
    ids = (first._id, second._id, generator._stream.task_id)
    assert core.take_sent() == [(m.WAITS, 1, ids, 3, b"t" * 24, {})]
    core.take(m.RESULT, first._id, INLINE, b"v", (), 0)
    core.release_later(OTHER, 1)
    core.take(m.CONFIRM, 4)
    assert core.take_sent() == [
        (m.FREE, OTHER, 1),
        (m.WAITS, 1, ids[1:], 2, b"t" * 24, {}),
        (m.STILL, 4),
    ]
    core.take(m.DEADLOCK, 2, "another one")
    assert wait.verdict is None
    core.take(m.DEADLOCK, 1, "it waits for itself")
    assert wait.verdict == "it waits for itself"
    core.end_wait(wait)
    assert core.take_sent() == [(m.WAIT_OVER, 1)] and not core.waits


def test_a_wait_for_some_counts_what_is_there(core: Core) -> None:
    refs = core.submit(returns=3)
    core.take(m.RESULT, refs[0]._id, INLINE, b"v", (), 0)
    assert Wait(refs, 2, b"").message().needed == 1
    many = core.submit(returns=IDS_MAX + 1)
    message = Wait(many, 5, b"").message()
    assert (len(message.ids), message.needed) == (IDS_MAX, 0)


# -- the end


def test_the_end_wakes_everybody_and_sends_nothing(core: Core) -> None:
    (ref,) = core.submit()
    generator = core.stream()
    held = core.intern(OTHER)
    wait = Wait([ref], 0, b"")
    core.begin_wait(wait)
    woken: list[str] = []
    ref._waiters = [lambda: woken.append("ref")]
    generator._stream.waiters.append(lambda: woken.append("stream"))
    core.take_sent()
    core.lost = "the node is gone"
    core.end()
    assert woken == ["ref", "stream"]
    assert (ref._kind, ref._value[0]) == (ERROR, "NodeGoneError")
    assert generator._stream.moved()
    with pytest.raises(Exception, match="the node is gone"):
        generator._stream.take()
    core.end_wait(wait)
    del ref, generator, held
    assert not core.take_sent() and not core.kicks and not core.unhandled


def test_a_dropped_stream_asks_for_nothing(core: Core) -> None:
    stream = Stream(b"t" * 24, core, backpressure=True)
    stream.abandon()
    stream.abandon()
    assert core.take_sent() == [(m.CONSUMED, b"t" * 24, ALL)]


def test_the_core_has_no_lock_clock_thread_or_socket() -> None:
    barred = {"threading", "time", "socket", "select", "os", "gc", "signal", "random"}
    for path in sorted((ROOT / "src/skate/client/core").glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.module:
                names.append(node.module)
            assert not barred & {name.split(".")[0] for name in names}, path
            assert not any(name.startswith(("skate.wire", "skate.node")) for name in names), path
