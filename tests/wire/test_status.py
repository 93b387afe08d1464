"""A worker's slot: the tasks it has begun, and the answers it keeps."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skate.wire.status import (
    AHEAD_MAX,
    SLOT_BYTES,
    STATUS_SLOT,
    STATUS_TABLE_BYTES,
    OutOfTurn,
    Slot,
    StatusTable,
)


@pytest.fixture(scope="module")
def memory() -> Iterator[int]:
    fd = os.memfd_create("skate-test-status")
    os.ftruncate(fd, STATUS_TABLE_BYTES)
    yield fd
    os.close(fd)


class Pair:
    """One worker's slot, and the table that it is read from."""

    def __init__(self, fd: int) -> None:
        self.status_table = StatusTable(fd, 0)
        self.number = self.status_table.take()
        self.slot = Slot(fd, self.number * SLOT_BYTES)
        STATUS_SLOT.pack_into(self.slot.memory, 0, 1)  # the constructor
        self.turn = OutOfTurn(self.slot.memory)

    def died(self) -> tuple[int, frozenset[int], list[object]]:
        found = self.status_table.give_back(self.number)
        self.slot.memory.close()
        self.status_table.close()
        return found


@given(st.permutations(range(2, 40)), st.integers(0, 38))
def test_calls_begun_in_any_order_are_told_from_those_that_were_not(
    memory: int, order: list[int], count: int
) -> None:
    pair = Pair(memory)
    for sequence in order[:count]:
        pair.turn.begin(sequence)
    upto, ahead, _ = pair.died()
    begun = {1, *order[:count]}
    assert {n for n in range(1, 40) if n <= upto or n in ahead} == begun
    assert all(n > upto for n in ahead)


def test_calls_begun_in_turn_leave_no_bits(memory: int) -> None:
    pair = Pair(memory)
    for sequence in range(2, 3 * AHEAD_MAX):
        pair.turn.begin(sequence)
    assert pair.died() == (3 * AHEAD_MAX - 1, frozenset(), [])


def test_bits_are_used_again_and_cleared_for_the_next_worker(memory: int) -> None:
    rng = random.Random(1)
    pair = Pair(memory)
    waiting: list[int] = []
    for sequence in range(2, 2 * AHEAD_MAX):  # each waits for at most a hundred others
        waiting.append(sequence)
        if len(waiting) > 100:
            pair.turn.begin(waiting.pop(rng.randrange(50)))
    upto, ahead, _ = pair.died()
    assert {n for n in range(1, 2 * AHEAD_MAX) if n > upto and n not in ahead} == set(waiting)
    assert Pair(memory).died() == (1, frozenset(), [])


def test_a_call_too_far_ahead_makes_those_before_it_count_as_begun(memory: int) -> None:
    pair = Pair(memory)
    pair.turn.begin(5)
    pair.turn.begin(3 + AHEAD_MAX)
    assert pair.died() == (3 + AHEAD_MAX, frozenset(), [])


def test_answers_are_kept_up_to_the_bits_and_no_further(memory: int) -> None:
    pair = Pair(memory)
    queued: list[bytes] = []
    kept = []
    for number in range(1000):
        answer = (number, b"x" * 100)
        queued.append(msgpack.packb(answer))
        if not pair.slot.keep(queued):
            break
        kept.append(answer)
    pair.turn.begin(7)
    assert pair.died() == (1, frozenset({7}), kept)
    assert 100 < len(kept) < 1000
