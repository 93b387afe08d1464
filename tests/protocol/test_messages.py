"""Messages: one number each, sent and handled, the same after a journey over a socket, and all on the page."""

from __future__ import annotations

import ast
import copy
import pickle
import socket
import typing
from pathlib import Path
from typing import Annotated, Any

import pytest

import skate
from skate.core.shell_handlers import ShellHandlers
from skate.protocol import messages as m
from skate.protocol import shell_events, values
from skate.protocol.check import Length, is_strategy, message_check
from skate.protocol.directory import DIRECTIONS, FROM_CLIENTS, FROM_WORKERS, constant_of
from skate.protocol.effects import Spawn
from skate.protocol.record import is_field_dict
from skate.protocol.registry_records import MemberRecord
from skate.wire.channel import Channel
from tests.core.rig import Rig
from tests.protocol.page import FROM_SHELL, PAGE, page

RECORDS = {tag: record for records in DIRECTIONS.values() for tag, record in records.items()}
SOURCES = [
    path
    for part in ("core", "client", "node", "worker")
    for path in (Path(skate.__file__).parent / part).rglob("*.py")
]
#: Sent as plain tuples, with an alias for mypy.
HOT = {alias: getattr(m, alias) for alias in dir(m) if alias.endswith("Tuple")}


def test_no_number_stands_for_two_messages() -> None:
    assert sum(map(len, DIRECTIONS.values())) == len(RECORDS) >= 68


def test_each_record_has_a_number_of_its_name() -> None:
    numbers = {constant_of(record): tag for tag, record in RECORDS.items()}
    stated = {name: value for name, value in vars(m).items() if name.isupper() and name not in vars(values)}
    assert stated == numbers


def test_each_event_of_the_shell_has_a_number_of_its_name_a_handler_and_a_sender() -> None:
    stated = {name: value for name, value in vars(shell_events).items() if name.isupper()}
    assert {constant_of(record): tag for tag, record in FROM_SHELL.items()} == stated
    assert not FROM_SHELL.keys() & RECORDS.keys()
    rig = Rig()
    handlers = ShellHandlers(rig.core).table()
    for tag, record in FROM_SHELL.items():
        assert typing.get_type_hints(handlers[tag])["message"] is record, handlers[tag]
        assert tag in rig.core.handlers
    sent = set().union(*(numbers_in(path)[0] for path in SOURCES))
    sent |= {
        "RECORDS_STORED",
        "RECORDS_REFUSED",
    }  # by a store of records, which only the simulator has so far
    assert not stated.keys() - sent, f"never sent: {stated.keys() - sent}"


def test_the_core_has_a_handler_for_every_message_to_a_node_which_names_its_record() -> None:
    core = Rig().core
    handlers = dict(core.handlers)  # of a head
    head = {"node_id": b"head".ljust(28, b"."), "total": {}, "labels": {}, "head": True}
    core.cluster.join(50, head, 0.0)
    handlers |= core.handlers  # of a member
    recovering = Rig(records=(MemberRecord(201, b"node", "name"),)).core.recovery
    assert recovering is not None
    handlers |= {tag: each for tag, each in recovering.reports.items() if tag not in handlers}
    to_core = {tag: record for tag, record in RECORDS.items() if tag in handlers}
    expected = FROM_CLIENTS | FROM_WORKERS | DIRECTIONS["node → node"]
    assert not {record.__name__ for tag, record in expected.items() if tag not in handlers}
    for tag, record in to_core.items():
        assert typing.get_type_hints(handlers[tag])["message"] is record, handlers[tag]


def numbers_in(path: Path) -> tuple[set[str], set[str]]:
    """Return the names of messages that a file sends, and those that it handles, as a key of handlers or in a
    comparison."""
    sent, handled = set(), set()

    def name_of(node: ast.expr | None) -> str:
        if (
            isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and node.value.id in ("m", "se")
        ):
            return node.attr
        return node.id if isinstance(node, ast.Name) else ""

    for node in ast.walk(ast.parse(path.read_text())):
        if (
            isinstance(node, ast.Call)
            and node.args
            and name_of(node.func) == _record_of(name_of(node.args[0]))
        ):
            sent.add(name_of(node.args[0]))
        elif isinstance(node, ast.Tuple) and node.elts:
            sent.add(name_of(node.elts[0]))
        elif isinstance(node, ast.Dict):
            handled |= set(map(name_of, node.keys))
        elif isinstance(node, ast.Subscript):
            handled.add(name_of(node.slice))
        elif isinstance(node, ast.Compare):
            handled |= set(map(name_of, node.comparators))
    return sent, handled


def _record_of(constant: str) -> str:
    return "".join(part.title() for part in constant.split("_")) or "?"


def test_every_message_is_sent_and_handled() -> None:
    found = [numbers_in(path) for path in SOURCES]
    sent, handled = (set().union(*(each[side] for each in found)) for side in (0, 1))
    names = {constant_of(record) for record in RECORDS.values()}
    # The caller of a node takes whatever is not REFUSED for its welcome.
    assert not names - sent, f"never sent: {names - sent}"
    assert names - handled == {"WELCOME"}, f"never handled: {names - handled}"


def sample(kind: Any) -> Any:
    """A value of a field's type."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is Annotated:
        if arguments[0] is Any:  # a strategy
            return None
        lengths = [mark.lengths[0] for mark in arguments[1:] if isinstance(mark, Length)]
        return bytes(lengths[0]) if lengths else sample(arguments[0])
    if origin is typing.Literal:
        return arguments[0]
    if origin is tuple:
        return (sample(arguments[0]),) if arguments[1:] == (Ellipsis,) else tuple(map(sample, arguments))
    if origin is dict:
        return {sample(arguments[0]): sample(arguments[1])}
    if is_field_dict(kind):
        return {name: sample(each) for name, each in typing.get_type_hints(kind, include_extras=True).items()}
    if origin is not None and origin is not list:
        return sample(arguments[0])
    return {int: 1, bool: True, str: "task", bytes: b"bytes", list: (1,), type(None): None}.get(
        origin or kind, b"any"
    )


def filled(record: Any) -> Any:
    hints = typing.get_type_hints(record, include_extras=True)
    return record(*map(sample, hints.values()))


@pytest.mark.parametrize("tag", sorted(RECORDS), ids=lambda tag: RECORDS[tag].__name__)
def test_a_message_is_the_same_after_a_journey_over_a_socket(tag: int) -> None:
    message = filled(RECORDS[tag])
    ours, theirs = (Channel(end) for end in socket.socketpair())
    ours.push(message)
    assert ours.flush()
    (arrived,) = theirs.read()
    ours.close()
    theirs.close()
    assert type(arrived) is tuple and arrived == tuple(message) and arrived[0] == tag
    assert RECORDS[tag](*arrived) == message
    if tag in FROM_CLIENTS | FROM_WORKERS and tag != m.DONE:
        assert message_check(RECORDS[tag])(arrived)


@pytest.mark.parametrize("alias", sorted(HOT))
def test_the_alias_of_what_is_sent_as_a_plain_tuple_has_the_fields_of_its_record(alias: str) -> None:
    tag, *kinds = typing.get_args(HOT[alias])
    for number in typing.get_args(tag):
        hints = list(typing.get_type_hints(RECORDS[number], include_extras=True).values())
        for ours, theirs in zip(map(_plain, kinds), map(_plain, hints[1:]), strict=True):
            assert ours in (theirs, Any) or theirs is Any


def _plain(kind: Any) -> Any:
    return typing.get_args(kind)[0] if typing.get_origin(kind) is Annotated else kind


def test_a_record_is_a_tuple_with_names() -> None:
    kill = m.Kill(m.KILL, bytes(16), no_restart=True)
    assert kill == (m.KILL, bytes(16), True) and kill.no_restart and hash(kill) == hash(tuple(kill))
    for again in (pickle.loads(pickle.dumps(kill)), copy.copy(kill), copy.deepcopy(kill)):
        assert type(again) is m.Kill and again == kill
    assert repr(kill) == f"Kill(tag={m.KILL}, actor_id={bytes(16)!r}, no_restart=True)"
    match Spawn(3, None):
        case Spawn(cid, environment):
            assert (cid, environment) == (3, None)
    with pytest.raises(AttributeError):
        kill.no_restart = False  # type: ignore[misc]


@pytest.mark.parametrize(
    ("given", "named"), [((7,), {}), ((7, b"", True, 1), {}), ((7, b""), {"force": True})]
)
def test_a_record_with_other_fields_is_refused(given: tuple[Any, ...], named: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match="Kill has the fields"):
        m.Kill(*given, **named)


def test_the_page_is_current() -> None:
    assert PAGE.read_text() == page(), "write docs/protocol.md anew: python -m tests.protocol.page"


def test_strategies_of_all_kinds_are_checked() -> None:
    valid = [None, ("spread",), ("bundle", b"g", 0, True), ("labels", (("zone", "in", ("a",)),), ())]
    valid += [("node", b"n", False, when_busy) for when_busy in ("wait", "spill", "fail")]
    assert all(map(is_strategy, valid))
    wrong = [
        ("node", b"n", False),
        ("node", b"n", False, "run"),
        ("node", b"n", 0, "wait"),
        ("none",),
        (),
        "spread",
    ]
    assert not any(map(is_strategy, wrong))
