"""Where a node reads a value of another one: from the place, or from a node that has read it or reads it."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

from skate.core.cluster import remote_object
from skate.core.cluster.membership import Peer
from skate.core.cluster.remote_object import CHOICES_MAX, RANK_MAX, RemoteObject
from skate.core.memory.admission import Request
from skate.simulation.faults.rates import MIB, NO_FAULTS
from skate.simulation.nodes.mesh import Mesh
from skate.simulation.programs.spec import Spec


def peer(number: int, passes_on: bool = True) -> Peer:
    made = Peer(number, bytes([number]) * 28, {}, {})
    made.passes_on = passes_on
    return made


PLACE = peer(100)


def choose(remote: RemoteObject, *numbers: int) -> list[tuple[int, int]]:
    """Have new nodes ask one after the other; return the source and the rank of each."""
    readings = [remote.source_for(peer(number), PLACE, None) for number in numbers]
    return [(reading.source.cid, reading.rank) for reading in readings]


def test_readers_at_the_same_time_form_a_chain() -> None:
    assert choose(RemoteObject(), 1, 2, 3, 4) == [(100, 1), (1, 2), (2, 3), (3, 4)]


def test_a_chain_is_bounded_and_the_next_reader_begins_another() -> None:
    remote = RemoteObject()
    chosen = choose(remote, *range(1, 31))
    assert max(rank for _, rank in chosen) == RANK_MAX
    sources = [source for source, _ in chosen]
    assert max(sources.count(source) for source in sources) == 2


def test_copies_come_before_readers_and_lost_nodes_are_left_out() -> None:
    remote = RemoteObject()
    first, second, lost, silent = peer(1), peer(2), peer(3), peer(4, passes_on=False)
    lost.alive = False
    remote.copies = (first, second, lost, silent)
    assert choose(remote, 11, 12, 13) == [(100, 1), (1, 2), (2, 2)]
    assert choose(remote, 14) == [(11, 2)]


def test_a_reader_that_asks_again_goes_elsewhere_and_then_to_the_place() -> None:
    remote = RemoteObject()
    readers = [peer(number) for number in range(1, 5)]
    for reader in readers:
        remote.source_for(reader, PLACE, None)
    last = readers[-1]
    tried = [remote.readers[last].source, *(remote.source_for(last, PLACE, None).source for _ in range(4))]
    assert len({each.cid for each in tried[:2]}) == 2
    assert [each.cid for each in tried[2:]] == [100] * 3


def test_a_place_that_has_failed_is_tried_again_only_if_no_other_is_known() -> None:
    remote, reader = RemoteObject(), peer(1)
    assert remote.source_for(reader, PLACE, None).source is PLACE
    assert remote.source_for(reader, PLACE, None).source is PLACE
    remote, copy = RemoteObject(), peer(2)
    remote.copies = (copy,)
    assert remote.source_for(reader, PLACE, None).source is PLACE
    assert remote.source_for(reader, PLACE, None).source is copy


def test_a_reader_without_connections_of_its_own_waits_for_nobody() -> None:
    remote = RemoteObject()
    choose(remote, 1, 2)
    outside = peer(3, passes_on=False)
    reading = remote.source_for(outside, PLACE, None)
    assert (reading.source, reading.rank) == (PLACE, 1)
    assert choose(remote, 4) == [(2, 3)], "nobody reads from it"


def test_an_owner_that_reads_itself_passes_on_too() -> None:
    remote, here = RemoteObject(), peer(99)
    assert remote.source_for(peer(1), PLACE, here).source is here


def test_the_choice_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_object, "RANK_MAX", 1000)
    remote = RemoteObject()
    choose(remote, *range(CHOICES_MAX + 40))
    assert len(remote._others(peer(255), ())) == CHOICES_MAX


# -- with nodes

READERS = 6


def read_everywhere(seed: int = 1, **faults: Any) -> tuple[Mesh, Any]:
    """Read a value of the second node on all others, before it is there."""
    mesh = Mesh(random.Random(seed), [1] * (READERS + 2), faults=replace(NO_FAULTS, **faults))
    mesh.healed = True
    driver = mesh.nodes[0].driver()
    driver.todo.append(("submit", Spec("made", large=True, strategy=on(mesh, 1))))
    for number in range(READERS):
        driver.todo.append(("submit", Spec(f"read{number}", strategy=on(mesh, 2 + number)), (0,)))
    return mesh, driver


def on(mesh: Mesh, number: int) -> tuple[str, bytes, bool]:
    return ("node", mesh.nodes[number].node_id, True, "wait")


def reads(mesh: Mesh) -> dict[int, int]:
    """Return from how many nodes each node is read now, as the owner sees it."""
    core = mesh.nodes[0].core
    found: dict[int, int] = {}
    for record in core.objects.records.values():
        for reading in record.remote.readers.values() if record.remote is not None else ():
            number = next(n for n, node in mesh.nodes.items() if node.node_id == reading.source.node_id)
            found[number] = found.get(number, 0) + 1
    return found


def test_each_node_is_read_by_at_most_two_others() -> None:
    mesh, driver = read_everywhere(arena_bytes=8 * MIB)
    most: dict[int, int] = {}
    while mesh.step():
        for number, count in reads(mesh).items():
            most[number] = max(most.get(number, 0), count)
    mesh.settle()
    assert set(mesh.outcomes.values()) == {"ok"} and len(mesh.outcomes) == 1 + READERS
    assert len(most) > 1 and max(most.values()) <= 2, most
    assert not reads(mesh), "all reads are over"
    mesh.drain(without_timeouts=True)


@pytest.mark.parametrize("lost", range(1, 2 + READERS))
def test_readers_find_the_value_elsewhere_when_a_source_is_lost(lost: int) -> None:
    mesh, driver = read_everywhere(arena_bytes=8 * MIB)
    while not reads(mesh).get(lost):
        if not mesh.step():
            break
    mesh.kill(mesh.nodes[lost])
    mesh.settle()
    good = [word for word in mesh.outcomes.values() if word == "ok"]
    if lost > 1:
        assert len(good) >= READERS, mesh.outcomes
    mesh.drain(without_timeouts=True)


def test_a_node_without_memory_for_a_value_is_no_longer_a_source() -> None:
    mesh, driver = read_everywhere(arena_bytes=8 * MIB)

    def ask(request: Request) -> None:
        request.taker.refused(request, ("ObjectStoreFullError", {"message": "no room"}))

    for number in range(2, 2 + READERS):
        mesh.nodes[number].core.admission.ask = ask  # type: ignore[method-assign]
    mesh.settle()
    assert sorted(mesh.outcomes.values()) == ["ObjectStoreFullError"] * READERS + ["ok"]
    assert not reads(mesh)
    mesh.drain(without_timeouts=True)
