"""Queues that clients share: turns by client and by request, whatever comes and goes."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skate.llm.fair_queue import FairQueue
from skate.llm.openai.client_identity import CHECKED_KEY, client_of


@dataclass(frozen=True, eq=False)
class Job:
    client: str
    request: str
    number: int = 0


def names(queue: FairQueue[Job], held: dict[str, int] | None = None) -> list[str]:
    """Take everything out."""
    out = []
    while queue:
        first = queue.peek() if held is None else None
        found = queue.popleft(held)
        assert first in (None, found)
        out.append(f"{found.client}{found.request}{found.number}")
    return out


def test_clients_take_turns_and_so_do_their_requests() -> None:
    queue: FairQueue[Job] = FairQueue()
    queue.extend(Job("a", request, number) for request in "xy" for number in range(3))
    queue.extend([Job("b", "x"), Job("b", "x", 1), Job("c", "x")])
    assert queue.size("a") == 6 and queue.largest() == "a" and len(queue) == 9
    assert names(queue) == ["ax0", "bx0", "cx0", "ay0", "bx1", "ax1", "ay1", "ax2", "ay2"]


def test_a_newcomer_waits_for_one_turn_of_each_other_client() -> None:
    queue: FairQueue[Job] = FairQueue()
    queue.extend(Job(client, "x", number) for client in "abc" for number in range(50))
    queue.popleft()
    queue.extend([Job("d", "x")])
    assert [queue.popleft().client for _ in range(4)] == ["b", "c", "a", "d"]


def test_of_those_that_hold_least_the_one_whose_turn_is_longest_ago_is_next() -> None:
    queue: FairQueue[Job] = FairQueue()
    queue.extend([Job("a", "x"), Job("b", "x"), Job("c", "x")])
    assert queue.next_client({"a": 2, "b": 1, "c": 1}) == "b"
    assert names(queue, {"a": 2, "b": 1, "c": 1}) == ["bx0", "cx0", "ax0"]


def test_what_is_put_back_is_its_clients_next() -> None:
    queue: FairQueue[Job] = FairQueue()
    queue.extend([Job("a", "x"), Job("a", "y"), Job("b", "x")])
    queue.put_back(Job("a", "z"))
    queue.put_back(Job("b", "x", 9))
    assert names(queue) == ["az0", "bx9", "ax0", "bx0", "ay0"]


@given(
    st.lists(st.tuples(st.sampled_from("arp"), st.sampled_from("xyz"), st.sampled_from("123")), max_size=80)
)
def test_nothing_is_lost_and_the_sizes_are_right(commands: list[tuple[str, str, str]]) -> None:
    queue: FairQueue[Job] = FairQueue()
    inside: list[Job] = []
    for number, (kind, client, request) in enumerate(commands):
        if kind == "a":
            inside.append(Job(client, request, number))
            queue.extend(inside[-1:])
        elif kind == "r" and inside:
            queue.remove(inside.pop(number % len(inside)))
        elif inside:
            inside.remove(queue.popleft())
        assert sorted(map(id, queue)) == sorted(map(id, inside)) and len(queue) == len(inside)
        sizes = Counter(each.client for each in inside)
        assert all(queue.size(each) == sizes[each] == len(list(queue.of(each))) for each in "xyz")
        assert not sizes or sizes[str(queue.largest())] == max(sizes.values())
    queue.clear()
    assert len(queue) == 0 and queue.largest() is None
    with pytest.raises(IndexError):
        queue.popleft()


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (("10.0.0.1", 4), ("10.0.0.1", 5), True),
        (("10.0.0.1", 4), ("10.0.0.2", 4), False),
        (("2001:db8::1", 4), ("2001:db8::ffff:2", 4), True),
        (("2001:db8::1", 4), ("2001:db8:0:1::1", 4), False),
        (("::ffff:10.0.0.1", 4), ("10.0.0.1", 5), True),
        (("::ffff:10.0.0.1", 4), ("::ffff:10.0.0.2", 4), False),
        (("a name", 4), None, False),
    ],
)
def test_a_client_is_its_address_or_its_network(
    one: tuple[str, int], other: tuple[str, int] | None, same: bool
) -> None:
    headers = [(b"x-forwarded-for", b"9.9.9.9")]
    assert (client_of({"client": one, "headers": headers}) == client_of({"client": other})) is same


def test_a_checked_key_counts_more_than_the_address_and_is_not_shown() -> None:
    one = client_of({"client": ("10.0.0.1", 4), CHECKED_KEY: b"sesame"})
    assert one == client_of({"client": ("10.0.0.2", 9), CHECKED_KEY: b"sesame"})
    assert one != client_of({"client": ("10.0.0.1", 4), CHECKED_KEY: b"other"})
    assert "sesame" not in one
