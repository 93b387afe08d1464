"""Secondary copies of values: kept after a read, used when the first copy is lost, dropped when memory is short."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

from skate.protocol import messages as m
from skate.protocol.states import CopyState
from skate.simulation.faults.rates import MIB, NO_FAULTS
from skate.simulation.nodes.star import Star
from skate.simulation.programs.spec import Spec
from tests.core.worlds import outcome


def read_on_a_third_node(*readers: int, arena_bytes: int = 8 * MIB) -> tuple[Star, Any]:
    """Create a driver's value on the second node, without retries, and read it on others."""
    nodes = Star(random.Random(1), [1, 1, 1, 1], faults=replace(NO_FAULTS, arena_bytes=arena_bytes))
    driver = nodes.nodes[0].driver()
    driver.todo.append(("submit", Spec("first", large=True, strategy=on(nodes, 1))))
    for number in readers:
        driver.todo.append(("submit", Spec("read", strategy=on(nodes, number)), (0,)))
    nodes.settle()
    return nodes, driver


def on(nodes: Star, number: int) -> Any:
    return ("node", nodes.nodes[number].node_id, True, "wait")


def result(nodes: Star, driver: Any) -> str:
    driver.todo.append(("get", 0))
    nodes.settle()
    return nodes.observer.result(driver.frame.refs[0])


def copies(nodes: Star, number: int) -> int:
    return len(nodes.nodes[number].core.remote_objects.copies.here)


@pytest.mark.parametrize(
    ("lost", "available"), [((1,), True), ((1, 2), True), ((2, 1), True), ((1, 2, 3), False)]
)
def test_value_is_there_while_a_node_lives_that_made_or_read_it(
    lost: tuple[int, ...], available: bool
) -> None:
    nodes, driver = read_on_a_third_node(2, 3)
    assert (copies(nodes, 2), copies(nodes, 3)) == (1, 1)
    for number in lost:
        nodes.kill(nodes.nodes[number])
        nodes.settle()
    assert result(nodes, driver) == ("ok" if available else "ObjectReconstructionFailedError")
    nodes.drain(without_timeouts=True)


def test_copy_goes_with_the_last_ref() -> None:
    nodes, driver = read_on_a_third_node(2)
    assert nodes.nodes[2].core.allocator.used
    driver.todo.append(("drop", 0))
    nodes.settle()
    assert not copies(nodes, 2)
    assert not nodes.nodes[2].core.allocator.used
    nodes.drain(without_timeouts=True)


def test_copy_is_the_first_to_go_when_memory_runs_short() -> None:
    nodes, driver = read_on_a_third_node(2, arena_bytes=MIB // 2)
    for _ in range(4):
        driver.todo.append(("submit", Spec("fill", large=True, strategy=on(nodes, 2))))
    nodes.settle()
    core = nodes.nodes[2].core
    assert not copies(nodes, 2)
    assert core.objects.get(driver.frame.refs[0]._id) is None
    record = nodes.nodes[0].core.objects.get(driver.frame.refs[0]._id)
    assert record is not None and not record.remote.copies
    nodes.kill(nodes.nodes[1])
    nodes.settle()
    assert result(nodes, driver) == "ObjectReconstructionFailedError"
    nodes.drain(without_timeouts=True)


def test_copy_that_has_become_the_value_is_not_let_go() -> None:
    nodes, driver = read_on_a_third_node(2, arena_bytes=MIB // 2)
    nodes.kill(nodes.nodes[1])
    nodes.settle()
    assert not copies(nodes, 2)
    for _ in range(4):
        driver.todo.append(("submit", Spec("fill", large=True, strategy=on(nodes, 2))))
    nodes.settle()
    assert result(nodes, driver) == "ok"
    nodes.drain(without_timeouts=True)


def test_copy_that_went_before_it_was_needed_is_lost_with_the_value() -> None:
    nodes, driver = read_on_a_third_node(2)
    reader, owner = nodes.nodes[2], nodes.nodes[0]
    assert reader.core.remote_objects.copies.evict()
    nodes.kill(nodes.nodes[1])
    nodes.settle()
    record = owner.core.objects.get(driver.frame.refs[0]._id)
    assert record is None or record.remote.place is None
    assert result(nodes, driver) == "ObjectReconstructionFailedError"
    nodes.drain(without_timeouts=True)


def read_from_its_owner(*readers: int) -> tuple[Star, Any]:
    """Create a driver's value on its own node, and read it on others."""
    nodes = Star(random.Random(1), [1, 1, 1, 1], faults=replace(NO_FAULTS, arena_bytes=8 * MIB))
    driver = nodes.nodes[0].driver()
    driver.todo.append(("submit", Spec("first", large=True, strategy=on(nodes, 0))))
    for number in readers:
        driver.todo.append(("submit", Spec("read", strategy=on(nodes, number)), (0,)))
    nodes.settle()
    return nodes, driver


def test_value_of_its_owner_is_read_once_and_goes_with_the_last_ref() -> None:
    nodes, driver = read_from_its_owner(2, 3)
    assert (copies(nodes, 2), copies(nodes, 3)) == (1, 1)
    oid = driver.frame.refs[0]._id
    place = nodes.nodes[2].core.objects.get(oid).payload
    driver.todo.append(("submit", Spec("read", strategy=on(nodes, 2)), (0,)))
    nodes.settle()
    assert nodes.nodes[2].core.objects.get(oid).payload == place
    driver.todo.append(("drop", 0))
    nodes.settle()
    assert (copies(nodes, 2), copies(nodes, 3)) == (0, 0)
    assert not nodes.nodes[2].core.allocator.used
    nodes.drain(without_timeouts=True)


def test_copy_of_a_lost_reader_is_forgotten() -> None:
    nodes, driver = read_from_its_owner(2, 3)
    record = nodes.nodes[0].core.objects.get(driver.frame.refs[0]._id)
    nodes.kill(nodes.nodes[2])
    nodes.settle()
    assert [peer.node_id for peer in record.remote.copies] == [nodes.nodes[3].node_id]
    nodes.drain(without_timeouts=True)


def test_words_about_what_is_not_known_are_answered_or_ignored() -> None:
    nodes, _ = read_on_a_third_node()
    core = nodes.nodes[0].core
    cid = next(iter(core.peers.alive))
    for word in CopyState:
        core.remote_objects.copies.copy_changed(cid, (m.COPY, bytes(28), word))
    assert core.effects == [(cid, m.Copy(m.COPY, bytes(28), CopyState.UNWANTED))]
    core.check()


@pytest.mark.parametrize(("retries", "expected"), [(1, "ok"), (0, "ObjectReconstructionFailedError")])
def test_value_that_cannot_be_read_where_it_was_made_is_made_again_by_its_owner(
    retries: int, expected: str
) -> None:
    nodes = Star(random.Random(1), [1, 1], faults=replace(NO_FAULTS, arena_bytes=MIB // 2, unreadable=1.0))
    driver = nodes.nodes[0].driver()
    driver.todo.append(("submit", Spec("first", large=True, retries=retries, strategy=on(nodes, 1))))
    nodes.settle()
    for _ in range(4):
        driver.todo.append(("submit", Spec("fill", large=True, strategy=on(nodes, 1))))
    nodes.settle()
    reader = Spec("read", strategy=on(nodes, 1))
    driver.todo.append(("submit", reader, (0,)))
    nodes.settle()
    assert nodes.observer.counts["fault unreadable"], "the value was not written to disk"
    assert outcome(nodes, reader) == expected
    assert result(nodes, driver) == expected
    nodes.drain(without_timeouts=True)
