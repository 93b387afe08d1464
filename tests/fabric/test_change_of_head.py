"""Another head under the number of the last one: its lanes begin anew, and nothing waits for what the last one sent."""

from __future__ import annotations

from skate.fabric.order import Order
from skate.fabric.write import DATA, JOINED, LEFT, Receipt, Write

HEAD = 0
VIEW = 1000


def member(number: int = 1, others: tuple[int, ...] = (2, 3)) -> Order:
    return Order(number, {HEAD, *others})


def change(order: Order, members: tuple[int, ...]) -> list[tuple[int, object]]:
    """Return the news of the change: the kind and the member of each."""
    infos = {each: f"info of {each}" for each in members}
    found = order.change_head(HEAD, VIEW, infos, "info of the head", "was lost")
    order.check()
    return [(each.kind, each.frames[0][0] if each.kind != DATA else each.frames) for each in found]


def write(number: int, view: int, *stamps: tuple[int, int, int, int], frame: object = "frame") -> Write:
    return Write(number, DATA, view, Receipt(0, 0), stamps, (frame,))


def test_the_head_leaves_and_joins_and_so_do_members_that_it_does_not_know_or_that_are_new() -> None:
    order = member()
    assert change(order, (3, 4)) == [(LEFT, HEAD), (LEFT, 2), (JOINED, HEAD), (JOINED, 4)]
    assert order.members == {HEAD, 3, 4} and order.view == VIEW


def test_the_lane_of_the_head_begins_anew_and_others_continue() -> None:
    order = member()
    order.send(HEAD, "lost")
    order.send(2, "kept")
    assert order.receive(HEAD, write(1, 0)) and order.receive(2, write(1, 0))
    change(order, (2, 3))
    assert [(to, each.frames) for to, each in order.writes()] == [(2, ("kept",))]
    order.send(HEAD, "first")
    ((to, first),) = order.writes()
    assert (to, first.number, first.view) == (HEAD, 1, VIEW)
    assert order.receive(HEAD, write(1, VIEW)) and order.receive(2, write(2, 0))


def test_nothing_waits_for_what_the_last_head_did_not_send() -> None:
    order = member()
    bound = write(1, 0, (1, HEAD, 7, 0), frame="after a binding frame of the head")
    assert not order.receive(2, bound) and order.held() == {2: 1}
    assert not order.receive(3, write(1, 5, frame="after news of the head"))
    *_, one, other = change(order, (2, 3))
    assert {one[1], other[1]} == {("after a binding frame of the head",), ("after news of the head",)}
    # A member that has not changed its head yet still names the last one.
    assert order.receive(2, write(2, 0, (1, HEAD, 9, 0)))
    # One that has changed it names the new one.
    assert not order.receive(3, write(2, VIEW, (1, HEAD, 2, 0)))
    assert len(order.receive(HEAD, write(1, VIEW))) == 1
    assert len(order.receive(HEAD, write(2, VIEW))) == 2


def test_what_follows_the_change_at_its_sender_waits_for_it() -> None:
    order = member()
    assert not order.receive(2, write(1, VIEW))
    assert change(order, (2, 3))[-1] == (DATA, ("frame",))
