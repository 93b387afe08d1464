"""Cases of the order among members: once and in order per pair, nothing before a binding frame, departures last."""

from __future__ import annotations

import pytest

from skate.fabric.order import AGE_MAX, DATA, JOINED, LEFT, Delivery, Order, OrderError
from skate.fabric.order_lane import Receipt, Write
from tests.fabric.net import Net, Overtaken, read


def borrow(net: Net) -> tuple[int, int]:
    """Node 2 holds what 0 owns, node 1 gives it back after it has heard of that. Return the frames of 2 and of 1."""
    hold = net.send(2, 0, binds=True)
    net.send(2, 1)
    net.flush(2)
    read(net, 1, 2)
    free = net.send(1, 0)
    net.flush(1)
    read(net, 0, 1)
    return hold, free


def quiet(count: int, binding: bool = True) -> Net:
    net = Net(count, binding)
    net.settle()
    return net


def test_a_frame_waits_for_the_binding_one_that_it_follows_from() -> None:
    net = quiet(3)
    hold, free = borrow(net)
    assert not net.delivered[0] and net.orders[0].held() == {1: 1}
    read(net, 0, 2)
    assert [*net.got[2, 0], *net.got[1, 0]] == [hold, free] and not net.orders[0].held()
    net.settle()


def test_without_binding_frames_it_would_not() -> None:
    with pytest.raises(Overtaken):
        borrow(quiet(3, binding=False))


def test_a_stamp_goes_on_through_members_that_it_is_not_about() -> None:
    net = quiet(5)
    net.send(4, 0, binds=True)
    for source, to in ((4, 3), (3, 2), (2, 1), (1, 0)):
        net.send(source, to)
        net.flush(source)
        read(net, to, source)
    assert net.orders[0].held() == {1: 1}
    net.settle()


def test_a_stamp_stays_while_the_write_that_carries_it_waits() -> None:
    net = quiet(4)
    borrow(net)
    net.answer(0, 1)
    read(net, 1, 0)
    for source, to in ((1, 3), (3, 0)):
        net.send(source, to)
        net.flush(source)
        read(net, to, source)
    assert net.orders[0].held() == {1: 1, 3: 1}
    net.settle()


def test_stamps_disappear_when_what_they_name_has_arrived() -> None:
    net = quiet(4)
    borrow(net)
    net.send(1, 3)
    net.settle()
    assert net.orders[2].stamps == []
    assert net.orders[1].stamps == [], "the write to 0 that carried it was delivered"
    assert net.orders[3].stamps != [], "nobody has told it"
    net.send(1, 3)
    net.settle()
    assert net.orders[3].stamps == []


def test_a_stamp_that_nobody_speaks_of_is_dropped_after_some_turns() -> None:
    net = quiet(3)
    net.send(2, 0, binds=True)
    net.send(2, 1)
    net.flush(2)
    read(net, 1, 2)
    for _ in range(AGE_MAX):
        net.orders[1].turn()
        net.orders[2].turn()
    assert net.orders[1].stamps != []
    net.orders[1].turn()
    net.orders[2].turn()
    assert net.orders[1].stamps == []
    assert net.orders[2].stamps != [], "the source keeps it until it has a receipt"


def test_the_age_of_a_stamp_travels_with_it() -> None:
    net = quiet(4)
    net.send(2, 0, binds=True)
    net.send(2, 1)
    net.flush(2)
    read(net, 1, 2)
    net.orders[1].turn()
    net.send(1, 3)
    net.flush(1)
    read(net, 3, 1)
    assert [stamp[3] for stamp in net.orders[3].stamps] == [1]


def test_a_stamp_is_told_to_each_lane_once() -> None:
    order = Order(1, (0, 2))
    order.send(0, "hold", binds=True)
    for _ in range(3):
        order.send(2, "frame")
        order.writes()
    assert [len(write.stamps) for write in order.resume(2, 0)] == [1, 0, 0]


def test_no_stamps_without_binding_frames() -> None:
    net = quiet(3)
    for source, to in ((0, 1), (1, 2), (2, 0)):
        net.send(source, to)
    net.settle()
    assert all(not order.stamps for order in net.orders.values())


def test_a_lane_continues_over_another_connection() -> None:
    net = quiet(2)
    numbers = []
    for _ in range(5):
        numbers.append(net.send(0, 1))
        net.flush(0)
    net.carry(0, 1)
    net.reconnect(0, 1, lost=2, also_lost=0)
    numbers.append(net.send(0, 1))
    net.flush(0)
    net.settle()
    assert net.got[0, 1] == numbers


def test_a_receipt_empties_the_window() -> None:
    net = quiet(2)
    net.send(0, 1)
    net.flush(0)
    net.carry(0, 1)
    assert net.orders[0].backlog(1) == 1
    net.answer(1, 0)
    net.carry(1, 0)
    assert net.orders[0].backlog(1) == 0 and net.orders[1].receipt(0) is None


def test_a_gap_and_a_member_without_memory_are_refused() -> None:
    net = quiet(2)
    net.send(0, 1)
    net.flush(0)
    write = net.wires[0, 1].popleft()
    with pytest.raises(OrderError, match="came after"):
        net.orders[1].receive(0, write._replace(number=write.number + 1))
    with pytest.raises(OrderError, match="has received write"):
        net.orders[0].resume(1, write.number + 1)
    net.orders[1].receive(0, write)
    net.answer(1, 0)
    net.carry(1, 0)
    with pytest.raises(OrderError, match="were discarded"):
        net.orders[0].resume(1, 0)


def test_a_frame_of_a_later_view_waits_for_the_news() -> None:
    net = quiet(3)
    newcomer = net.join()
    net.flush(0)
    read(net, 2, 0)
    net.send(newcomer, 1)
    net.flush(newcomer)
    read(net, 1, newcomer)
    net.send(2, 1)
    net.flush(2)
    read(net, 1, 2)
    assert not net.delivered[1]
    read(net, 1, 0)
    assert net.news[1][-1] == (JOINED, newcomer) and len(net.delivered[1]) == 2


def test_a_departure_follows_what_has_arrived_and_nothing_follows_it() -> None:
    net = quiet(3)
    for _ in range(2):
        net.send(2, 1)
        net.flush(2)
    late = net.wires[2, 1][-1]
    net.kill(2, lost=0)
    net.bury(0)
    read(net, 1, 0)
    assert net.news[1][-1] != (LEFT, 2), "its frames have not been read"
    read(net, 1, 2)
    net.bury(1)
    assert len(net.got[2, 1]) == 2 and net.news[1][-1] == (LEFT, 2)
    assert net.orders[1].receive(2, late._replace(number=3)) == []


def test_the_head_tells_a_departure_after_what_it_has_of_that_member() -> None:
    net = quiet(3)
    net.send(2, 0)
    net.flush(2)
    net.kill(2, lost=0)
    assert net.orders[0].writes() == [] and net.news[0] == []
    read(net, 0, 2)
    net.bury(0)
    assert net.news[0] == [(LEFT, 2)]
    assert [write.kind for write in net.wires[0, 1]] == [LEFT]


def test_members_that_leave_together_are_told_in_one_write() -> None:
    head, dead = Order(0, range(1, 1002)), range(902, 1002)
    for member in dead:
        head.dismiss(member, "has died")
        head.ended(member)
    writes = head.writes()
    assert [to for to, _ in writes] == list(range(1, 902))
    assert {tuple(member for member, _ in write.frames) for _, write in writes} == {tuple(dead)}
    assert head.view - writes[0][1].view == len(dead)


def test_the_second_of_two_that_leave_may_have_known_of_the_first() -> None:
    order = Order(1, (0, 2, 3))
    late = Write(1, DATA, 1, Receipt(0, 0), (), ("of 3, which has heard of the end of 2",))
    assert order.receive(3, late) == []
    news = ((2, "has died"), (3, "has died"))
    assert order.receive(0, Write(1, LEFT, 0, Receipt(0, 0), (), news)) == []
    assert order.ended(2) == [Delivery(0, LEFT, news[:1]), Delivery(3, DATA, late.frames)]
    order.check()
    assert order.ended(3) == [Delivery(0, LEFT, news[1:])]
    order.check()
    assert order.members == {0} and order.view == 2 and order.receipt(0) == (1, 1)


def test_the_news_of_a_death_is_read_behind_what_waits_for_the_dead() -> None:
    net = quiet(3)
    net.send(2, 1, binds=True)
    net.send(2, 0)
    net.flush(2)
    read(net, 0, 2)
    net.send(0, 1)  # follows from the frame of 2 to 1, which is about to be lost
    net.flush(0)
    read(net, 1, 0)
    assert not net.delivered[1]
    net.wires[2, 1].clear()
    net.kill(2, lost=0)
    net.bury(0)
    read(net, 1, 0)
    assert not net.delivered[1]
    net.bury(1)
    assert net.got[0, 1] and net.news[1][-1] == (LEFT, 2)


def test_an_express_frame_overtakes_what_is_held_back() -> None:
    net = quiet(3)
    borrow(net)
    net.orders[1].send_express(0, "relayed")
    net.flush(1)
    net.carry(1, 0)
    assert net.express[0] == ["relayed"] and not net.delivered[0]
    net.settle()
    assert net.express[0] == ["relayed"]


def test_a_receipt_that_was_lost_with_its_connection_is_sent_again() -> None:
    net = quiet(3)
    net.send(2, 0, binds=True)
    net.flush(2)
    read(net, 0, 2)
    net.answer(0, 2)
    net.reconnect(0, 2, lost=1, also_lost=0)
    net.settle()
    assert net.orders[2].stamps == [] and net.orders[2].backlog(0) == 0


def test_nothing_is_sent_to_one_that_leaves() -> None:
    net = quiet(3)
    net.kill(2, lost=0)
    net.orders[0].send(2, "frame")
    net.orders[0].send_express(2, "frame")
    assert net.orders[0].writes() == []
    net.orders[0].send(7, "frame")
    assert net.orders[0].writes() == []


def test_many_that_join_are_one_write_before_what_follows() -> None:
    head, member = Order(0), Order(1, [0], 1)
    head.holds_news = True
    head.admit(1, "one")
    for number in range(2, 6):
        head.admit(number, "info")
    assert head.writes() == []
    head.send(1, "hello")
    (_, news), (_, data) = head.writes()
    assert (news.kind, news.view, len(news.frames)) == (JOINED, 1, 4)
    assert [each.frames for each in member.receive(0, news)] == [
        ((number, "info"),) for number in range(2, 6)
    ]
    assert member.view == head.view == 5
    assert member.receive(0, data)[0].frames == ("hello",)
    head.tell()  # the others, to whom nothing else is written; the last one began with this view
    assert sorted((to, len(write.frames)) for to, write in head.writes()) == [(2, 3), (3, 2), (4, 1)]
    head.check()
    member.check()


def test_a_frame_that_binds_behind_news_is_awaited() -> None:
    """Its stamp names the write that it is in, and reaches a member that is told of its receiver at the same time."""
    head, one, two = Order(0), Order(1, [0], 1), Order(2, [0, 1], 2)
    head.holds_news = True
    for number in (1, 2, 3):
        head.admit(number, "info")
    head.send(2, "hold", binds=True)
    (_, news), (_, hold) = head.writes()
    head.send(1, "go")
    for _, write in head.writes():
        one.receive(0, write)
    one.send(2, "overtakes")
    ((_, late),) = one.writes()
    assert [each.kind for each in two.receive(0, news)] == [JOINED]
    assert two.receive(1, late) == []
    assert [each.frames for each in two.receive(0, hold)] == [("hold",), ("overtakes",)]
