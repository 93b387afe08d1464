"""Malformed, forged or unexpected messages of clients: the node rejects them, or is not harmed."""

from __future__ import annotations

import math
import typing
from typing import Annotated, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from skate.core.guard import Guard
from skate.core.node import NodeCore, admit_client
from skate.protocol import check, directory
from skate.protocol import messages as m
from skate.protocol import shell_events as se
from skate.protocol.record import is_field_dict
from skate.protocol.shape import greeting_refusal, shape_refusal

TAG, JOB = b"thisnode", b"\0\0\0\1"
KEYS = [bytes([n]) * 16 for n in range(1, 5)]
RECORDS = {**directory.FROM_CLIENTS, **directory.FROM_WORKERS}
#: One value of each kind that msgpack carries.
OTHERS: list[Any] = [
    None,
    True,
    -1,
    1 << 63,
    1.5,
    "text",
    b"",
    b"x" * 16,
    (),
    ((),),
    (1, 2, 3),
    {},
    {"a": (b"",)},
    {1: 2},
]


def task_id(cid: int, number: int) -> bytes:
    return number.to_bytes(8, "little") + TAG + cid.to_bytes(4, "little") + JOB


def actor_id(cid: int, number: int) -> bytes:
    return TAG[:3] + cid.to_bytes(4, "little") + number.to_bytes(5, "little") + JOB


TASKS = [task_id(cid, number) for cid in range(1, 6) for number in range(1, 6)]
ACTORS = [actor_id(cid, number) for cid in (1, 2) for number in (1, 2)]
OBJECTS = [each + index.to_bytes(4, "little") for each in TASKS[:12] for index in (1, 2, 0x80000001)]
GROUPS = [bytes([n]) * 18 for n in (1, 2)]
POOL = {24: TASKS, 16: KEYS + ACTORS, 28: OBJECTS, 18: GROUPS, 0: [b""]}


def hints_of(record: type) -> dict[str, Any]:
    """Return the fields of a message after its number, with their types."""
    hints = typing.get_type_hints(record, include_extras=True)
    del hints["tag"]
    return hints


def of(kind: Any) -> st.SearchStrategy[Any]:
    """Generate values of a type in the schema."""
    origin = typing.get_origin(kind)
    if kind is Any:
        return st.sampled_from(OTHERS)
    if origin is Annotated:
        base, *marks = typing.get_args(kind)
        for mark in marks:
            if isinstance(mark, check.Entries):
                return of(mark.checked)
            if isinstance(mark, check.Length):
                return st.sampled_from([each for length in mark.lengths for each in POOL[length]])
            if isinstance(mark, check.Range):
                return st.integers(mark.least, min(mark.most, 1 << 40)) | st.integers(mark.least, 3)
            if isinstance(mark, check.Passes):
                return st.sampled_from(
                    [("spread",), ("node", b"n" * 28, True, "wait"), ("bundle", b"g" * 18, 0, False), None]
                )
        return of(base)
    if origin is tuple:
        kinds = typing.get_args(kind)
        if len(kinds) == 2 and kinds[1] is Ellipsis:
            return st.lists(of(kinds[0]), max_size=2).map(tuple)
        return st.tuples(*map(of, kinds))
    if origin is dict:
        return st.dictionaries(*map(of, typing.get_args(kind)), max_size=2)
    if origin is not None:  # a union
        return st.one_of(*map(of, typing.get_args(kind)))
    if is_field_dict(kind):
        return st.fixed_dictionaries(
            {name: of(each) for name, each in typing.get_type_hints(kind, include_extras=True).items()}
        )
    plain = {
        bytes: st.sampled_from([b"", b"value"]), str: st.sampled_from(["", "CPU", "why"]), bool: st.booleans(),
        int: st.integers(-2, 3), float: st.sampled_from([0.0, -1.0, math.inf, math.nan]), type(None): st.none(),
    }  # fmt: skip
    return plain[kind]


RESULT = st.tuples(st.just(m.INLINE), st.just(b"value"), st.just(())) | st.tuples(
    st.just(m.ARENA), st.tuples(st.integers(0, 1 << 20), st.integers(0, 1 << 20)), st.just(())
)


def value_fields(kind: int) -> Any:
    payloads = {m.INLINE: b"value", m.ARENA: (0, 64), m.ERROR: ("RayTaskError", {})}
    return payloads.get(kind)


@st.composite
def message(draw: Any) -> tuple[Any, ...]:
    """Generate a message with fields of the right types, which may name objects that do not exist."""
    tag = draw(st.sampled_from(sorted(RECORDS)))
    hints = hints_of(RECORDS[tag])
    fields = {name: draw(of(kind)) for name, kind in hints.items()}
    if "kind" in fields:
        fields["kind"] = draw(st.sampled_from([m.INLINE, m.ARENA, m.ERROR]))
        fields["payload"] = value_fields(fields["kind"])
    if tag == m.DONE:
        fields["returns"] = draw(st.lists(RESULT, max_size=2).map(tuple) | st.just(("RayTaskError", {})))
    if tag == m.REQUEST:
        fields["verb"], function, first = draw(st.sampled_from(VERBS))
        kinds = list(typing.get_type_hints(function, include_extras=True).values())[first:]
        kinds = kinds[: len(kinds) - ("return" in typing.get_type_hints(function))]
        fields["arguments"] = tuple(draw(of(kind)) for kind in kinds)
    return (tag, *fields.values())


def node() -> NodeCore:
    """Return a node with two drivers, and the function and templates that they have sent."""
    core = NodeCore({"CPU": 20_000}, node_id=TAG + bytes(20))
    joined = se.DriverJoined(se.DRIVER_JOINED, "", "", False)
    for cid in [admit_client(core, joined, 0.0) for _ in range(2)]:
        core.step(cid, (m.FUNCTION, KEYS[0], b"code", ()), 0.0)
        fields = {
            "name": "f",
            "kind": "task",
            "function": KEYS[0],
            "request": {"CPU": 10_000},
            "returns": 1,
            "max_retries": 1,
        }
        core.step(cid, (m.TEMPLATE, KEYS[1], fields), 0.0)
        core.step(cid, (m.TEMPLATE, KEYS[2], {**fields, "name": "A", "kind": "actor", "request": {}}), 0.0)
        core.step(cid, (m.TEMPLATE, KEYS[3], {**fields, "name": "m", "kind": "method", "function": b""}), 0.0)
        core.step(cid, (m.SUBMIT, task_id(cid, 1), KEYS[1], b"", (), (), b""), 0.0)
    life = {"actor_name": "", "namespace": "", "max_restarts": 1, "max_task_retries": 0, "handle": b""}
    core.step(1, (m.CREATE_ACTOR, actor_id(1, 1), KEYS[2], b"", (), (), b"", life), 0.0)
    return core


VERBS = [(name, verb, 1) for name, verb in node().queries.verbs.items()]
VERBS += [(name, function, 0) for name, function in directory.VERBS.items()]


@settings(max_examples=300, suppress_health_check=list(HealthCheck))
@given(st.lists(st.tuples(st.integers(1, 6), message()), min_size=1, max_size=12))
def test_well_formed_messages_about_anything_leave_the_node_whole(
    words: list[tuple[int, tuple[Any, ...]]],
) -> None:
    core = node()
    guard = Guard(core)
    for cid, each in words:
        worker = cid in core.scheduler.workers
        if cid not in core.clients or guard.refusal(cid, each, worker):
            continue
        core.step(cid, each, 1.0)
        core.effects.clear()
        core.check()


@pytest.mark.parametrize("tag", sorted(RECORDS), ids=lambda tag: RECORDS[tag].__name__)
def test_each_field_of_each_message_is_checked_for_its_type(tag: int) -> None:
    hints = hints_of(RECORDS[tag])
    good = message_of(tag)
    assert shape_refusal(good, True) == ""
    assert shape_refusal(good[:-1], True) and shape_refusal((*good, 1), True), "its length is not looked at"
    for index, (name, kind) in enumerate(hints.items(), 1):
        refused = [
            other for other in OTHERS if shape_refusal((*good[:index], other, *good[index + 1 :]), True)
        ]
        open_fields = {"payload": 8, "returns": 8}  # they depend on another field
        assert kind is Any or len(refused) >= open_fields.get(name, 8), (
            f"{name} takes {OTHERS}, but for {refused}"
        )


def message_of(tag: int) -> tuple[Any, ...]:
    """Return a message with fields of the right types."""
    plain = {
        "template": KEYS[1], "key": KEYS[0], "kind": m.INLINE, "payload": b"value", "deps": ((0, OBJECTS[0]),), "held": (),
        "parent": b"", "actor_id": ACTORS[0], "any_id": OBJECTS[0], "verb": "cluster_resources", "status": m.OK, "returns": (),
        "position": 1,
    }  # fmt: skip
    by_type = {bytes: b"", str: "", int: 1, float: 1.0, bool: True}
    fields = []
    for name, kind in hints_of(RECORDS[tag]).items():
        base = typing.get_args(kind)[0] if typing.get_origin(kind) is Annotated else kind
        lengths = [mark for mark in typing.get_args(kind)[1:] if isinstance(mark, check.Length)]
        if name in plain:
            fields.append(plain[name])
        elif lengths:
            fields.append(POOL[lengths[0].lengths[0]][0])
        elif typing.get_origin(base) is tuple:
            fields.append(())
        elif base in by_type:
            fields.append(by_type[base])
        else:
            fields.append({"name": "f", "kind": "task", "function": KEYS[0], "namespace": ""})
    return (tag, *fields)


def test_a_driver_cannot_answer_for_a_worker() -> None:
    assert "not one that a driver sends" in shape_refusal((m.READY, 1, 1), False)


def test_an_event_of_the_shell_is_refused_from_anybody_else() -> None:
    core = node()
    numbers = [value for name, value in vars(se).items() if name.isupper() and isinstance(value, int)]
    assert len(numbers) == len(typing.get_args(se.ShellEvent))
    for tag in numbers:
        for of_worker in (True, False):
            assert "is not one that a" in Guard(core).refusal(1, (tag, 1, ""), of_worker)
        with pytest.raises(
            KeyError, match=str(tag)
        ):  # as nothing checks the workers of a node with one program
            core.step(1, (tag, 1, ""), 0.0)
    assert 1 in core.clients


def test_a_task_of_an_unknown_template_is_refused() -> None:
    guard = Guard(node())
    assert "names no template" in guard.refusal(
        1, (m.SUBMIT, task_id(1, 7), KEYS[0], b"", (), (), b""), False
    )


def test_an_id_that_another_process_made_is_refused() -> None:
    guard = Guard(node())
    assert "not made by its sender" in guard.refusal(
        1, (m.SUBMIT, task_id(2, 7), KEYS[1], b"", (), (), b""), False
    )


def test_a_second_task_of_one_id_is_refused() -> None:
    guard = Guard(node())
    assert "already a task" in guard.refusal(1, (m.SUBMIT, task_id(1, 1), KEYS[1], b"", (), (), b""), False)


def test_memory_that_was_not_given_is_no_place_for_a_value() -> None:
    guard = Guard(node())
    publish = (m.PUBLISH, OBJECTS[0], m.ARENA, (0, 1 << 20), (), True)
    assert "no memory" in guard.refusal(1, publish, False)
    assert "no memory" in guard.refusal(1, (m.PUT, OBJECTS[0], ()), False)


def test_results_are_as_many_as_the_task_has() -> None:
    core = node()
    worker = core.tasks[task_id(1, 1)].worker.cid
    done = (m.DONE, task_id(1, 1), m.OK, ((m.INLINE, b"1", ()), (m.INLINE, b"2", ())), 5, False)
    assert "has 1 results, not 2" in Guard(core).refusal(worker, done, True)


def test_the_first_words_of_a_driver_are_checked() -> None:
    assert "other types" in greeting_refusal({"version": "1"})
