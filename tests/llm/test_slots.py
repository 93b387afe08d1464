"""Places of a batch: any coming and going keeps the books right and the places in use close together."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from skate.llm.embedded.slots import Slots


@given(st.integers(1, 9), st.lists(st.integers(0, 20), max_size=60))
def test_places_are_taken_freed_and_moved(size: int, commands: list[int]) -> None:
    slots: Slots[int] = Slots(size)
    where: dict[int, int] = {}
    for number, command in enumerate(commands):
        if command % 2 and where:
            gone = sorted(where)[command % len(where)]
            slots.free(where.pop(gone))
        else:
            place = slots.take(number)
            assert (place is None) == (len(where) == size)
            if place is not None:
                where[number] = place
        slots.check()
        for source, target, holder in slots.moves():
            assert where[holder] == source and target < source
            where[holder] = target
            slots.check()
        assert {holder: slot for slot, holder in slots} == where
        assert slots.high <= 2 or 2 * slots.high <= 3 * slots.used + 1
