"""Pulses: the signs of life of members that have nothing to write, and the echoes of the head."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from skate.fabric.connection import ECHO, PULSE
from skate.fabric.contact import Contact
from skate.fabric.directory import HEAD, HeadDirectory, MemberDirectory, Pulse, Refuse, Timing
from skate.fabric.mesh_head import GROUP_MEMBERS, TOGETHER_SECONDS
from skate.wire.pump import Pump
from skate.wire.timer import Timer
from tests.fabric.manual_mesh import Manual, talk

T = Timing()


@pytest.fixture
def mesh() -> Iterator[Manual]:
    found = Manual()
    yield found
    found.close()


def test_an_echo_renews_the_lease_from_the_sending_of_its_pulse() -> None:
    member = MemberDirectory(7, 1, 0.0)
    assert member.tick(1.0) == [Pulse(1, 0)] and not member.tick(1.5)
    member.echoed(1, 1.7)
    assert member.lease == 1.0 + T.silence and member.head.heard == 1.7
    assert member.tick(2.0) == [Pulse(2, 1)]
    assert member.tick(3.0) == [Pulse(3, 1)], "the second one is lost"
    member.echoed(3, 3.1)
    member.echoed(2, 3.2)  # it comes by another way
    assert member.lease == 3.0 + T.silence
    assert member.tick(4.0) == [Pulse(4, 3)]


def test_an_old_receipt_does_not_shorten_the_lease() -> None:
    contact = Contact(0.0)
    contact.write(1, 1.0)
    contact.pulse(1, 2.0)
    contact.confirm_pulse(1)
    contact.confirm(1)
    assert contact.confirmed == 2.0


def test_a_new_connection_gets_a_pulse_at_once() -> None:
    member = MemberDirectory(7, 1, 0.0)
    assert member.tick(1.0)
    member.reconnected()
    assert member.tick(1.1) == [Pulse(2, 0)]


def test_the_head_is_in_contact_with_a_member_that_has_its_echoes() -> None:
    head = HeadDirectory(1, 0.0)
    head.register(7, 0.0)
    head.heard(7, 0.0)
    contact = head.members[7].contact
    assert head.pulsed(7, 1, 0, 1.0) == [] and contact.confirmed == 0.0
    assert head.pulsed(7, 2, 0, 2.0) == [] and contact.confirmed == 0.0, "no echo has arrived"
    assert head.pulsed(7, 3, 2, 3.0) == [] and contact.confirmed == 2.0 and contact.heard == 3.0
    assert head.pulsed(8, 1, 0, 3.0) == [Refuse(8)]


def test_an_idle_cluster_writes_nothing_but_pulses(mesh: Manual) -> None:
    mesh.start(3)
    head, one, other = mesh.nodes
    talk(mesh, one, other)
    mesh.advance(3)
    before = [node.fabric.order._lane(HEAD).sent for node in (one, other)]
    from_head = [head.fabric.order._lane(node.number).sent for node in (one, other)]
    mesh.advance(30)
    assert [node.fabric.order._lane(HEAD).sent for node in (one, other)] == before
    assert [head.fabric.order._lane(node.number).sent for node in (one, other)] == from_head
    for node in (one, other):
        assert node.fabric.directory.head.confirmed >= mesh.now - 1.5 * T.beat
        contact = head.fabric.directory.members[node.number].contact
        assert min(contact.heard, contact.wrote) >= mesh.now - 1.5 * T.beat
        assert contact.confirmed >= mesh.now - 3 * T.beat
    assert not mesh.ends and not head.fabric.directory._look(mesh.now)[1]


def test_pulses_do_not_stop_while_a_member_writes(mesh: Manual) -> None:
    mesh.start(2)
    _, one = mesh.nodes
    for _ in range(30):
        one.send(mesh.nodes[0], 99, 0)
        mesh.advance(0.5)
    assert one.fabric.directory.head.confirmed >= mesh.now - 1.5 * T.beat and not mesh.ends


@pytest.mark.parametrize("frame", [(PULSE, "1", 0), (PULSE, 1), (ECHO, 1, 0)])
def test_an_invalid_pulse_ends_its_connection(mesh: Manual, frame: tuple[Any, ...]) -> None:
    mesh.start(2)
    head, one = mesh.nodes
    connection = head.fabric.lanes[one.number].connection
    own = one.fabric.lanes[HEAD].connection
    own.push(*frame)
    own.flush()
    mesh.until(lambda: head.fabric.lanes[one.number].connection is not connection)
    mesh.advance(1)
    talk(mesh, head, one)


def test_pulses_come_in_groups(mesh: Manual) -> None:
    mesh.start(1)
    head = mesh.nodes[0].fabric
    began, tick = head._began, T.beat / 4
    assert head._late_us(began + 40 * tick) == 0
    assert head._late_us(began + 40 * tick + TOGETHER_SECONDS / 2) == 0
    assert head._late_us(began + 40 * tick + 0.1) == 50_000
    assert head._late_us(began + 40 * tick - 0.1) == -50_000
    head.ids = {number: ("", number) for number in range(4 * GROUP_MEMBERS)}
    assert head._late_us(began + 40.25 * tick) == 0, "there are four groups between two ticks"
    assert head._late_us(began + 40.25 * tick + 0.01) == 5_000
    head.ids = {}


def test_a_member_moves_its_ticks_by_what_an_echo_asks_for(
    mesh: Manual, monkeypatch: pytest.MonkeyPatch
) -> None:
    mesh.start(2)
    head, one = mesh.nodes
    shifts: list[float] = []
    monkeypatch.setattr(Timer, "shift", lambda self, seconds: shifts.append(seconds))
    monkeypatch.setattr(head.fabric, "_late_us", lambda now: 1500)
    mesh.advance(5)
    assert shifts and set(shifts) == {-0.0015}


def test_a_timer_that_is_shifted_keeps_its_interval() -> None:

    pump = Pump(threading.RLock(), "test")
    calls: list[None] = []
    timer = Timer(pump, 3600.0, lambda: calls.append(None))
    try:
        with pump.lock:
            timer.shift(-3599.5)
            assert pump.wait(lambda: bool(calls), 30.0)
            assert not pump.wait(lambda: len(calls) > 1, 0.05), "the next is an hour away"
    finally:
        timer.close()
        pump.close()
    timer.shift(1.0)
