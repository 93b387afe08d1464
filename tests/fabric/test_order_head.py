"""`Order` when the head changes: nothing waits for what an old head has not sent, and nothing overtakes what it has."""

from __future__ import annotations

from skate.fabric.order import DATA, JOINED, LEFT, Delivery, Order
from skate.fabric.order_lane import Receipt, Write, base_of


def only_write(order: Order) -> Write:
    ((_, write),) = order.writes()
    return write


def test_a_binding_frame_that_died_with_the_head_is_not_awaited() -> None:
    head = Order(0)
    head.members = {1, 2}
    one, other = Order(1, (0, 2)), Order(2, (0, 1))
    head.send(2, "hold", binds=True)
    only_write(head)  # it never arrives
    head.send(1, "ref")
    assert one.receive(0, only_write(head)) == [Delivery(0, DATA, ("ref",))]
    one.send(2, "follows")
    assert other.receive(1, only_write(one)) == []
    assert other.held() == {1: 1}
    assert other.lost_head() == [Delivery(1, DATA, ("follows",))]
    assert other.lost_head() == []
    other.check()


def test_after_a_change_the_stamps_of_the_old_head_count_as_delivered() -> None:
    head = Order(0)
    head.members = {1, 2}
    one, other = Order(1, (0, 2)), Order(2, (0, 1))
    head.send(2, "hold", binds=True)
    only_write(head)
    head.send(1, "ref")
    one.receive(0, only_write(head))
    one.send(2, "follows")
    late = only_write(one)
    assert other.change_head(base_of(2) + 1, (0, 1), (0,)) == []
    assert other.receive(1, late) == [Delivery(1, DATA, ("follows",))]
    assert other.receive(0, Write(base_of(2) + 1, DATA, base_of(2), Receipt(0, 0), (), ("new",))) == [
        Delivery(0, DATA, ("new",))
    ]
    other.send(0, "answer")
    assert only_write(other).number == base_of(2) + 1
    other.check()


def test_what_one_has_sent_who_never_returns_comes_before_its_departure() -> None:
    other = Order(2, (0, 1), 1)
    ahead = Write(
        1, DATA, 2, Receipt(0, 0), (), ("ahead",)
    )  # its sender knows of a change that never came here
    assert other.receive(1, ahead) == []
    view = base_of(2) + 5
    assert other.change_head(view, (0, 1), (0,)) == []
    left = Write(base_of(2) + 1, LEFT, view, Receipt(0, 0), (), ((1, "is gone"),))
    assert other.receive(0, left) == [Delivery(1, DATA, ("ahead",))]
    assert other.ended(1) == [Delivery(0, LEFT, ((1, "is gone"),))]
    assert other.members == {0}
    other.check()


def test_what_a_member_knew_is_told_before_its_messages() -> None:
    other = Order(2, (0, 1), 1)
    assert other.receive(1, Write(1, DATA, 2, Receipt(0, 0), (), ("ahead",))) == []
    view = base_of(2) + 5
    other.change_head(view, (0, 1), (0,))
    news = [(3, "known to 1"), (1, "has returned")]
    found = [
        other.receive(0, Write(base_of(2) + number, JOINED, view + number - 1, Receipt(0, 0), (), (each,)))
        for number, each in enumerate(news, 1)
    ]
    assert found[0] == [Delivery(0, JOINED, (news[0],))]
    assert found[1] == [Delivery(0, JOINED, (news[1],)), Delivery(1, DATA, ("ahead",))]
    other.check()
