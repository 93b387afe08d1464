"""The arena's allocator: no two live ranges overlap, no byte is lost, and warm memory is used first."""

from __future__ import annotations

import random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, multiple, rule

from skate.core.memory.arena import LARGE, PAGE, SMALL_UNIT, Allocator, rounded

CAPACITY = 4 << 20


class AllocatorMachine(RuleBasedStateMachine):
    """Compares an Allocator with a simple model: a list of the ranges in use."""

    offsets = Bundle("offsets")

    def __init__(self) -> None:
        super().__init__()
        self.allocator = Allocator(CAPACITY)
        self.live: dict[int, int] = {}

    @rule(
        target=offsets,
        size=st.one_of(st.integers(0, 5000), st.integers(LARGE - 100, 10 * LARGE), st.integers(0, CAPACITY)),
        alignment=st.sampled_from([1, 64, 64, 64, 512, 4096, 65536]),
    )
    def allocate(self, size: int, alignment: int) -> object:
        longest = self.allocator.largest_free
        offset = self.allocator.allocate(size, alignment)
        if offset is None:
            assert longest < rounded(size) + max(alignment, PAGE), "refused what would have fitted"
            return multiple()
        assert offset % max(alignment, PAGE if size >= LARGE else SMALL_UNIT) == 0
        end = offset + rounded(size)
        assert 0 <= offset < end <= CAPACITY
        assert all(end <= start or stop <= offset for start, stop in self.live.items())
        self.live[offset] = end
        return offset

    @rule(offset=consumes(offsets))
    def free(self, offset: int) -> None:
        assert self.allocator.free(offset) == self.live.pop(offset) - offset

    @rule(minimum=st.sampled_from([PAGE, LARGE]), limit=st.sampled_from([None, 10 * PAGE]))
    def give_back(self, minimum: int, limit: int | None) -> None:
        cold = self.allocator.cold_ranges(minimum, limit)
        for offset, size in cold:
            assert offset % PAGE == 0 == size % PAGE
            assert size >= minimum
            assert all(offset + size <= start or stop <= offset for start, stop in self.live.items())
        assert limit is None or sum(size for _, size in cold) <= limit

    @invariant()
    def holds(self) -> None:
        self.allocator.check()
        assert self.allocator.used == sum(end - start for start, end in self.live.items())

    def teardown(self) -> None:
        for offset in self.live:
            self.allocator.free(offset)
        self.allocator.check()
        assert self.allocator.used == 0
        assert self.allocator.largest_free == CAPACITY
        assert self.allocator.allocate(CAPACITY) == 0


TestAllocator = AllocatorMachine.TestCase
TestAllocator.settings = settings(max_examples=60, stateful_step_count=50, deadline=None)


def test_the_range_just_freed_is_used_again_before_memory_never_used() -> None:
    allocator = Allocator(1 << 30)
    first = allocator.allocate(100 << 20)
    other = allocator.allocate(50 << 20)
    for _ in range(10):
        allocator.free(first)
        allocator.cold_ranges()
        assert allocator.allocate(100 << 20) == first
    assert other is not None
    assert allocator.used + allocator.free_warm == 150 << 20


def test_of_ranges_that_fit_alike_the_newest_is_used_first() -> None:
    allocator = Allocator(1 << 24)
    offsets = [allocator.allocate(LARGE) for _ in range(8)]
    for offset in (offsets[4], offsets[2], offsets[6]):
        allocator.free(offset)
    assert [allocator.allocate(LARGE) for _ in range(3)] == [offsets[6], offsets[2], offsets[4]]


def test_a_small_object_goes_into_the_snuggest_warm_range() -> None:
    allocator = Allocator(1 << 30)
    sizes = [10 << 20, 1 << 20, 20 << 20]
    offsets = [allocator.allocate(size) for size in sizes for _ in (0, 1)]
    for offset in offsets[::2]:
        allocator.free(offset)
    assert allocator.allocate(900 << 10) == offsets[2]


def test_memory_idle_for_a_generation_is_cold_once_and_then_hollow() -> None:
    allocator = Allocator(1 << 24)
    offset = allocator.allocate(1 << 20)
    allocator.free(offset)
    assert allocator.cold_ranges() == []
    assert allocator.used + allocator.free_warm == 1 << 20
    assert allocator.cold_ranges() == [(offset, 1 << 20)]
    assert allocator.used + allocator.free_warm == 0
    assert allocator.cold_ranges() == []
    assert repr(allocator) == "Allocator(0 of 16777216 bytes used by 0 ranges, 0 warm, 1 free ranges)"


def test_a_busy_range_does_not_keep_the_idle_memory_beside_it() -> None:
    allocator = Allocator(1 << 26)
    allocator.free(allocator.allocate(1 << 25))
    given_back = 0
    for _ in range(3):
        allocator.free(allocator.allocate(1 << 20))
        given_back += sum(size for _, size in allocator.cold_ranges())
    assert given_back == (1 << 25) - (1 << 20)


def test_cold_memory_never_shares_a_page_with_a_live_object() -> None:
    allocator = Allocator(1 << 20)
    offsets = [allocator.allocate(5000) for _ in range(100)]
    keep = offsets[::20]
    for offset in set(offsets) - set(keep):
        allocator.free(offset)
    allocator.cold_ranges()
    cold = allocator.cold_ranges(minimum=PAGE)
    pages = {page for offset, size in cold for page in range(offset // PAGE, (offset + size) // PAGE)}
    assert pages
    assert all(not pages & set(range(offset // PAGE, (offset + 5000) // PAGE + 1)) for offset in keep)


def test_ranges_freed_in_different_generations_are_joined_when_needed() -> None:
    allocator = Allocator(8 * LARGE)
    for offset in [allocator.allocate(LARGE) for _ in range(8)]:
        allocator.free(offset)
        allocator.cold_ranges(minimum=1 << 30)
    assert allocator.largest_free == 8 * LARGE
    assert allocator.allocate(8 * LARGE) == 0


def test_a_full_arena_says_none_and_has_room_again_after_a_free() -> None:
    allocator = Allocator(1 << 20)
    offsets = [allocator.allocate(LARGE) for _ in range(16)]
    assert allocator.allocate(1) is None
    allocator.free(offsets[7])
    assert allocator.allocate(LARGE + 1) is None
    assert allocator.allocate(LARGE) == offsets[7]
    assert allocator.used == allocator.high_water == 1 << 20
    assert allocator.size_of(offsets[7]) == LARGE


def test_wrong_arguments_are_refused() -> None:
    allocator = Allocator(1 << 20)
    with pytest.raises(ValueError, match="size >= 0"):
        allocator.allocate(-1)
    with pytest.raises(ValueError, match="aligned to 48"):
        allocator.allocate(1, alignment=48)
    with pytest.raises(ValueError, match="at least one page"):
        Allocator(100)
    offset = allocator.allocate(1)
    allocator.free(offset)
    with pytest.raises(ValueError, match="freed twice"):
        allocator.free(offset)


def test_a_hundred_thousand_live_ranges_keep_every_invariant() -> None:
    chance = random.Random(7)
    allocator = Allocator(32 << 30)
    live = [allocator.allocate(chance.randrange(64, 300_000)) for _ in range(100_000)]
    for _ in range(20_000):
        at = chance.randrange(len(live))
        allocator.free(live[at])
        live[at] = allocator.allocate(chance.randrange(64, 300_000))
    allocator.check()
    assert len(allocator) == 100_000
    for offset in live:
        allocator.free(offset)
    allocator.check()
    assert allocator.largest_free == allocator.capacity
