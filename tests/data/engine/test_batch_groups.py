"""Groups of small batches, which a loop receives at once and finishes itself."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from skate import data
from skate.data.block.batcher import batches_of, groups_of
from skate.data.iteration.batch_group import QUICK_BYTES_MAX, BatchGroup


def blocks_of(sizes: list[int]) -> list[pa.Table]:
    """Blocks of consecutive numbers."""
    ends = [sum(sizes[:at]) for at in range(len(sizes) + 1)]
    return [pa.table({"n": pa.array(range(a, b), pa.int64())}) for a, b in zip(ends, ends[1:], strict=False)]


@settings(deadline=None)
@given(
    sizes=st.lists(st.integers(0, 40), max_size=6),
    size=st.integers(1, 15),
    most=st.integers(1, 5),
    drop_last=st.booleans(),
)
def test_groups_hold_the_batches_in_their_order(
    sizes: list[int], size: int, most: int, drop_last: bool
) -> None:
    groups = list(groups_of(blocks_of(sizes), size, most, drop_last))
    assert all(1 <= len(group) <= most for group in groups)
    found = [table.column("n").to_pylist() for group in groups for table in group]
    assert found == [table.column("n").to_pylist() for table in batches_of(blocks_of(sizes), size, drop_last)]
    rows = sum(sizes) - (sum(sizes) % size if drop_last else 0)
    assert [n for batch in found for n in batch] == [*range(rows)]
    assert all(len(batch) == size for batch in found[:-1])


def test_no_batch_waits_for_the_next_block() -> None:
    asked = []

    def blocks() -> Iterator[pa.Table]:
        for number, block in enumerate(blocks_of([10, 10, 10])):
            asked.append(number)
            yield block

    groups = groups_of(blocks(), 4, 32)
    assert [len(table) for table in next(groups)] == [4, 4]
    assert asked == [0]
    assert [len(table) for table in next(groups)] == [4, 4, 4]
    assert asked == [0, 1]


def test_only_small_batches_of_numbers_are_left_to_the_loop() -> None:
    numbers = pa.table({"a": pa.array([1.0] * 8), "b": pa.array([1] * 8, pa.int16())})
    assert BatchGroup.pays_for(numbers)
    assert not BatchGroup.pays_for(numbers.append_column("c", pa.array(["text"] * 8)))
    assert not BatchGroup.pays_for(pa.table({"a": pa.array([0.0] * (QUICK_BYTES_MAX // 8 + 1))}))


def test_tensors_of_small_batches_have_memory_of_their_own() -> None:
    loop = data.range(1000).repartition(3).iter_torch_batches(batch_size=7)
    batches = list(loop)
    for batch in batches:
        batch["id"] += 1
    assert [int(n) for batch in batches for n in batch["id"]] == [*range(1, 1001)]
    assert [int(n) for batch in loop for n in batch["id"]] == [*range(1000)]


def test_a_loop_over_small_batches_can_be_left_early() -> None:
    seen = []
    for batch in data.range(10_000).iter_torch_batches(batch_size=10):
        seen.append(int(batch["id"][0]))
        if len(seen) == 3:
            break
    assert seen == [0, 10, 20]
